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
"""The largest number of time windows: half a year of weeks, a day of hours."""

PARTS = 10
"""The number of windows of numeric times with more different values."""


def time_windows(times: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the window number of each sample, in order of time, and the names of the windows.

    Dates are grouped by the finest calendar unit that gives at most 26 windows; weeks are named by their Monday. At
    most 26 different numbers are windows of their own; more are divided into ten windows of equally many samples.

    Parameters
    ----------
    times : array of shape (n,)
        Dates (datetime64) or numbers.

    Returns
    -------
    numbers : array of shape (n,)
        Window of each sample, from 0.
    names : list of str
        Name of each window.

    Examples
    --------
    >>> time_windows(np.asarray(["2026-01-30", "2026-03-02", "2027-01-05"], dtype="datetime64[us]"))[1]
    ['2026-01', '2026-03', '2027-01']
    >>> list(time_windows(np.asarray([3.0, 1.0, 3.0])))
    [array([1, 0, 1]), ['1', '3']]
    """
    if times.dtype.kind != "M":
        return _numeric_windows(times)
    dates = pd.DatetimeIndex(times)
    for unit in UNITS:
        periods = dates.to_period(unit)
        if int(periods.asi8.max() - periods.asi8.min()) < MOST:
            break
    codes, kinds = pd.factorize(periods, sort=True)
    return codes.astype(np.int64), [str(kind).partition("/")[0] for kind in kinds]


def _numeric_windows(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
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
"""An index above this value usually counts as moderate drift (above 0.25: as large)."""

POINTS = 1000
"""Two-class probabilities are bootstrapped as at most so many groups of neighbours; K classes as five times so many."""

DRAWS = 200
"""The number of bootstrap draws."""


class ScoreShift(NamedTuple):
    """Difference between the probabilities of new samples and those of held-out samples in training.

    Attributes
    ----------
    psi : float
        Population stability index: the sum of (now - then) log(now / then) over ten bins that held equally many samples
        in training.
    limit : float
        Drift is reported above this value: 0.1, or the ``level`` quantile of the index without drift if larger.
    ks : float
        Kolmogorov-Smirnov statistic.
    p_value : float
        Its asymptotic p-value.
    edges : array of shape (bins - 1,)
        Where the bins end.
    then : array of shape (bins,)
        Shares of the bins in training.
    now : array of shape (bins,)
        Shares of the bins among the new samples.
    place : int
        The class whose probabilities are compared; of K classes the one with the largest index.

    See Also
    --------
    score_shift : Returns it.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.monitoring.drift import score_shift
    >>> rng = np.random.default_rng(0)
    >>> score_shift(rng.beta(2, 8, 500), rng.beta(2, 8, 500)).shifted
    False
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
        """Whether the index is above ``limit``."""
        return self.psi > self.limit


class PriorShift(NamedTuple):
    """Class prior in training, and as estimated on new samples.

    Attributes
    ----------
    then : array of shape (K,)
        The share of each class in training.
    now : array of shape (K,)
        The estimate on the new samples.
    low : array of shape (K,)
        Lower end of the interval of the estimate.
    high : array of shape (K,)
        Upper end of the interval of the estimate.
    ratio : array of shape (K,)
        New prior over old prior, up to a common factor.
    excluded : bool
        Whether the interval excludes the prior in training, or that assumed by a policy.
    assumed : array of shape (K,) or None
        The prior that a policy assumes.

    See Also
    --------
    prior_shift : Returns it.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.monitoring.drift import prior_shift
    >>> rng = np.random.default_rng(0)
    >>> shift = prior_shift(rng.beta(2, 8, 500), rng.beta(2, 8, 500))
    >>> shift.excluded
    False
    """

    then: NDArray[np.float64]
    now: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    ratio: NDArray[np.float64]
    excluded: bool
    assumed: NDArray[np.float64] | None = None


def score_shift(then: NDArray[np.float64], now: NDArray[np.float64], *, level: float = 0.95) -> ScoreShift:
    """Return the drift between two sets of probabilities.

    Parameters
    ----------
    then, now : arrays of shape (n,) or (n, K)
        Probabilities of held-out samples in training, and of new samples: of the positive class, or of each class.
    level : float, default 0.95
        An index below this quantile of its distribution without drift is never reported as drift.

    Returns
    -------
    ScoreShift
        Of K classes that of the class with the largest population stability index.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.monitoring.drift import score_shift
    >>> then = np.linspace(0, 1, 1000)
    >>> score_shift(then, then**2).shifted, score_shift(then, then).psi
    (True, 0.0)
    """
    if then.ndim == 1:
        return _score_shift(then, now, level, 1)
    result = [_score_shift(then[:, j], now[:, j], level, j) for j in range(then.shape[1])]
    return max(result, key=lambda shift: shift.psi)


def _score_shift(then: NDArray[np.float64], now: NDArray[np.float64], level: float, place: int) -> ScoreShift:
    edges = _edges(then)
    shares = [_shares(edges, scores) for scores in (then, now)]
    psi = float(np.sum((shares[1] - shares[0]) * np.log(shares[1] / shares[0])))
    # without drift the scaled index is about chi-square distributed, with as many degrees of freedom as edges
    chance = (1.0 / len(then) + 1.0 / len(now)) * float(chdtri(len(edges), 1.0 - level))
    with np.errstate(divide="ignore", invalid="ignore"):  # of single samples
        distance = ks_2samp(then, now, method="asymp")
    numbers = (psi, max(MODERATE, chance), float(distance.statistic), float(distance.pvalue))
    return ScoreShift(*numbers, edges, shares[0], shares[1], place)


def _edges(then: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ends of bins of equally many samples, halfway between different scores because of rounding."""
    kinds = np.unique(then)
    ends = np.unique(np.quantile(then, np.arange(1, BINS) / BINS, method="inverted_cdf"))
    beyond = ends * (1.0 + 1e-6) + 1e-12
    above = np.append(kinds, np.inf)[np.searchsorted(kinds, beyond, side="right")]
    return np.unique(np.where(np.isinf(above), beyond, (ends + above) / 2.0))


def _shares(edges: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares of the bins; half a sample is added to each, as an empty one would make the index infinite."""
    counts = np.bincount(np.searchsorted(edges, scores), minlength=len(edges) + 1) + 0.5
    return np.asarray(counts / counts.sum())


def prior_shift(
    then: NDArray[np.float64], now: NDArray[np.float64], *,
    prior: NDArray[np.float64] | None = None, groups: NDArray[np.int64] | None = None, level: float = 0.95,
    seed: int = 0,
) -> PriorShift:  # fmt: skip
    """Return the shift of the class prior, estimated from the probabilities of held-out and of new samples.

    Parameters
    ----------
    then : array of shape (n,) or (n, K)
        Probabilities of held-out samples in training: of the positive class, or of each class.
    now : array of shape (m,) or (m, K)
        Probabilities of new samples.
    prior : array of shape (K,), optional
        Class prior in training. Default: the mean of ``then``.
    groups : array of shape (m,), optional
        Group numbers of the new samples.
    level : float, default 0.95
        Coverage of the interval.
    seed : int, default 0
        Seed of the bootstrap draws.

    Returns
    -------
    PriorShift
        Both priors with an interval.

    See Also
    --------
    adacsl.decision.estimate_prior : The estimate alone.
    adacsl.monitor : All statistics of a deployed model.

    Notes
    -----
    Expectation maximisation starts from the model's mean probability in training, not from ``prior``: samples like
    those in training then give no shift, whether or not the probabilities are calibrated. The estimate is the ratio
    of new to old prior, by which ``prior`` is multiplied. Both sets of samples are bootstrapped.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.monitoring.drift import prior_shift
    >>> rng = np.random.default_rng(0)
    >>> shift = prior_shift(rng.beta(2, 8, 500), rng.beta(4, 6, 500))
    >>> shift.excluded, bool(shift.now[1] > shift.then[1])
    (True, True)
    """
    rng = np.random.default_rng(seed)
    before, after = _columns(then), _columns(now)
    old = before.mean(axis=0)
    old /= old.sum()
    prior = old if prior is None else np.asarray(prior, dtype=np.float64)
    ratio = _estimate(after, old) / old
    drawn = np.maximum(ratio + _ratio_deviations(after, before, old, groups, rng), 0.0)
    tail = (1.0 - level) / 2.0 / (1 if len(old) == 2 else len(old))  # Bonferroni correction over many classes
    low, high = np.quantile(_shares_by(drawn, prior), (tail, 1.0 - tail), axis=0)
    new = _shares_by(ratio, prior)
    excluded = bool(((low > prior * (1.0 + 1e-9)) | (high < prior * (1.0 - 1e-9))).any())
    return PriorShift(prior, new, np.minimum(low, new), np.maximum(high, new), ratio, excluded)


def _columns(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one column for each class, clipped above 0: a zero would stay zero under any prior."""
    columns = probabilities if probabilities.ndim > 1 else np.stack((1.0 - probabilities, probabilities), axis=1)
    return np.maximum(columns, 1e-12)


def _estimate(
    columns: NDArray[np.float64], old: NDArray[np.float64], weight: NDArray[np.float64] | None = None, **limits: float
) -> NDArray[np.float64]:
    columns = columns / columns.sum(axis=1, keepdims=True)
    return np.asarray(estimate_prior(columns, old, sample_weight=weight, **limits))  # type: ignore[arg-type]


def _shares_by(ratio: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``prior`` multiplied by ratios and normalised."""
    moved = ratio * prior
    return np.asarray(moved / moved.sum(axis=-1, keepdims=True))


def _ratio_deviations(
    after: NDArray[np.float64], before: NDArray[np.float64], old: NDArray[np.float64],
    groups: NDArray[np.int64] | None, rng: np.random.Generator,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the deviations of bootstrapped prior ratios from the estimate, draws x K."""
    point, values, counts = _bootstrap_points(after, rng)
    centre = _estimate(values, old, counts) / old
    start_priors = old + _mean_deviations(before, rng)
    start_priors /= start_priors.sum(axis=1, keepdims=True)
    result = np.empty((DRAWS, len(old)))
    for draw, start in enumerate(start_priors):
        if groups is None:
            weight: NDArray[Any] = rng.multinomial(len(after), counts / counts.sum())
        else:
            n = groups.max() + 1
            times = np.bincount(rng.integers(0, n, size=n), minlength=n)
            weight = np.bincount(point[point >= 0], weights=times[groups[point >= 0]], minlength=len(values))
        kept = weight > 0
        result[draw] = _estimate(values[kept], start, weight[kept], tolerance=1e-6) / start - centre
    return result


def _mean_deviations(columns: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the deviations of bootstrapped means from the mean, draws x K."""
    _, values, counts = _bootstrap_points(columns, rng)
    shares = counts / counts.sum()
    drawn = rng.multinomial(len(columns), shares, size=DRAWS) / len(columns)
    return np.asarray((drawn - shares) @ values)


def _bootstrap_points(
    columns: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the point of each sample, and the mean probabilities and the number of samples of each point.

    With two classes, neighbours share a point. With more, a subsample represents all (point -1 for the others): as
    many draws from fewer different samples vary as much.
    """
    n, k = columns.shape
    if k == 2:
        edges = np.unique(np.quantile(columns[:, 1], np.linspace(0.0, 1.0, POINTS + 1)[1:-1]))
        point = np.searchsorted(edges, columns[:, 1])
        counts = np.bincount(point, minlength=len(edges) + 1).astype(np.float64)
        sums = np.stack([np.bincount(point, weights=column, minlength=len(counts)) for column in columns.T], axis=1)
        full = np.flatnonzero(counts)
        return np.searchsorted(full, point), sums[full] / counts[full, None], counts[full]
    rows = np.arange(n) if n <= 5 * POINTS else rng.choice(n, 5 * POINTS, replace=False)
    point = np.full(n, -1)
    point[rows] = np.arange(len(rows))
    return point, columns[rows], np.ones(len(rows))
