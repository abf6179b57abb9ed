"""Seven samples of two classes whose costs are summed one by one, and drawn ones."""

import numpy as np
from hypothesis import strategies as st

from adacsl.report.data import Outcome

SCORES = np.array([0.05, 0.15, 0.15, 0.35, 0.62, 0.68, 0.95])
LABELS = np.array([0, 0, 1, 0, 1, 0, 1])


def outcome(scores=SCORES, labels=LABELS, threshold=0.3, fp=1.0, fn=4.0, **other):
    """Return the outcome of deciding at a threshold."""
    decisions = (np.asarray(scores) > (0.5 if threshold is None else threshold)).astype(int)
    return Outcome(scores, labels, decisions, np.zeros(len(labels)), fp=fp, fn=fn, threshold=threshold, **other)


def cost_of(label, decision, fp=1.0, fn=4.0, tp=0.0, tn=0.0):
    """Return the cost of one decision."""
    return (tp if decision else fn) if label else (fp if decision else tn)


def total_at(threshold, scores=SCORES, labels=LABELS, **costs):
    """Return the total cost of deciding at a threshold."""
    return sum(cost_of(label, score > threshold, **costs) for score, label in zip(scores, labels, strict=True))


@st.composite
def cases(draw):
    """Draw scores with ties, labels, fp and fn."""
    n = draw(st.integers(2, 25))
    scores = np.array(draw(st.lists(st.integers(0, 10), min_size=n, max_size=n))) / 10
    labels = np.array(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    return scores, labels, draw(st.sampled_from([0.25, 1.0, 7.0])), draw(st.sampled_from([0.5, 3.0, 1e6]))
