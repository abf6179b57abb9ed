"""How many repeats, or rows, would settle what a comparison leaves open."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from adacsl.experiments.statistics.folds import SHARED_TRAINING
from adacsl.extras import requires

with requires("compare"):
    from scipy import stats

MOST_REPEATS = 20
"""Nobody trains more often than that: then it is rows that are missing."""

MOST_GROWTH = 20.0
"""Who would need so many times the rows has methods that cost the same."""


class Luck(NamedTuple):
    """Where the uncertainty of a mean over repeated folds comes from: variances of the mean of one repeat."""

    mean: float
    rows: float
    """Of the rows (or groups) themselves: no repeat takes it away."""
    again: float
    """Of what a row costs from one repeat to the next."""
    fits: float
    """Of fits that are lucky or not with all their rows."""
    n_rows: int
    n_units: int
    n_repeats: float
    folds: float

    def half_width(self, repeats: float, growth: float = 1.0, level: float = 0.95) -> float:
        """Return half of the interval that so many repeats over ``growth`` times the rows would have.

        At what was run, it is that of :func:`fold_interval`. With more rows, fits are taken to differ less, too.
        """
        of_rows = SHARED_TRAINING * (self.rows + self.again / repeats) / growth
        of_fits = self.fits / repeats / growth
        variance = of_rows + of_fits
        if variance <= 0:
            return 0.0
        of_freedom = of_rows**2 / (self.n_units * growth - 1) + of_fits**2 / max(self.folds * repeats - 1, 1)
        return float(stats.t.ppf(0.5 + level / 2, variance**2 / of_freedom)) * math.sqrt(variance)


def luck(values: Any, fits: Any, units: Any) -> Luck:
    """Return what makes the mean of paired differences uncertain; parameters as in :func:`fold_interval`."""
    values = np.asarray(values, dtype=np.float64)
    (every, fit), (each, unit) = (np.unique(part, return_inverse=True) for part in (fits, units))
    pairs, pair = np.unique(unit * len(every) + fit, return_inverse=True)
    tested = np.bincount(pairs // len(every))  # in how many fits each unit was tested: once in each repeat
    n_repeats = len(pairs) / len(each)
    n_rows = len(values) / n_repeats
    mean = float(values.mean())
    by_pair, by_unit, by_fit = (np.bincount(part, values - mean) for part in (pair, unit, fit))
    in_all = float(by_unit @ by_unit) / len(values) ** 2
    spread = np.bincount(pairs // len(every), by_pair**2) - by_unit**2 / tested
    again = float((spread / np.maximum(tested - 1, 1)).sum()) / n_rows**2
    again = min(again, in_all * n_repeats)
    n_fits = len(every)
    of_fits = n_fits / max(n_fits - 1, 1) * float(by_fit @ by_fit) - float(by_pair @ by_pair)
    of_fits = max(0.0, of_fits) / len(values) ** 2 * n_repeats
    return Luck(
        mean, in_all - again / n_repeats, again, of_fits, round(n_rows), len(each), n_repeats, n_fits / n_repeats
    )


def enough(found: Luck, border: float = 0.0, *, level: float = 0.95) -> tuple[int | None, int | None]:
    """Return how many repeats would bring an interval off a border, or else how many rows, if the mean stays.

    Both are None where the interval does not hold the border, or hardly any number would do. With one repeat (or test
    windows one after another) nothing is known about more of them: only rows are counted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, fits = np.tile(np.arange(200), 2), np.repeat(np.arange(10), 40)
    >>> noise = np.repeat(rng.normal(0.0, 0.5, 10), 40)  # fits differ, rows do not
    >>> enough(luck(0.2 + noise, fits, rows))
    (3, None)
    """
    gap = abs(found.mean - border)
    now = found.half_width(found.n_repeats, level=level)
    if not gap or now < gap:
        return None, None
    if found.n_repeats > 1:
        for repeats in range(math.floor(found.n_repeats) + 1, MOST_REPEATS + 1):
            if found.half_width(repeats, level=level) < gap:
                return repeats, None
    growth = (now / gap) ** 2
    return None, None if growth > MOST_GROWTH else _up_to_two_digits(found.n_rows * growth)


def _up_to_two_digits(number: float) -> int:
    step = int(10 ** max(0, math.floor(math.log10(number)) - 1))
    return math.ceil(number / step) * step
