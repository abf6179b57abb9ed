"""Tests for drift of scores and of the class prior, by time window."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.decision.priors import estimate_prior

with requires("compare"):
    import pandas as pd

with requires("sklearn"):
    from scipy.special import chdtri
    from scipy.stats import ks_2samp


UNITS = ("h", "D", "W", "M", "Q", "Y")
MOST = 26
"""At most so many windows are told apart: half a year of weeks, a day of hours."""

PARTS = 10


def time_windows(times: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number of each row's window, from the earliest on, and the names of the windows.

    Dates go by the finest unit of the calendar that makes no more than 26 windows, weeks named by their Monday; numbers
    that are as few different ones stand for themselves, others are cut into ten windows of equally many rows.

    Examples
    --------
    >>> time_windows(np.asarray(["2026-01-30", "2026-03-02", "2027-01-05"], dtype="datetime64[us]"))[1]
    ['2026-01', '2026-03', '2027-01']
    >>> [found for found in time_windows(np.asarray([3.0, 1.0, 3.0]))]
    [array([1, 0, 1]), ['1', '3']]
    """
    if times.dtype.kind != "M":
        return _of_numbers(times)
    dates = pd.DatetimeIndex(times)
    for unit in UNITS:
        periods = dates.to_period(unit)
        if int(periods.asi8.max() - periods.asi8.min()) < MOST:
            break
    codes, kinds = pd.factorize(periods, sort=True)
    return codes.astype(np.int64), [str(kind).partition("/")[0] for kind in kinds]


