"""Which method is cheapest, and how sure is that: intervals, paired differences, ranks and a verdict in words.

All functions read the results frame (one row for each finished cell), the costs of rows, or a summary of them, and
change nothing.
"""

from adacsl.experiments.statistics.differences import pairwise, summarise
from adacsl.experiments.statistics.paired import RowCosts, row_costs
from adacsl.experiments.statistics.ranking import Ranks, ranks
from adacsl.experiments.statistics.savings import Saving
from adacsl.experiments.statistics.verdicts import Verdict, overall, verdict, verdicts

__all__ = [
    "Ranks", "RowCosts", "Saving", "Verdict", "overall", "pairwise", "ranks", "row_costs", "summarise", "verdict",
    "verdicts",
]  # fmt: skip
