"""What each outcome of a decision costs."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from adacsl.core import arrays, naming
from adacsl.core.actions import ActionMatrix
from adacsl.core.arrays import Array, as_host
from adacsl.core.prices import check_samples, is_free, price_like
from adacsl.core.recipes import read_prices

BELOW_ONE = 1.0 - 2.0**-53
"""Where false alarms cost 10^16 misses the threshold rounds to 1, but who is surely positive is to be called so."""


class CostMatrix(ActionMatrix):
    r"""What each outcome costs: one price per outcome, K x K prices, or prices of each single sample.

    Costs are given **by name**, because published code disagrees about which axis of a matrix is the truth. More than
    two classes come by :meth:`from_array` or :meth:`from_frame`.

    Parameters
    ----------
    fp, fn : float, array of shape (n,), tuple or str
        Price of a false positive, C(1, 0), and of a false negative, C(0, 1): a number, one for each sample, a range
        ``(low, high)`` of what it may be (its middle is taken, :attr:`ranges` keeps the rest), or a text over the
        columns of a table, ``"0.8 * amount + 12"``, of which :meth:`of` makes the prices of its rows. A price that is
        known only afterwards is a :class:`~adacsl.CostModel`, as text ``"model(amount)"``.
    tp, tn : likewise, default 0
        Price of being right; benefits are negative costs. An error must cost more than being right.

    Notes
    -----
    Subtracting :math:`C(j, j)` from column *j* changes no decision, so every matrix is as good as its
    :meth:`reduced` form with a zero diagonal. The cheapest decision is "positive" where the probability exceeds

    .. math:: T = \frac{C(1,0)}{C(1,0) + C(0,1)} \qquad \text{(paper, eq. 1; reduced costs)}

    Examples
    --------
    >>> costs = CostMatrix(fp=1, fn=8)
    >>> costs.threshold, costs.ratio
    (0.1111111111111111, 8.0)
    >>> costs.decide([0.05, 0.2]).tolist()
    [0, 1]
    >>> costs.total([0, 1, 1], [1, 0, 1])
    9.0
    """

    __slots__ = ()

    def __init__(self, *, fp: Any, fn: Any, tp: Any = 0.0, tn: Any = 0.0) -> None:
        cells, ranges = read_prices({"fp": fp, "fn": fn, "tp": tp, "tn": tn})
        self._fill(cells, None, None, ranges)
        self.checked()

    @classmethod
    def balanced(cls, y: Array, *, factor: float = 1.0, classes: Iterable[object] | None = None) -> CostMatrix:
        """Return the paper's inverse priors: fp = N / N-, fn = factor * N / N+.

        Calling everything positive then costs exactly N, so that costs compare across data sets. With more classes, an
        error about class j costs N / N_j; ``classes`` names them.
        """
        names = naming.as_names(classes, "classes")
        codes, counts = _counted(y, None if names is None else len(names))
        n, k = codes.shape[0], len(counts)
        if k == 2 and names is None:
            if 0 in counts:
                raise ValueError(f"balanced costs need both classes, but all {n} labels are {int(counts[1] > 0)}")
            return cls(fp=n / counts[0], fn=factor * n / counts[1])
        if factor != 1.0:
            raise ValueError(f"factor is for two classes without names, of which one is positive; got {factor!r}")
        if 0 in counts:
            rare = names[counts.index(0)] if names else counts.index(0)
            raise ValueError(f"balanced costs need rows of every class, but class {rare!r} has none")
        cells = tuple(tuple(0.0 if i == j else n / count for j, count in enumerate(counts)) for i in range(k))
        return cls._from_cells(cells, names)

    # what it holds

    fp = property(lambda self: self._binary("fp", 1, 0), doc="Price of a false positive, C(1, 0).")
    fn = property(lambda self: self._binary("fn", 0, 1), doc="Price of a false negative, C(0, 1).")
    tp = property(lambda self: self._binary("tp", 1, 1), doc="Price of a true positive, C(1, 1).")
    tn = property(lambda self: self._binary("tn", 0, 0), doc="Price of a true negative, C(0, 0).")

    @property
    def threshold(self) -> Any:
        """The Bayes threshold T: positive is the cheaper decision where the probability is above it (eq. 1)."""
        if self._deciding is not None:
            return self.deciding.threshold
        fp, fn = self.fp - self.tn, self.fn - self.tp
        if isinstance(fp + fn, float):
            return min(fp / (fp + fn), BELOW_ONE)
        xp = array_namespace(fp + fn)
        share = fp / xp.where(fp + fn == 0, 1.0, fp + fn)
        # misses are free: never positive, as nothing is gained by it
        return xp.where(fn == 0, 1.0, xp.where(share < BELOW_ONE, share, BELOW_ONE))

    @property
    def ratio(self) -> Any:
        """How many false positives one false negative is worth: rho = C(0, 1) / C(1, 0), reduced."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.fn - self.tp) / (self.fp - self.tn)

    def class_weights(self, power: float = 1.0) -> NDArray[np.float64]:
        """Return how dear errors about each class are: the mean of its (reduced) column, its right decision left out.

        Raised to ``power`` and scaled to a geometric mean of 1. Prices of single samples are averaged first.

        Examples
        --------
        >>> CostMatrix(fp=1, fn=4).class_weights().tolist()
        [0.5, 2.0]
        """
        means = self.averaged().reduced().to_array().sum(axis=0) / (self.n_actions - 1)
        if power and means.min() <= 0:
            free = self._classes[int(means.argmin())] if self._classes else int(means.argmin())
            raise ValueError(f"class {free!r} has no weight: all decisions about it cost the same")
        logs = power * np.log(means) if power else np.zeros(self.n_classes)
        weights: NDArray[np.float64] = np.exp(logs - logs.mean())
        return weights

    # what it decides

    def decide(self, probabilities: Array) -> Array:
        """Return the cheapest class (or action) for each sample.

        Parameters
        ----------
        probabilities : array of shape (n,) or (n, K)
            Probability of the positive class, or of every class. Ties go to the lower class: positive needs p > T.
        """
        if self._deciding is not None:
            return self.deciding.decide(probabilities)
        probabilities = self._probabilities(probabilities)
        xp = array_namespace(probabilities)
        if self.n_classes == 2 and self.square:
            positive = arrays.widest(probabilities if probabilities.ndim == 1 else probabilities[:, 1])
            return xp.astype(positive > price_like(self.threshold, positive), xp.int64)
        each = self._expected_of_each(probabilities)
        if self.n_instances is not None:
            return xp.argmin(each, axis=1)
        # sums of equal costs may differ by their rounding, which depends on the rows beside: that is a tie
        slack = 4 * self.n_classes * xp.finfo(each.dtype).eps * max(abs(cell) for cell in self._flat())
        cheapest = each <= xp.min(each, axis=1, keepdims=True) + slack
        return xp.argmax(xp.astype(cheapest, xp.int8), axis=1)

    def expected(self, probabilities: Array, decisions: Array | None = None) -> Array:
        """Return what each sample is expected to cost under ``decisions`` (default: the cheapest ones)."""
        if self._deciding is not None:
            return self.deciding.expected(probabilities, decisions)
        probabilities = self._probabilities(probabilities)
        given = self.decide(probabilities) if decisions is None else decisions
        chosen = arrays.as_column(arrays.as_classes(given, self.n_actions, "decisions"), probabilities, "decisions")
        each = self._expected_of_each(probabilities)
        return array_namespace(each).take_along_axis(each, chosen[:, None], axis=1)[:, 0]

    def expected_of_each(self, probabilities: Array) -> Array:
        """Return what each sample is expected to cost under each action, n x A.

        Examples
        --------
        >>> CostMatrix(fp=1, fn=8).expected_of_each([0.25, 0.5]).tolist()
        [[2.0, 0.75], [4.0, 0.5]]
        """
        known = self.deciding
        return known._expected_of_each(known._probabilities(probabilities))

    # what decisions have cost

    def incurred(self, y_true: Array, y_pred: Array) -> Array:
        """Return what each single decision has cost."""
        true, pred = self._pair(y_true, y_pred)
        xp = array_namespace(true)
        out = arrays.widest(xp.zeros_like(true))
        if self.n_instances is None:
            return xp.take(xp.reshape(self.to_array(out), (-1,)), pred * self.n_classes + true, axis=0)
        for i, row in enumerate(self._cells):
            for j, cell in enumerate(row):
                if not is_free(cell):
                    out = xp.where((pred == i) & (true == j), price_like(cell, out), out)
        return out

    def confusion(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> NDArray[np.float64]:
        """Return what each kind of outcome has cost in total, actions x classes: where the money goes.

        Examples
        --------
        >>> CostMatrix(fp=1, fn=8).confusion([0, 0, 1, 1], [0, 1, 0, 0]).tolist()
        [[0.0, 16.0], [1.0, 0.0]]
        """
        true, pred = self._pair(y_true, y_pred)
        weight = arrays.as_weights(sample_weight, true)
        paid = self.incurred(true, pred)
        cell, paid = as_host(pred * self.n_classes + true), as_host(paid if weight is None else paid * weight)
        shape = (self.n_actions, self.n_classes)
        return np.bincount(cell, weights=paid, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)

    def total(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the sum of all costs."""
        true, pred = self._pair(y_true, y_pred)
        weight = arrays.as_weights(sample_weight, true)
        if weight is None and self.n_instances is None:
            # prices times exact counts: no rounding builds up over the samples
            return math.fsum(self._cells[i][j] * n for i, j, n in self._count(true, pred))
        each = self.incurred(true, pred)
        return float(array_namespace(each).sum(each if weight is None else each * weight))

    def mean(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the cost per sample (per unit of weight)."""
        total = self.total(y_true, y_pred, sample_weight=sample_weight)
        true = arrays.as_vector(y_true, "y_true")
        weight = arrays.as_weights(sample_weight, true)
        return total / (true.shape[0] if weight is None else float(array_namespace(weight).sum(weight)))

    def normalized(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the cost on a scale where 0 is flawless and 1 is the best constant decision.

        Computed from the reduced costs, so that unavoidable costs and benefits do not move the scale.
        """
        costs = self.reduced()
        best = min(costs._constant_totals(y_true, sample_weight))
        if best == 0:
            raise ValueError(
                "the normalised cost is undefined here: a constant decision is free "
                "(only one class in y_true?), so there is nothing to compare with"
            )
        return costs.total(y_true, y_pred, sample_weight=sample_weight) / best

    def savings(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the share of the best constant decision's cost that these decisions save (1 - cost / cost of it)."""
        best = min(self._constant_totals(y_true, sample_weight))
        if best == 0:
            raise ValueError("savings are undefined here: the best constant decision costs nothing")
        return (best - self.total(y_true, y_pred, sample_weight=sample_weight)) / abs(best)

    def __reduce__(self) -> tuple[Any, ...]:
        return unchecked_costs, self._parts()

    # the parts everything above is made of

    def _binary(self, name: str, predicted: int, actual: int) -> Any:
        if self.n_classes != 2:
            raise ValueError(f"{name} speaks of two classes, but this matrix has {self.n_classes}; use decide()")
        if not self.square:
            raise ValueError(
                f"{name} speaks of predicting one of two classes, but other actions are here; use decide()"
            )
        return self._cells[predicted][actual]

    def _pair(self, y_true: Array, y_pred: Array) -> tuple[Array, Array]:
        true = arrays.as_classes(y_true, self.n_classes, "y_true")
        check_samples(self.n_instances, true.shape[0])
        return true, arrays.as_column(arrays.as_classes(y_pred, self.n_actions, "y_pred"), true, "y_pred")

    def _probabilities(self, values: Array) -> Array:
        array = arrays.as_probabilities(values, self.n_classes)
        check_samples(self.n_instances, array.shape[0])
        return array

    def _count(self, true: Array, pred: Array) -> list[tuple[int, int, int]]:
        return arrays.count_outcomes(true, pred, self.n_classes, self.n_actions)

    def _expected_of_each(self, probabilities: Array) -> Array:
        """Return the expected cost of each action, n x A: sum over j of P(j | x) C(i, j)."""
        wide = arrays.widest(probabilities)
        if self.n_classes > 2 and self.n_instances is None:
            return wide @ self.to_array(wide).T
        each = (1.0 - wide, wide) if wide.ndim == 1 else [wide[:, j] for j in range(self.n_classes)]
        products = (p[:, None] * self._column(j, wide) for j, p in enumerate(each))
        return functools.reduce(operator.add, products)

    def _column(self, j: int, like: Array) -> Array:
        """Return the prices of each action when class j is true, 1 x A or n x A."""
        xp = array_namespace(like)
        prices = [row[j] for row in self._cells]
        if self.n_instances is None:
            return xp.asarray([prices], dtype=like.dtype, device=device(like))
        one = xp.ones_like(like[:, 0] if like.ndim == 2 else like)
        return xp.stack([one * price_like(price, like) for price in prices], axis=1)

    def _constant_totals(self, y_true: Array, sample_weight: Array | None) -> list[float]:
        true = arrays.as_classes(y_true, self.n_classes, "y_true")
        if sample_weight is None and self.n_instances is None:
            counts = [arrays.count_true(true == j) for j in range(self.n_classes)]
            return [math.fsum(c * n for c, n in zip(row, counts, strict=True)) for row in self._cells]
        xp = array_namespace(true)
        return [self.total(true, xp.full_like(true, i), sample_weight=sample_weight) for i in range(self.n_actions)]


def check_binary(costs: Any) -> None:
    """Raise unless these are costs of two classes."""
    if not isinstance(costs, CostMatrix):
        raise no_costs(costs)
    if costs.n_classes != 2:
        raise ValueError(
            f"costs must be those of two classes, but the cost matrix has {costs.n_classes}: more have no threshold, "
            "they are decided by costs.decide(probabilities), and find_multipliers corrects these"
        )
    if not costs.square:
        raise ValueError(
            f"costs must be those of predicting two classes, but the cost matrix has other actions: {costs}"
        )


def no_costs(given: Any) -> TypeError:
    """Return the error about something that is no cost matrix: how the one that was meant is written."""
    told = f"costs must be a CostMatrix such as CostMatrix(fp=1, fn=8), got {given!r}"
    shape = np.shape(given) if isinstance(given, list | tuple | np.ndarray) else getattr(given, "shape", ())
    if len(shape) == 2:
        told = (
            f"costs must be a CostMatrix, got an array of {shape[0]} x {shape[1]}: say what its rows are, "
            "CostMatrix.from_array(costs, rows='predicted') or rows='actual', and classes=[...] to name them"
        )
    elif isinstance(given, Mapping):
        told = f"costs must be a CostMatrix, got a mapping: CostMatrix(**{given!r})"
    return TypeError(told)


def or_nan(metric: Callable[..., float], y_true: Array, y_pred: Array) -> float:
    """Return a metric, NaN where it is undefined: one class only, and nothing to compare with."""
    try:
        return metric(y_true, y_pred)
    except ValueError:
        return math.nan


def scale_misses(costs: CostMatrix, factor: float) -> CostMatrix:
    """Return the costs of two classes with the price of a miss, above that of a hit, multiplied by ``factor``."""
    scaled = CostMatrix(fp=costs.fp, fn=costs.tp + (costs.fn - costs.tp) * factor, tp=costs.tp, tn=costs.tn)
    known = costs.deciding
    return scaled if known is costs else scaled.decided_by(scale_misses(known, factor))


def unchecked_costs(cells: tuple[tuple[Any, ...], ...], *names: Any) -> CostMatrix:
    """Return a matrix of cells[predicted][actual] past all checks: of some samples alone, all errors may be free."""
    return CostMatrix._bare(cells, *names)


def merge_prices(given: Mapping[str, Any], default: CostMatrix | None = None) -> CostMatrix:
    """Return costs of two classes without names from prices by name; those that are missing are the default's, or free.

    Unchecked: ``clipped()`` and ``checked()`` are for those who have all rows.
    """
    if default is not None and (default.n_classes != 2 or not default.square):
        raise ValueError(
            f"fp, fn, tp and tn are prices of two classes, but these costs are of others: {default!r}; leave them out, "
            f"or give another matrix, {arrays.MATRIX}"
        )
    known = dict.fromkeys(("fp", "fn", "tp", "tn"), 0.0) if default is None else default._by_name()
    kept = () if default is None else tuple(ends for ends in default._ranges if ends[0] not in given)
    cells, ranges = read_prices(known | dict(given))
    return unchecked_costs(cells, None, None, kept + ranges)


def _counted(y: Array, n_classes: int | None) -> tuple[Array, list[int]]:
    """Return labels as class numbers, and how many rows each class has."""
    found = arrays.widest(arrays.as_vector(y, "y"))
    most = float(array_namespace(found).max(found))
    k = n_classes or (int(most) + 1 if 2 <= most < found.shape[0] else 2)  # of more classes than rows, some have none
    codes = arrays.as_classes(y, k, "y")
    return codes, [arrays.count_true(codes == j) for j in range(k)]


__all__ = [
    "CostMatrix", "as_host", "check_binary", "merge_prices", "no_costs", "or_nan", "scale_misses", "unchecked_costs"
]  # fmt: skip
