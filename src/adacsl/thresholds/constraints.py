r"""Constraints on a threshold (recall, precision, FPR, positive rate), certified for new data by exact binomial bounds.

Recall, FPR and positive rate are monotone in the threshold. A threshold ``t`` with ``x`` false negatives among ``m``
positives is certified for recall ``r`` where

.. math:: P(\mathrm{Bin}(m, 1 - r) \le x) \le \alpha .

The largest such ``x`` depends on ``m``, ``r`` and the error probability alone, so the thresholds that are certified are
all those below an order statistic of the positives, and *any* of them may be chosen, by cost or otherwise. FPR counts
the negatives above the threshold, the positive rate all samples above it. Precision is not monotone: it is tested at
thresholds whose number of predicted positives was fixed before, with the correction of Bonferroni and Holm. Several
constraints share the error probability. Ties only make the test stricter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import Array, number_or_nan

__all__ = ["BOUNDS", "Certified", "Constraints", "InfeasibleError", "binomial_tail", "most_errors", "upper_bound"]

BOUNDS = ("min_recall", "min_precision", "max_fpr", "max_positive_rate")
"""The constraints by name."""

GRID = 64
"""Numbers of predicted positives at which precision is tested."""

SLACK = 1e-9
"""Share of the samples by which a count may exceed a limit without confidence: ``0.1 * 10`` is not quite 1."""

FARTHEST = 2.0**20
"""How many times the samples are looked at when it is estimated how many would be needed."""

PLURALS = {
    "min_recall": "positives",
    "min_precision": "samples",
    "max_fpr": "negatives",
    "max_positive_rate": "samples",
}
MEASURES = {
    "min_recall": "recall",
    "min_precision": "precision",
    "max_fpr": "FPR",
    "max_positive_rate": "positive rate",
}


class InfeasibleError(ValueError):
    """No threshold meets the constraints; the message says what is attainable and how many samples would be needed."""


class Certified(NamedTuple):
    """The guarantee and the estimate of one constraint at the chosen threshold.

    Attributes
    ----------
    required : float
        The constraint.
    guaranteed : float or None
        What holds on new data with the confidence: at least as good as ``required``. None without confidence.
    estimate : float
        The value on the samples of the search.
    samples : float
        The samples that count: positives for recall, negatives for FPR, predicted positives for precision, all for the
        positive rate.

    Examples
    --------
    >>> from adacsl.thresholds import Certified
    >>> Certified(required=0.9, guaranteed=0.92, estimate=0.95, samples=400.0).guaranteed
    0.92
    """

    required: float
    guaranteed: float | None
    estimate: float
    samples: float


class SegmentCaps(NamedTuple):
    """What a floor on the recall within each segment allows.

    Attributes
    ----------
    most : int
        The most false negatives, in all.
    samples : dict
        The positives of each segment.
    """

    most: int
    samples: dict[str, int]


class Counts(NamedTuple):
    """The errors at some thresholds, and the size of the classes; sums of weights where samples have weights."""

    false_negatives: Any
    false_positives: Any
    positives: float
    negatives: float

    def errors(self, name: str) -> tuple[Any, Any]:
        """Return what a constraint limits, and the number of samples that it is a share of."""
        positive = self.positives - self.false_negatives + self.false_positives
        return {
            "min_recall": (self.false_negatives, self.positives),
            "min_precision": (self.false_positives, positive),
            "max_fpr": (self.false_positives, self.negatives),
            "max_positive_rate": (positive, self.positives + self.negatives),
        }[name]

    def times(self, factor: float) -> Counts:
        """Return the counts of so many times the samples; of equal shares."""
        missed, alarmed = (np.ceil(np.asarray(each, np.float64) * factor) for each in self[:2])
        return Counts(missed, alarmed, math.floor(self.positives * factor), math.floor(self.negatives * factor))


@dataclass(frozen=True)
class Constraints:
    """Constraints on the decisions ``score > threshold`` of two classes.

    Parameters
    ----------
    min_recall : float, optional
        Least share of the positives that are predicted positive.
    min_precision : float, optional
        Least share of positives among the samples predicted positive.
    max_fpr : float, optional
        Largest share of the negatives that are predicted positive.
    max_positive_rate : float, optional
        Largest share of all samples that are predicted positive.
    confidence : float or None, default 0.95
        Probability, over the samples of the search, that all constraints hold on new data. It needs scores of a fixed
        model on independent samples that chose neither model nor calibration. None: the constraints hold on the
        samples themselves.
    segments : str, optional
        Column of X: ``min_recall`` then holds within each of its values (a region, a product), not only in all. The
        segments share the error, too.
    caps : SegmentCaps, optional
        What segments allow, as ``within_segments`` has found it.

    Examples
    --------
    >>> from adacsl.thresholds import Constraints
    >>> Constraints(min_recall=0.9)
    Constraints(min_recall=0.9, confidence=0.95)
    >>> Constraints(min_recall=0.9).most("min_recall", 200)
    12
    """

    min_recall: float | None = None
    min_precision: float | None = None
    max_fpr: float | None = None
    max_positive_rate: float | None = None
    confidence: float | None = 0.95
    segments: str | None = None
    caps: SegmentCaps | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.confidence is not None and not 0.0 < number_or_nan(self.confidence) < 1.0:
            raise ValueError(f"confidence must lie strictly between 0 and 1, or be None, got {self.confidence!r}")
        if self.segments is not None and (self.min_recall is None or not isinstance(self.segments, str)):
            raise ValueError(
                f"segments name the column within whose values min_recall holds: give both, got {self.segments!r}"
            )
        for name, value in self.given.items():
            number = number_or_nan(value)
            strict = self.confidence is not None
            if not (0.0 < number < 1.0 if strict else 0.0 <= number <= 1.0):
                where = "strictly between 0 and 1; confidence=None allows 0 and 1 too" if strict else "from 0 to 1"
                raise ValueError(f"{name} must be a share {where}, got {value!r}")

    @classmethod
    def of(cls, given: Any) -> Self | None:
        """Return constraints of a mapping.

        Parameters
        ----------
        given : mapping, Constraints or None
            The constraints.

        Returns
        -------
        Constraints or None
            None where nothing is constrained.

        Examples
        --------
        >>> from adacsl.thresholds import Constraints
        >>> Constraints.of({"min_recall": 0.9, "confidence": None})
        Constraints(min_recall=0.9, confidence=None)
        """
        if given is None:
            return None
        if isinstance(given, Mapping):
            names = [each.name for each in fields(cls) if each.name != "caps"]
            if unknown := [name for name in given if name not in names]:
                raise ValueError(f"constraints are {', '.join(names)}; got {unknown[0]!r}")
            given = cls(**given)
        if not isinstance(given, cls):
            raise TypeError(f'constraints must be a dict such as {{"min_recall": 0.9}}, got {given!r}')
        return given if given.given else None

    @property
    def given(self) -> dict[str, float]:
        """The constraints that are given, by name."""
        return {name: value for name in BOUNDS if (value := getattr(self, name)) is not None}

    @property
    def error(self) -> float:
        """The probability with which each constraint may be violated; together at most ``1 - confidence``."""
        tests = len(self.given) + (0 if self.caps is None else len(self.caps.samples) - 1)
        return 1.0 if self.confidence is None else (1.0 - self.confidence) / max(tests, 1)

    @property
    def needs_grid(self) -> bool:
        """Whether only thresholds fixed before can be certified."""
        return self.min_precision is not None and self.confidence is not None

    def rate(self, name: str) -> float:
        """Return the share of errors that a constraint allows."""
        value = float(self.given[name])
        return 1.0 - value if name.startswith("min") else value

    def grid(self, n: int) -> NDArray[np.int64]:
        """Return the numbers of predicted positives at which precision is tested, falling; n samples fix them."""
        least = math.log(self.error / GRID) / math.log1p(-self.rate("min_precision"))
        if n - 1 < least:
            return np.zeros(0, dtype=np.int64)
        return np.unique(np.geomspace(math.ceil(least), n - 1, GRID).astype(np.int64))[::-1]

    def most(self, name: str, samples: float, tests: int = 1) -> float:
        """Return the most errors among so many samples that a constraint allows; -1: none can be allowed."""
        if name == "min_recall" and self.caps is not None:
            return self.caps.most
        if self.confidence is None:
            return self.rate(name) * samples + SLACK * samples
        return most_errors(int(samples), self.rate(name), self.error / tests)

    def allowed(self, counts: Counts, tests: int = 1) -> Any:
        """Return which thresholds meet all constraints, given what they decide; ``tests`` is the size of the grid."""
        result: Any = True
        for name in self.given:
            errors, samples = counts.errors(name)
            if name != "min_precision":
                result = (errors <= self.most(name, samples)) & result
            elif self.confidence is None:
                result = (errors <= self.rate(name) * samples + SLACK * samples) & (samples > 0) & result
            else:
                pairs = zip(np.ravel(_host(errors)).tolist(), np.ravel(_host(samples)).tolist(), strict=True)
                tails = [binomial_tail(int(x), int(n), self.rate(name)) for x, n in pairs]
                result = _like(holm(tails, tests, self.error), errors) & result
        return result

    def certified(self, counts: Counts) -> dict[str, Certified]:
        """Return what is known of each constraint at a threshold that meets them."""
        result = {}
        for name, value in self.given.items():
            if name == "min_recall" and self.caps is not None:
                continue  # of each segment
            errors, samples = (float(each) for each in counts.errors(name))
            share = errors / samples if samples else 0.0
            guaranteed = None if self.confidence is None else self._guaranteed(name, samples)
            lower = name.startswith("min")
            estimate = 1.0 - share if lower else share
            held = 1.0 - guaranteed if lower and guaranteed is not None else guaranteed
            result[name] = Certified(value, held, estimate, samples)
        return result

    def within_segments(self, scores: NDArray[Any], positive: NDArray[Any], segments: Any) -> Self:
        """Return constraints whose floor on recall holds within each segment of these samples.

        A threshold is allowed where it lies below an order statistic of the positives of each segment: so many
        positives of all segments may be missed at most.

        Raises
        ------
        InfeasibleError
            Where a segment has too few positives.
        """
        values = np.asarray(segments)
        if values.shape != scores.shape:
            raise ValueError(f"segments must have one value for each of {len(scores)} samples, got {values.shape}")
        names, numbers = np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)
        own = [np.sort(scores[positive & (numbers == k)]) for k in range(len(names))]
        samples = {str(name): len(each) for name, each in zip(names, own, strict=True) if len(each)}
        shared = replace(self, caps=SegmentCaps(-1, samples))
        limit = math.inf
        for name, each in zip(names, own, strict=True):
            if not len(each):
                continue  # without positives there is no recall
            alone = Constraints(min_recall=self.min_recall, confidence=shared._one_confidence)
            most = int(alone.most("min_recall", len(each)))
            if most < 0:
                reason = alone._too_few(Counts(0.0, 0.0, float(len(each)), 0.0))
                raise InfeasibleError(f"segment {str(name)!r}: {reason}")
            limit = min(limit, float(each[most]) if most < len(each) else math.inf)
        return replace(self, caps=SegmentCaps(int((scores[positive] < limit).sum()), samples))

    def certified_segments(
        self, missed: NDArray[np.bool_], positive: NDArray[np.bool_], segments: Any
    ) -> dict[str, Certified]:
        """Return what is known of the recall within each segment."""
        names, result = np.asarray(segments).astype(str), {}
        for name in np.unique(names[positive]).tolist():
            own = positive & (names == name)
            alone = Constraints(min_recall=self.min_recall, confidence=self._one_confidence)
            counts = Counts(float(missed[own].sum()), 0.0, float(own.sum()), 0.0)
            result[f"min_recall of {name}"] = alone.certified(counts)["min_recall"]
        return result

    def _guaranteed(self, name: str, samples: float) -> float:
        """Return the share of errors that holds for all thresholds that are certified; precision holds as required."""
        if name == "min_precision":
            return self.rate(name)
        return upper_bound(int(self.most(name, samples)), int(samples), self.error)

    def refuse(self, counts: Counts) -> InfeasibleError:
        """Return the error that says what is attainable, given what all thresholds decide."""
        if self.confidence is not None and (short := self._too_few(counts)):
            return InfeasibleError(short)
        limits = " and ".join(f"{name}={value:g}" for name, value in self.given.items())
        sure = "on these samples" if self.confidence is None else f"with confidence {self.confidence:g}"
        parts = [f"no threshold meets {limits} {sure}", *self._attainable(counts)]
        parts.append(self._needed(counts) if self.confidence is not None else "relax one of them")
        return InfeasibleError("; ".join(parts))

    def _too_few(self, counts: Counts) -> str | None:
        """Return what is wrong where even a threshold without errors would not be certified."""
        for name, value in self.given.items():
            if name == "min_recall" and self.caps is not None:
                continue
            least = math.log(self.error / (GRID if name == "min_precision" else 1)) / math.log1p(-self.rate(name))
            own = counts.positives + counts.negatives if name == "min_precision" else counts.errors(name)[1]
            if math.ceil(least) > own:
                most = -math.expm1(math.log(self.error) / own) if own else 1.0
                best = f"{1.0 - most if name.startswith('min') else most:.3g}"
                attained = f"; {own:,.0f} certify {'at most' if name.startswith('min') else 'no less than'} {best}"
                which = "predicted positive" if name == "min_precision" else PLURALS[name]
                return (
                    f"{name}={value:g} cannot be certified with confidence {self.confidence:g} on {own:,.0f} "
                    f"{PLURALS[name]}: at least {math.ceil(least):,} {which} are needed, {math.ceil(least) - own:,.0f} "
                    f"more{attained if name != 'min_precision' else ''}; confidence=None asks for less"
                )
        return None

    def _attainable(self, counts: Counts) -> list[str]:
        """Return the best value of each constraint among the thresholds that meet the others."""
        lines = []
        for name in self.given:
            others = replace(self, **{name: None}, **({"segments": None, "caps": None} if name == "min_recall" else {}))
            # the others keep their share of the error
            alike = np.ones(np.shape(counts.false_negatives), dtype=bool)
            for other in others.given:
                own: dict[str, Any] = {other: others.given[other], "confidence": self._one_confidence}
                one = Constraints(**own)
                one = replace(one, caps=self.caps) if other == "min_recall" else one
                alike &= np.asarray(one.allowed(counts, GRID if other == "min_precision" else 1))
            errors, samples = (
                np.broadcast_to(np.asarray(each, np.float64), alike.shape) for each in counts.errors(name)
            )
            alike = alike & (samples > 0)
            if not alike.any():
                continue
            errors, samples = errors[alike], samples[alike]
            best = int(np.argmin(errors / samples))
            bound = float(errors[best] / samples[best])
            if self.confidence is not None and name != "min_precision":
                bound = upper_bound(int(errors[best]), int(samples[best]), self.error)
            elif self.confidence is not None:
                grid = self.grid(int(counts.positives + counts.negatives))
                nearest = np.unique(np.abs(samples[:, None] - grid).argmin(axis=0))
                pairs = zip(errors[nearest].tolist(), samples[nearest].tolist(), strict=True)
                bound = min(upper_bound(int(x), int(n), self.error / GRID) for x, n in pairs)
            value = 1.0 - bound if name.startswith("min") else bound
            side = "at most" if name.startswith("min") else "no less than"
            among = " and ".join(f"{other}={limit:g}" for other, limit in others.given.items())
            lines.append(f"{'with ' + among + ', ' if among else ''}{MEASURES[name]} is {side} {value:.3g}")
        return lines

    @property
    def _one_confidence(self) -> float | None:
        """The confidence of each constraint on its own."""
        return None if self.confidence is None else 1.0 - self.error

    def _needed(self, counts: Counts) -> str:
        """Return how many samples of the same kind would be enough."""
        if self.caps is not None:
            return "relax one of them"
        bare = Constraints(**(self.limits | {"confidence": None}))
        if not np.any(bare.allowed(counts)):
            return "on the samples themselves none does either: more samples alone do not help, relax a constraint"

        def enough(factor: float) -> bool:
            return bool(np.any(self.allowed(_thinned(counts.times(factor)), GRID)))

        factor = 2.0
        while not enough(factor) and factor < FARTHEST:
            factor *= 2.0
        if factor >= FARTHEST:
            return "more samples alone hardly help, relax a constraint"
        low, high = factor / 2.0, factor
        for _ in range(6):
            middle = (low + high) / 2.0
            low, high = (low, middle) if enough(middle) else (middle, high)
        positives, negatives = (math.ceil(each * (high - 1.0)) for each in (counts.positives, counts.negatives))
        return f"about {positives:,} more positives and {negatives:,} more negatives would be enough"

    @property
    def limits(self) -> dict[str, Any]:
        """The constraints and their confidence, as :func:`~adacsl.find_threshold` takes them."""
        return {**self.given, "confidence": self.confidence}

    def to_dict(self) -> dict[str, Any]:
        """Return the constraints as plain JSON values.

        Returns
        -------
        dict
            The settings by name.
        """
        return self.limits | ({} if self.segments is None else {"segments": self.segments})

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.to_dict().items())
        return f"Constraints({named})"


def _thinned(counts: Counts, most: int = 2000) -> Counts:
    """Return some of many thresholds: enough for an estimate."""
    keep = np.unique(np.linspace(0, len(counts.false_negatives) - 1, most).astype(np.int64))
    return counts._replace(false_negatives=counts.false_negatives[keep], false_positives=counts.false_positives[keep])


def holm(tails: list[float], tests: int, error: float) -> list[bool]:
    """Return which of some tests of a family reject, by Holm's step-down form of Bonferroni's correction.

    Examples
    --------
    >>> holm([0.03, 0.001, 0.02], 3, 0.05), holm([0.03, 0.001, 0.02], 30, 0.05)
    ([True, True, True], [False, True, False])
    """
    result = [False] * len(tails)
    for done, place in enumerate(np.argsort(tails, kind="stable").tolist()):
        if tails[place] * (tests - done) > error:
            break
        result[place] = True
    return result


def _host(values: Any) -> NDArray[Any]:
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def _like(met: list[bool], values: Any) -> Any:
    from array_api_compat import array_namespace, device  # noqa: PLC0415  numpy alone needs none

    if isinstance(values, np.ndarray | np.generic | float | int):
        return np.reshape(np.asarray(met, dtype=bool), np.shape(values))
    return array_namespace(values).asarray(met, device=device(values))


# exact binomial


def binomial_tail(x: int, n: int, q: float) -> float:
    """Return P(Bin(n, q) <= x), to about 12 digits; numpy alone.

    Parameters
    ----------
    x, n : int
        Errors among samples.
    q : float
        Probability of an error.

    Examples
    --------
    >>> round(binomial_tail(2, 50, 0.1), 6)
    0.111729
    """
    if x < 0:
        return 0.0
    if x >= n or q <= 0.0:
        return 1.0
    if q >= 1.0:
        return 0.0
    if x > (n + 1) * q:  # sum the shorter side, which is also the smaller number
        return 1.0 - binomial_tail(n - x - 1, n, 1.0 - q)
    # pmf(k - 1) / pmf(k), from x downwards: below the mode they fall, and what is below 1e-18 of the first is left out
    total, factor, top = 1.0, 1.0, float(x)
    width = max(64, int(8.0 * math.sqrt(n * q * (1.0 - q)) + 64))
    while top > 0 and factor > 1e-18:
        k = np.arange(top, max(top - width, 0.0), -1.0)
        terms = factor * np.cumprod(k * (1.0 - q) / ((n - k + 1.0) * q))
        total, factor, top = total + float(terms.sum()), float(terms[-1]), float(k[-1] - 1.0)
    return min(1.0, math.exp(_log_pmf(x, n, q)) * total)


def most_errors(n: int, q: float, error: float) -> int:
    """Return the largest x with P(Bin(n, q) <= x) <= error, -1 where there is none.

    Examples
    --------
    >>> most_errors(29, 0.1, 0.05), most_errors(28, 0.1, 0.05), most_errors(1000, 0.1, 0.05)
    (0, -1, 84)
    """
    low, high = -1, n  # the tail is at most error at low, above it at high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_tail(middle, n, q) <= error else (low, middle)
    return low


def upper_bound(x: int, n: int, error: float) -> float:
    """Return the exact (Clopper-Pearson) upper confidence bound of a share, from x of n.

    Examples
    --------
    >>> round(upper_bound(0, 29, 0.05), 4), round(upper_bound(84, 1000, 0.05), 4)
    (0.0981, 0.0999)
    """
    if x >= n:
        return 1.0
    low, high = max(x, 0) / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if binomial_tail(x, n, middle) <= error else (middle, high)
    return high


def _log_pmf(x: int, n: int, q: float) -> float:
    """Return log P(Bin(n, q) = x) by Loader's formula, which loses no digits where n is large."""
    if x == 0:
        return n * math.log1p(-q)
    if x == n:
        return n * math.log(q)
    parts = _stirling_error(n) - _stirling_error(x) - _stirling_error(n - x)
    parts -= _deviance(x, n * q) + _deviance(n - x, n * (1.0 - q))
    return parts + 0.5 * math.log(n / (2.0 * math.pi * x * (n - x)))


