"""What each outcome of a decision costs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj

from adacsl.core.arrays import (
    Array,
    as_array,
    as_classes,
    as_vector,
    as_weights,
    check_finite,
    check_probabilities,
    count_true,
    default_float,
    move,
)

Cost: TypeAlias = Any
"""One price for all samples (a float), or one price for each sample (a vector)."""

Cells: TypeAlias = tuple[tuple[Cost, ...], ...]


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
    _cells: Cells

    def __init__(self, *, fp: Cost, fn: Cost, tp: Cost = 0.0, tn: Cost = 0.0) -> None:
        cells = ((_cell(tn, "tn"), _cell(fn, "fn")), (_cell(fp, "fp"), _cell(tp, "tp")))
        _check_lengths(cells)
        _check_binary(cells)
        object.__setattr__(self, "_cells", cells)

    @classmethod
    def _from_cells(cls, cells: Cells) -> CostMatrix:
        if len(cells) == 2:
            (tn, fn), (fp, tp) = cells
            return cls(fp=fp, fn=fn, tp=tp, tn=tn)
        _check_lengths(cells)
        _check_many_classes(cells)
        return cls._unchecked(cells)

    @classmethod
    def _unchecked(cls, cells: Cells) -> CostMatrix:
        matrix = cls.__new__(cls)
        object.__setattr__(matrix, "_cells", cells)
        return matrix

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
        array = as_array(matrix, "the cost matrix")
        if array.ndim not in (2, 3) or array.shape[-1] != array.shape[-2] or array.shape[-1] < 2:
            raise ValueError(
                f"the cost matrix must be square, K x K or n x K x K with K >= 2, got shape {tuple(array.shape)}"
            )
        k = array.shape[-1]

        def entry(predicted: int, actual: int) -> Cost:
            row, column = (predicted, actual) if rows == "predicted" else (actual, predicted)
            return _cell(array[..., row, column], f"the cost of predicting {predicted} when {actual} is true")

        return cls._from_cells(tuple(tuple(entry(i, j) for j in range(k)) for i in range(k)))

    @classmethod
    def balanced(cls, y: Array, *, factor: float = 1.0) -> CostMatrix:
        """Return the paper's inverse priors: fp = N / N-, fn = factor * N / N+.

        Calling everything positive then costs exactly N, so that costs compare across data sets.
        """
        classes = as_classes(y, 2, "y")
        n, positives = classes.shape[0], count_true(classes == 1)
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
        lengths = [cell.shape[0] for cell in self._flat() if not isinstance(cell, float)]
        return lengths[0] if lengths else None

    @property
    def fp(self) -> Cost:
        """Price of a false positive, C(1, 0)."""
        return self._binary("fp")[1][0]

    @property
    def fn(self) -> Cost:
        """Price of a false negative, C(0, 1)."""
        return self._binary("fn")[0][1]

    @property
    def tp(self) -> Cost:
        """Price of a true positive, C(1, 1)."""
        return self._binary("tp")[1][1]

    @property
    def tn(self) -> Cost:
        """Price of a true negative, C(0, 0)."""
        return self._binary("tn")[0][0]

    @property
    def threshold(self) -> Cost:
        """The Bayes threshold T: positive is the cheaper decision where the probability is above it (eq. 1)."""
        fp, fn = self.fp - self.tn, self.fn - self.tp
        if isinstance(fp + fn, float):
            return fp / (fp + fn)
        xp = array_namespace(fp + fn)
        indifferent = fp + fn == 0  # both errors are free: never positive, as nothing is gained by it
        return xp.where(indifferent, 1.0, fp / xp.where(indifferent, 1.0, fp + fn))

    @property
    def ratio(self) -> Cost:
        """How many false positives one false negative is worth: rho = C(0, 1) / C(1, 0), reduced."""
        miss, alarm = self.fn - self.tp, self.fp - self.tn
        if not isinstance(alarm, float):
            with np.errstate(divide="ignore", invalid="ignore"):
                return miss / alarm
        return miss / alarm

    def reduced(self) -> CostMatrix:
        """Return the matrix with a zero diagonal that leads to the same decisions."""
        k = self.n_classes
        return self._unchecked(
            tuple(tuple(self._cells[i][j] - self._cells[j][j] if i != j else 0.0 for j in range(k)) for i in range(k))
        )

    def rows(self, index: Array) -> CostMatrix:
        """Return the costs of some samples (a slice, a mask or positions); class-wide costs stay as they are."""
        if self.n_instances is None:
            return self

        def pick(cell: Cost) -> Cost:
            if isinstance(cell, float):
                return cell
            return cell[move(index, cell) if is_array_api_obj(index) else index]

        # some samples alone may have free errors only: still their costs
        return self._unchecked(tuple(tuple(pick(cell) for cell in row) for row in self._cells))

    def averaged(self) -> CostMatrix:
        """Return one price per outcome: the means over the samples."""
        return self._from_cells(
            tuple(
                tuple(cell if isinstance(cell, float) else float(array_namespace(cell).mean(cell)) for cell in row)
                for row in self._cells
            )
        )

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
            positive = probabilities if probabilities.ndim == 1 else probabilities[:, 1]
            wide = xp.astype(positive, default_float(xp, positive))
            return xp.astype(wide > self._like(self.threshold, wide), xp.int64)
        return xp.argmin(self._expected_of_each(probabilities), axis=1)

    def expected(self, probabilities: Array, decisions: Array | None = None) -> Array:
        """Return what each sample is expected to cost under ``decisions`` (default: the cheapest ones)."""
        probabilities = self._probabilities(probabilities)
        chosen = self.decide(probabilities) if decisions is None else self._classes(decisions, "decisions")
        _same_length(chosen, probabilities, "decisions", "probabilities")
        each = self._expected_of_each(probabilities)
        xp = array_namespace(each)
        return xp.take_along_axis(each, move(chosen, each)[:, None], axis=1)[:, 0]

    # what decisions have cost

    def incurred(self, y_true: Array, y_pred: Array) -> Array:
        """Return what each single decision has cost."""
        true, pred = self._pair(y_true, y_pred)
        xp = array_namespace(true)
        out = xp.zeros(true.shape, dtype=default_float(xp, true), device=device(true))
        for i, row in enumerate(self._cells):
            for j, cell in enumerate(row):
                if not (isinstance(cell, float) and cell == 0.0):
                    out = xp.where((pred == i) & (true == j), self._like(cell, out), out)
        return out

    def total(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the sum of all costs."""
        true, pred = self._pair(y_true, y_pred)
        weight = as_weights(sample_weight, true)
        if weight is None and self.n_instances is None:
            return self._total_of_counts(true, pred)
        each = self.incurred(true, pred)
        xp = array_namespace(each)
        return float(xp.sum(each if weight is None else each * weight))

    def mean(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the cost per sample (per unit of weight)."""
        total = self.total(y_true, y_pred, sample_weight=sample_weight)
        true = as_vector(y_true, "y_true")
        weight = as_weights(sample_weight, true)
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
        cells = [[c if isinstance(c, float) else as_host(c).tolist() for c in row] for row in self._cells]
        return {"rows": "predicted", "costs": cells}

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
        return cls._from_cells(tuple(tuple(_cell(c, "a cost") for c in row) for row in rows))

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
        def show(cell: Cost) -> str:
            if isinstance(cell, float):
                return f"{cell:.12g}"
            return f"<{cell.shape[0]} values, mean {float(array_namespace(cell).mean(cell)):.6g}>"

        if self.n_classes > 2:
            body = ", ".join("[" + ", ".join(show(c) for c in row) + "]" for row in self._cells)
            return f"CostMatrix.from_array([{body}], rows='predicted')"
        parts = [f"fp={show(self.fp)}", f"fn={show(self.fn)}"]
        parts += [
            f"{name}={show(c)}"
            for name, c in (("tp", self.tp), ("tn", self.tn))
            if not (isinstance(c, float) and c == 0)
        ]
        return f"CostMatrix({', '.join(parts)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a CostMatrix does not change; make a new one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a CostMatrix does not change; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return CostMatrix._unchecked, (self._cells,)

    def __deepcopy__(self, memo: dict[int, Any]) -> CostMatrix:
        return self

    # the parts everything above is made of

    def _flat(self) -> Iterator[Cost]:
        return (cell for row in self._cells for cell in row)

    def _binary(self, name: str) -> Cells:
        if self.n_classes != 2:
            raise ValueError(f"{name} speaks of two classes, but this matrix has {self.n_classes}; use decide()")
        return self._cells

    def _classes(self, values: Array, name: str) -> Array:
        return as_classes(values, self.n_classes, name)

    def _pair(self, y_true: Array, y_pred: Array) -> tuple[Array, Array]:
        true, pred = self._classes(y_true, "y_true"), self._classes(y_pred, "y_pred")
        _same_length(pred, true, "y_pred", "y_true")
        self._check_instances(true.shape[0])
        return true, move(pred, true)

    def _check_instances(self, n: int) -> None:
        if self.n_instances not in (None, n):
            raise ValueError(
                f"these costs belong to {self.n_instances} samples, but {n} came; pick theirs with .rows(index)"
            )

    def _like(self, cell: Cost, like: Array) -> Cost:
        return cell if isinstance(cell, float) else array_namespace(like).astype(move(cell, like), like.dtype)

    def _probabilities(self, values: Array) -> Array:
        array = as_array(values, "probabilities")
        wanted = f"(n, {self.n_classes})" if self.n_classes > 2 else "(n,) or (n, 2)"
        fits = (array.ndim == 1 and self.n_classes == 2) or (array.ndim == 2 and array.shape[1] == self.n_classes)
        if not fits:
            raise ValueError(f"probabilities must have shape {wanted}, got {tuple(array.shape)}")
        if array.shape[0] == 0:
            raise ValueError("probabilities are empty: at least one sample is needed")
        xp = array_namespace(array)
        if not xp.isdtype(array.dtype, "real floating"):
            array = xp.astype(array, default_float(xp, array))
        check_probabilities(array, "probabilities")
        if array.ndim == 2:
            _check_rows_sum_to_one(array)
        self._check_instances(array.shape[0])
        return array

    def _expected_of_each(self, probabilities: Array) -> Array:
        """Return the expected cost of predicting each class, n x K: sum over j of P(j | x) C(i, j)."""
        xp = array_namespace(probabilities)
        wide = xp.astype(probabilities, default_float(xp, probabilities))
        if wide.ndim == 1:
            wide = xp.stack((1.0 - wide, wide), axis=1)
        zero = xp.zeros((wide.shape[0],), dtype=wide.dtype, device=device(wide))
        return xp.stack(
            [sum((wide[:, j] * self._like(c, wide) for j, c in enumerate(row)), zero) for row in self._cells], axis=1
        )

    def _total_of_counts(self, true: Array, pred: Array) -> float:
        # costs times exact counts: no rounding builds up over the samples
        xp = array_namespace(true)
        k = self.n_classes
        found = xp.unique_counts(pred * k + true) if k > 2 else _binary_counts(true, pred)
        return math.fsum(
            self._cells[int(cell) // k][int(cell) % k] * int(count)
            for cell, count in zip(found[0], found[1], strict=True)
        )

    def _constant_totals(self, y_true: Array, sample_weight: Array | None) -> list[float]:
        true = self._classes(y_true, "y_true")
        xp = array_namespace(true)
        return [
            self.total(true, xp.full(true.shape, i, dtype=true.dtype, device=device(true)), sample_weight=sample_weight)
            for i in range(self.n_classes)
        ]


def as_host(cell: Cost) -> Any:
    """Return a float or array as numpy, wherever it lived."""
    if isinstance(cell, float | np.ndarray):
        return np.asarray(cell)
    return np.asarray(cell.cpu() if hasattr(cell, "cpu") else cell)


def _binary_counts(true: Array, pred: Array) -> tuple[Sequence[int], Sequence[int]]:
    actual, called = true == 1, pred == 1
    tp, positives, alarms = count_true(actual & called), count_true(actual), count_true(called)
    return (0, 1, 2, 3), (true.shape[0] - positives - alarms + tp, positives - tp, alarms - tp, tp)


def _cell(value: Any, name: str) -> Cost:
    """Check one price: a float, or a vector of floats that nobody else can write to."""
    if isinstance(value, str | bytes) or value is None:
        raise TypeError(f"{name} must be a number or a vector of numbers, got {value!r}")
    array = as_array(value, name)
    if array.ndim == 0:
        number = float(array)
        if not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {number}")
        return number
    if array.ndim != 1:
        raise ValueError(f"{name} must be one number or one for each sample, got shape {tuple(array.shape)}")
    vector = as_vector(array, name)
    xp = array_namespace(vector)
    vector = xp.astype(vector, default_float(xp, vector), copy=True)
    check_finite(vector, name)
    if isinstance(vector, np.ndarray):
        vector.flags.writeable = False
    return vector


def _check_lengths(cells: Cells) -> None:
    lengths = {cell.shape[0] for row in cells for cell in row if not isinstance(cell, float)}
    if len(lengths) > 1:
        raise ValueError(f"costs of single samples must all have one length, got {sorted(lengths)}")
    kinds = {type(cell).__name__ for row in cells for cell in row if not isinstance(cell, float)}
    if len(kinds) > 1:
        raise TypeError(f"costs of single samples must be arrays of one library, got {' and '.join(sorted(kinds))}")


def _check_binary(cells: Cells) -> None:
    (tn, fn), (fp, tp) = cells
    for error, right, error_name, right_name in ((fn, tp, "fn", "tp"), (fp, tn, "fp", "tn")):
        _check_dearer(error, right, error_name, right_name)


def _check_dearer(error: Cost, right: Cost, error_name: str, right_name: str) -> None:
    extra = error - right
    if isinstance(extra, float):
        if not extra > 0:
            raise ValueError(
                f"{error_name} must cost more than {right_name}, got {error_name}={error:g} and "
                f"{right_name}={right:g}: where being wrong is no dearer than being right, "
                "one constant decision is best and nothing is left to learn"
            )
        return
    xp = array_namespace(extra)
    lowest = int(xp.argmin(extra))
    if float(extra[lowest]) < 0:
        raise ValueError(
            f"{error_name} must not cost less than {right_name}, but for sample {lowest} it does, by "
            f"{-float(extra[lowest]):g}; clip {error_name} at {right_name} or leave such samples out"
        )
    if float(xp.max(extra)) == 0:
        raise ValueError(f"{error_name} costs no more than {right_name} for any sample: nothing is left to learn")


def _check_many_classes(cells: Cells) -> None:
    dearest = 0.0
    for j in range(len(cells)):
        for i in range(len(cells)):
            extra = cells[i][j] - cells[j][j]
            low = extra if isinstance(extra, float) else float(array_namespace(extra).min(extra))
            high = extra if isinstance(extra, float) else float(array_namespace(extra).max(extra))
            if low < 0:
                raise ValueError(
                    f"predicting {i} when {j} is true costs less than being right (by {-low:g}); "
                    "an error must not pay: check the matrix and its orientation"
                )
            dearest = max(dearest, high)
    if dearest == 0:
        raise ValueError("every decision costs the same: nothing is left to learn")


def _check_rows_sum_to_one(array: Array) -> None:
    xp = array_namespace(array)
    off = float(xp.max(xp.abs(xp.sum(xp.astype(array, default_float(xp, array)), axis=1) - 1.0)))
    if off > 1e-2:
        raise ValueError(f"each row of probabilities must sum to 1, one is off by {off:.3g}; apply a softmax first")


def _same_length(array: Array, other: Array, name: str, other_name: str) -> None:
    if array.shape[0] != other.shape[0]:
        raise ValueError(
            f"{name} has {array.shape[0]} entries but {other_name} has {other.shape[0]}: they must belong together"
        )


__all__ = ["Cost", "CostMatrix", "as_host"]