def _of_numbers(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
    kinds, place = np.unique(values, return_inverse=True)
    if len(kinds) <= MOST:
        return place.astype(np.int64), [f"{kind:g}" for kind in kinds]
    edges = np.unique(np.quantile(values, np.arange(1, PARTS) / PARTS, method="inverted_cdf"))
    number = np.searchsorted(edges, values)
    inside = (values[number == k] for k in range(number.max() + 1))
    return number, [f"{own.min():g} to {own.max():g}" for own in inside]


BINS = 10
"""The usual number for the population stability index."""

MODERATE = 0.1
"""From this index on a shift is usually looked at (and from 0.25 on called large)."""

CELLS = 1000
"""Probabilities are drawn in at most so many cells of neighbours; rows of K classes in so many times five rows."""

DRAWS = 200


class ScoreShift(NamedTuple):
    """How the probabilities of new rows differ from those of held-out rows in training.

    ``psi`` is the population stability index, sum of (now - then) log(now / then) over ten bins that held equally many
    rows then; it tells something above ``limit``: 0.1, or what chance explains, if that is more. ``ks`` is the largest
    distance of the distribution functions, with its asymptotic ``p_value``. ``then`` and ``now`` are the shares of the
    bins, which end at ``edges``. Of K classes the class whose probabilities moved most, ``place``.
    """

    psi: float
    limit: float
    ks: float
    p_value: float
    edges: NDArray[np.float64]
    then: NDArray[np.float64]
    now: NDArray[np.float64]
    place: int = 1

    @property
    def shifted(self) -> bool:
        """Whether that is more than chance, and more than little."""
        return self.psi > self.limit


class PriorShift(NamedTuple):
    """The share of each class in training and among new rows, where ``low`` and ``high`` bound it.

    ``ratio`` is what the odds of a class among the others are to be multiplied with, up to a common factor.
    ``excluded``: whether the interval excludes the share in training, or the one that a policy has ``assumed``.
    """

    then: NDArray[np.float64]
    now: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    ratio: NDArray[np.float64]
    excluded: bool
    assumed: NDArray[np.float64] | None = None


def score_shift(then: NDArray[np.float64], now: NDArray[np.float64], *, level: float = 0.95) -> ScoreShift:
    """Compare two samples of probabilities: of the positive class, (n,), or of each of K classes, (n, K).

    Examples
    --------
    >>> then = np.linspace(0, 1, 1000)
    >>> score_shift(then, then**2).shifted, score_shift(then, then).psi
    (True, 0.0)
    """
    if then.ndim == 1:
        return _score_shift(then, now, level, 1)
    found = [_score_shift(then[:, j], now[:, j], level, j) for j in range(then.shape[1])]
    return max(found, key=lambda shift: shift.psi)


def _score_shift(then: NDArray[np.float64], now: NDArray[np.float64], level: float, place: int) -> ScoreShift:
    edges = _edges(then)
    shares = [_shares(edges, scores) for scores in (then, now)]
    psi = float(np.sum((shares[1] - shares[0]) * np.log(shares[1] / shares[0])))
    # without a shift the index is about a chi-square number of as many degrees as there are edges
    chance = (1.0 / len(then) + 1.0 / len(now)) * float(chdtri(len(edges), 1.0 - level))
    with np.errstate(divide="ignore", invalid="ignore"):  # of single rows
        distance = ks_2samp(then, now, method="asymp")
    numbers = (psi, max(MODERATE, chance), float(distance.statistic), float(distance.pvalue))
    return ScoreShift(*numbers, edges, shares[0], shares[1], place)


def _edges(then: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where bins of equally many rows end: between different scores, so that rounding carries none across."""
    kinds = np.unique(then)
    ends = np.unique(np.quantile(then, np.arange(1, BINS) / BINS, method="inverted_cdf"))
    beyond = ends * (1.0 + 1e-6) + 1e-12
    above = np.append(kinds, np.inf)[np.searchsorted(kinds, beyond, side="right")]
    return np.unique(np.where(np.isinf(above), beyond, (ends + above) / 2.0))


def _shares(edges: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares of the bins; half a row is added to each, as an empty one would make the index infinite."""
    counts = np.bincount(np.searchsorted(edges, scores), minlength=len(edges) + 1) + 0.5
    return np.asarray(counts / counts.sum())


def prior_shift(
    then: NDArray[np.float64], now: NDArray[np.float64], *,
    prior: NDArray[np.float64] | None = None, groups: NDArray[np.int64] | None = None, level: float = 0.95,
    seed: int = 0,
) -> PriorShift:  # fmt: skip
    """Estimate how the shares of the classes have changed, from probabilities of held-out rows and of new ones.

    Parameters
    ----------
    then, now : arrays of shape (n,) or (n, K)
        Probabilities of the positive class, or of each.
    prior : array of shape (K,), optional
        The shares in training; default: the mean of ``then``.
    groups : array of shape (n,), optional
        Numbers of the groups that the new rows come in.
    level : float, default 0.95
        Coverage of the interval.
    seed : int, default 0
        Of the draws.

    Notes
    -----
    The model's own mean probability in training, not ``prior``, is where expectation maximisation starts from: rows
    like those then come out unchanged, whether or not the probabilities are calibrated. What is found is a ratio of
    shares, which ``prior`` is multiplied with. Both samples are bootstrapped.
    """
    rng = np.random.default_rng(seed)
    before, after = _columns(then), _columns(now)
    old = before.mean(axis=0)
    old /= old.sum()
    prior = old if prior is None else np.asarray(prior, dtype=np.float64)
    ratio = _estimate(after, old) / old
    drawn = np.maximum(ratio + _chance_of_ratio(after, before, old, groups, rng), 0.0)
    tail = (1.0 - level) / 2.0 / (1 if len(old) == 2 else len(old))  # of many classes some move by chance
    low, high = np.quantile(_shares_by(drawn, prior), (tail, 1.0 - tail), axis=0)
    new = _shares_by(ratio, prior)
    excluded = bool(((low > prior * (1.0 + 1e-9)) | (high < prior * (1.0 - 1e-9))).any())
    return PriorShift(prior, new, np.minimum(low, new), np.maximum(high, new), ratio, excluded)


def _columns(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a column for each class; none of them impossible, as nothing would follow from the others then."""
    columns = probabilities if probabilities.ndim > 1 else np.stack((1.0 - probabilities, probabilities), axis=1)
    return np.maximum(columns, 1e-12)


def _estimate(
    columns: NDArray[np.float64], old: NDArray[np.float64], weight: NDArray[np.float64] | None = None, **limits: float
) -> NDArray[np.float64]:
    columns = columns / columns.sum(axis=1, keepdims=True)
    return np.asarray(estimate_prior(columns, old, sample_weight=weight, **limits))  # type: ignore[arg-type]


def _shares_by(ratio: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares that ``prior`` becomes when each is multiplied by a factor."""
    moved = ratio * prior
    return np.asarray(moved / moved.sum(axis=-1, keepdims=True))


def _chance_of_ratio(
    after: NDArray[np.float64], before: NDArray[np.float64], old: NDArray[np.float64],
    groups: NDArray[np.int64] | None, rng: np.random.Generator,
) -> NDArray[np.float64]:  # fmt: skip
    """Return how far the ratios of bootstrap draws of both samples lie from that of all rows, draws x K."""
    cell, values, counts = _cells(after, rng)
    centre = _estimate(values, old, counts) / old
    believed = old + _chance_of_mean(before, rng)
    believed /= believed.sum(axis=1, keepdims=True)
    found = np.empty((DRAWS, len(old)))
    for draw, start in enumerate(believed):
        if groups is None:
            weight: NDArray[Any] = rng.multinomial(len(after), counts / counts.sum())
        else:
            n = groups.max() + 1
            times = np.bincount(rng.integers(0, n, size=n), minlength=n)
            weight = np.bincount(cell[cell >= 0], weights=times[groups[cell >= 0]], minlength=len(values))
        kept = weight > 0
        found[draw] = _estimate(values[kept], start, weight[kept], tolerance=1e-6) / start - centre
    return found


def _chance_of_mean(columns: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return how far the means of bootstrap draws lie from that of all rows, draws x K."""
    _, values, counts = _cells(columns, rng)
    shares = counts / counts.sum()
    drawn = rng.multinomial(len(columns), shares, size=DRAWS) / len(columns)
    return np.asarray((drawn - shares) @ values)


def _cells(
    columns: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the cell of each row, and of each cell the mean probabilities and how many rows it has.

    Of two classes neighbours share a cell. Of more, some rows stand for all (the cell of the others is -1): as many
    draws from fewer different rows vary as much.
    """
    n, k = columns.shape
    if k == 2:
        edges = np.unique(np.quantile(columns[:, 1], np.linspace(0.0, 1.0, CELLS + 1)[1:-1]))
        cell = np.searchsorted(edges, columns[:, 1])
        counts = np.bincount(cell, minlength=len(edges) + 1).astype(np.float64)
        sums = np.stack([np.bincount(cell, weights=column, minlength=len(counts)) for column in columns.T], axis=1)
        full = np.flatnonzero(counts)
        return np.searchsorted(full, cell), sums[full] / counts[full, None], counts[full]
    rows = np.arange(n) if n <= 5 * CELLS else rng.choice(n, 5 * CELLS, replace=False)
    cell = np.full(n, -1)
    cell[rows] = np.arange(len(rows))
    return cell, columns[rows], np.ones(len(rows))
