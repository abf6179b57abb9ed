"""What each outcome of a decision costs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NoReturn

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from adacsl.core import arrays
from adacsl.core.arrays import Array, as_host
from adacsl.core.prices import as_price, check_prices, check_samples, is_free, price_like, show_price


class CostMatrix:
    r"""What each outcome costs: one price per outcome, K x K prices, or prices of each single sample.

    Costs are given **by name**, because published code disagrees about which axis of a matrix is the truth.

    Parameters
    ----------
    fp, fn : float or array of shape (n,)
        Price of a false positive, C(1, 0), and of a false negative, C(0, 1).
    tp, tn : float or array of shape (n,), default 0
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

    __slots__ = ("_cells",)
    _cells: tuple[tuple[Any, ...], ...]

    def __init__(self, *, fp: Any, fn: Any, tp: Any = 0.0, tn: Any = 0.0) -> None:
        cells = ((as_price(tn, "tn"), as_price(fn, "fn")), (as_price(fp, "fp"), as_price(tp, "tp")))
        check_prices(cells)
        object.__setattr__(self, "_cells", cells)

    @classmethod
    def _from_cells(cls, cells: tuple[tuple[Any, ...], ...]) -> CostMatrix:
        check_prices(cells)
        return unchecked_costs(cells)

    @classmethod
    def from_array(cls, matrix: Array, *, rows: Literal["predicted", "actual"]) -> CostMatrix:
        """Take a K x K matrix (or n x K x K, one matrix for each sample), saying what its rows are.

        Examples
        --------
        >>> CostMatrix.from_array([[0, 8], [1, 0]], rows="predicted")
        CostMatrix(fp=1, fn=8)
        >>> CostMatrix.from_array([[0, 1], [8, 0]], rows="actual")
        CostMatrix(fp=1, fn=8)
        """
        if rows not in ("predicted", "actual"):
            raise ValueError(
                f"rows must be 'predicted' or 'actual', got {rows!r}: say what the rows of the matrix stand for"
            )
        array = arrays.as_array(matrix, "the cost matrix")
        if array.ndim not in (2, 3) or array.shape[-1] != array.shape[-2] or array.shape[-1] < 2:
            raise ValueError(
                f"the cost matrix must be square, K x K or n x K x K with K >= 2, got shape {tuple(array.shape)}"
            )
        k = array.shape[-1]

        def entry(predicted: int, actual: int) -> Any:
            row, column = (predicted, actual) if rows == "predicted" else (actual, predicted)
            return as_price(array[..., row, column], f"the cost of predicting {predicted} when {actual} is true")

        return cls._from_cells(tuple(tuple(entry(i, j) for j in range(k)) for i in range(k)))

    @classmethod
    def balanced(cls, y: Array, *, factor: float = 1.0) -> CostMatrix:
        """Return the paper's inverse priors: fp = N / N-, fn = factor * N / N+.

        Calling everything positive then costs exactly N, so that costs compare across data sets.
        """
        classes = arrays.as_classes(y, 2, "y")
        n, positives = classes.shape[0], arrays.count_true(classes == 1)
        if positives in (0, n):
            raise ValueError(f"balanced costs need both classes, but all {n} labels are {int(positives > 0)}")
        return cls(fp=n / (n - positives), fn=factor * n / positives)

    # what it holds

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self._cells)

    @property
    def n_instances(self) -> int | None:
        """How many samples bring their own costs; None where one price holds for all."""
        return next((cell.shape[0] for cell in self._flat() if not isinstance(cell, float)), None)

    fp = property(lambda self: self._binary("fp", 1, 0), doc="Price of a false positive, C(1, 0).")
    fn = property(lambda self: self._binary("fn", 0, 1), doc="Price of a false negative, C(0, 1).")
    tp = property(lambda self: self._binary("tp", 1, 1), doc="Price of a true positive, C(1, 1).")
    tn = property(lambda self: self._binary("tn", 0, 0), doc="Price of a true negative, C(0, 0).")

    @property
    def threshold(self) -> Any:
        """The Bayes threshold T: positive is the cheaper decision where the probability is above it (eq. 1)."""
        fp, fn = self.fp - self.tn, self.fn - self.tp
        if isinstance(fp + fn, float):
            return fp / (fp + fn)
        xp = array_namespace(fp + fn)
        indifferent = fp + fn == 0  # both errors are free: never positive, as nothing is gained by it
        return xp.where(indifferent, 1.0, fp / xp.where(indifferent, 1.0, fp + fn))

    @property
    def ratio(self) -> Any:
        """How many false positives one false negative is worth: rho = C(0, 1) / C(1, 0), reduced."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.fn - self.tp) / (self.fp - self.tn)

    def reduced(self) -> CostMatrix:
        """Return the matrix with a zero diagonal that leads to the same decisions."""
        k = self.n_classes
        return unchecked_costs(
            tuple(tuple(self._cells[i][j] - self._cells[j][j] if i != j else 0.0 for j in range(k)) for i in range(k))
        )

    def rows(self, index: Array) -> CostMatrix:
        """Return the costs of some samples (a slice, a mask or positions); class-wide costs stay as they are."""
        if self.n_instances is None:
            return self

        def pick(cell: Any) -> Any:
            return cell[arrays.move(index, cell) if is_array_api_obj(index) else index]

        # some samples alone may have free errors only: still their costs
        return unchecked_costs(self._mapped(pick))

    def averaged(self) -> CostMatrix:
        """Return one price per outcome: the means over the samples."""
        return self._from_cells(self._mapped(lambda cell: float(array_namespace(cell).mean(cell))))

    # what it decides

    def decide(self, probabilities: Array) -> Array:
        """Return the cheapest class for each sample.

        Parameters
        ----------
        probabilities : array of shape (n,) or (n, K)
            Probability of the positive class, or of every class. Ties go to the lower class: positive needs p > T.
        """
        probabilities = self._probabilities(probabilities)
        xp = array_namespace(probabilities)
        if self.n_classes == 2:
            positive = arrays.widest(probabilities if probabilities.ndim == 1 else probabilities[:, 1])
            return xp.astype(positive > price_like(self.threshold, positive), xp.int64)
        return xp.argmin(self._expected_of_each(probabilities), axis=1)

    def expected(self, probabilities: Array, decisions: Array | None = None) -> Array:
        """Return what each sample is expected to cost under ``decisions`` (default: the cheapest ones)."""
        probabilities = self._probabilities(probabilities)
        given = self.decide(probabilities) if decisions is None else decisions
        chosen = arrays.as_column(arrays.as_classes(given, self.n_classes, "decisions"), probabilities, "decisions")
        each = self._expected_of_each(probabilities)
        return array_namespace(each).take_along_axis(each, chosen[:, None], axis=1)[:, 0]

    # what decisions have cost

    def incurred(self, y_true: Array, y_pred: Array) -> Array:
        """Return what each single decision has cost."""
        true, pred = self._pair(y_true, y_pred)
        xp = array_namespace(true)
        out = arrays.widest(xp.zeros_like(true))
        for i, row in enumerate(self._cells):
            for j, cell in enumerate(row):
                if not is_free(cell):
                    out = xp.where((pred == i) & (true == j), price_like(cell, out), out)
        return out

    def total(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the sum of all costs."""
        true, pred = self._pair(y_true, y_pred)
        weight = arrays.as_weights(sample_weight, true)
        if weight is None and self.n_instances is None:
            # prices times exact counts: no rounding builds up over the samples
            return math.fsum(self._cells[i][j] * n for i, j, n in arrays.count_outcomes(true, pred, self.n_classes))
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

    # JSON, equality, display

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"rows": "predicted", "costs": [[as_host(cell).tolist() for cell in row] for row in self._cells]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CostMatrix:
        """Read what :meth:`to_dict` wrote."""
        if not isinstance(data, dict) or set(data) != {"rows", "costs"} or data["rows"] != "predicted":
            raise ValueError(
                f'a cost matrix is written as {{"rows": "predicted", "costs": [[...], ...]}}, got {str(data)[:80]}'
            )
        rows = data["costs"]
        k = len(rows) if isinstance(rows, list) else 0
        if k < 2 or any(not isinstance(row, list) or len(row) != k for row in rows):
            raise ValueError(f"the costs must be a square list of lists, got {str(rows)[:80]}")
        return cls._from_cells(tuple(tuple(as_price(c, "a cost") for c in row) for row in rows))

    def to_json(self) -> str:
        """Return a JSON text; floats survive the round trip exactly."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> CostMatrix:
        """Read what :meth:`to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CostMatrix):
            return NotImplemented
        return self.n_classes == other.n_classes and all(
            np.array_equal(as_host(a), as_host(b)) for a, b in zip(self._flat(), other._flat(), strict=True)
        )

    def __hash__(self) -> int:
        if self.n_instances is not None:
            raise TypeError("costs of single samples are not hashable; class-wide costs are")
        return hash(self._cells)

    def __repr__(self) -> str:
        if self.n_classes > 2:
            body = ", ".join("[" + ", ".join(show_price(cell) for cell in row) + "]" for row in self._cells)
            return f"CostMatrix.from_array([{body}], rows='predicted')"
        prices = {"fp": self.fp, "fn": self.fn, "tp": self.tp, "tn": self.tn}
        shown = (f"{name}={show_price(cell)}" for name, cell in prices.items() if name[0] == "f" or not is_free(cell))
        return f"CostMatrix({', '.join(shown)})"

    def __setattr__(self, *change: object) -> NoReturn:
        raise AttributeError("a CostMatrix does not change; make a new one")

    __delattr__ = __setattr__

    def __reduce__(self) -> tuple[Any, ...]:
        return unchecked_costs, (self._cells,)

    def __deepcopy__(self, memo: dict[int, Any]) -> CostMatrix:
        return self

    # the parts everything above is made of

    def _flat(self) -> Iterator[Any]:
        return (cell for row in self._cells for cell in row)

    def _mapped(self, change: Callable[[Any], Any]) -> tuple[tuple[Any, ...], ...]:
        return tuple(tuple(c if isinstance(c, float) else change(c) for c in row) for row in self._cells)

    def _binary(self, name: str, predicted: int, actual: int) -> Any:
        if self.n_classes != 2:
            raise ValueError(f"{name} speaks of two classes, but this matrix has {self.n_classes}; use decide()")
        return self._cells[predicted][actual]

    def _pair(self, y_true: Array, y_pred: Array) -> tuple[Array, Array]:
        true = arrays.as_classes(y_true, self.n_classes, "y_true")
        check_samples(self.n_instances, true.shape[0])
        return true, arrays.as_column(arrays.as_classes(y_pred, self.n_classes, "y_pred"), true, "y_pred")

    def _probabilities(self, values: Array) -> Array:
        array = arrays.as_probabilities(values, self.n_classes)
        check_samples(self.n_instances, array.shape[0])
        return array

    def _expected_of_each(self, probabilities: Array) -> Array:
        """Return the expected cost of predicting each class, n x K: sum over j of P(j | x) C(i, j)."""
        xp = array_namespace(probabilities)
        wide = arrays.widest(probabilities)
        each = (1.0 - wide, wide) if wide.ndim == 1 else [wide[:, j] for j in range(self.n_classes)]
        products = ([p * price_like(c, wide) for p, c in zip(each, row, strict=True)] for row in self._cells)
        return xp.stack([sum(row[1:], row[0]) for row in products], axis=1)

    def _constant_totals(self, y_true: Array, sample_weight: Array | None) -> list[float]:
        true = arrays.as_classes(y_true, self.n_classes, "y_true")
        xp = array_namespace(true)
        return [self.total(true, xp.full_like(true, i), sample_weight=sample_weight) for i in range(self.n_classes)]


def check_binary(costs: Any) -> None:
    """Raise unless these are costs of two classes."""
    if not isinstance(costs, CostMatrix):
        raise TypeError(f"costs must be a CostMatrix such as CostMatrix(fp=1, fn=8), got {costs!r}")
    if costs.n_classes != 2:
        raise ValueError(f"costs must be those of two classes, but the cost matrix has {costs.n_classes}")


def or_nan(metric: Callable[..., float], y_true: Array, y_pred: Array) -> float:
    """Return a metric, NaN where it is undefined: one class only, and nothing to compare with."""
    try:
        return metric(y_true, y_pred)
    except ValueError:
        return math.nan


def unchecked_costs(cells: tuple[tuple[Any, ...], ...]) -> CostMatrix:
    """Return a matrix of cells[predicted][actual] past all checks: of some samples alone, all errors may be free."""
    matrix = CostMatrix.__new__(CostMatrix)
    object.__setattr__(matrix, "_cells", cells)
    return matrix


__all__ = ["CostMatrix", "as_host", "check_binary", "or_nan", "unchecked_costs"]