def _stirling_error(n: int) -> float:
    """Return log n! less Stirling's formula."""
    if n < 16:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2.0 * math.pi)
    square = float(n) * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(x: float, mean: float) -> float:
    """Return x log(x / mean) + mean - x, by a series where the two are near."""
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = (x - mean) / (x + mean)
    total, term, j = (x - mean) * v, 2.0 * x * v, 0
    while True:
        j += 1
        term *= v * v
        new = total + term / (2 * j + 1)
        if new == total:
            return new
        total = new


def counts_of(
    scores: NDArray[Any], positive: NDArray[Any], weight: NDArray[Any] | None, thresholds: Array
) -> Counts:  # fmt: skip
    """Return the errors of the decisions ``score > t`` for each threshold; weighted where samples have weights."""
    order = np.argsort(scores, kind="stable")
    rising, positive = scores[order], np.asarray(positive, dtype=bool)[order]
    weight = np.ones(len(scores)) if weight is None else np.asarray(weight, np.float64)[order]
    below = np.searchsorted(rising, thresholds, side="right")
    positives, negatives = (
        np.concatenate(([0.0], np.cumsum(np.where(which, weight, 0.0)))) for which in (positive, ~positive)
    )
    return Counts(
        positives[below], negatives[-1] - negatives[below], float(positives[-1]), float(negatives[-1])
    )  # fmt: skip
