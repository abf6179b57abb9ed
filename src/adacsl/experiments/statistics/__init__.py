"""Which method is cheapest, and how sure is that: intervals, paired differences, ranks and a verdict in words.

All functions read the results frame (one row for each finished cell) or a summary of it, and change nothing.
"""

from adacsl.experiments.statistics.differences import pairwise, summarise
from adacsl.experiments.statistics.ranking import Ranks, ranks
from adacsl.experiments.statistics.savings import Saving
from adacsl.experiments.statistics.verdicts import Verdict, overall, verdict, verdicts

__all__ = ["Ranks", "Saving", "Verdict", "overall", "pairwise", "ranks", "summarise", "verdict", "verdicts"]
