"""A table of prices, actions x classes, with names on both axes: what it holds, and as arrays, frames and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj
from numpy.typing import NDArray

from adacsl.core import arrays, naming, recipes
from adacsl.core.arrays import Array, as_host
from adacsl.core.naming import Cells, Names
from adacsl.core.prices import (
    check_dearer,
    check_prices,
    check_samples,
    clip_errors,
    column_of_errors,
    mean_over,
    row_stakes,
)
from adacsl.core.recipes import Ranges
from adacsl.core.said import SaidPrices

if TYPE_CHECKING:
    import pandas as pd


class PriceMatrix(SaidPrices):
    """Prices of each action when each class is true, for all samples or for each; a value that does not change."""

    __slots__ = ("_actions", "_classes", "_deciding", "_ranges", "_recipes", "_said")
    _said: Cells
    _classes: Names
    _actions: Names
    _ranges: Ranges
    _recipes: tuple[recipes.Recipe, ...]
    _deciding: Cells | None

    @classmethod
    def _from_cells(cls, cells: Cells, classes: Names = None, actions: Names = None, *others: Any) -> Self:
        cells, classes, actions = naming.named(cells, classes, actions)
        return cls._bare(cells, classes, actions, *others).checked()

    @classmethod
    def _bare(cls, *parts: Any) -> Self:
        """Return a matrix past all checks: of some samples alone, all errors may be free."""
        matrix = cls.__new__(cls)
        matrix._fill(*parts)
        return matrix

    def _fill(
        self, cells: Cells, classes: Names = None, actions: Names = None, ranges: Ranges = (),
        deciding: Cells | None = None,
    ) -> None:  # fmt: skip
        made = tuple(cell for row in cells for cell in row if recipes.is_recipe(cell))
        parts = {"_said": cells, "_classes": classes, "_actions": actions, "_ranges": ranges, "_recipes": made}
        for name, value in (parts | {"_deciding": deciding}).items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_array(
        cls,
        matrix: Array,
        *,
        rows: Literal["predicted", "actual"],
        classes: Iterable[object] | None = None,
        actions: Iterable[object] | None = None,
    ) -> Self:
        """Take a K x K matrix (or n x K x K, one matrix for each sample), saying what its rows are.

        Parameters
        ----------
        matrix : array of shape (K, K), (A, K), (n, K, K) or (n, A, K)
            With more actions than classes (refer to a person), predictions are numbers of actions.
        rows : {"predicted", "actual"}
            What the rows stand for; the columns are the other one.
        classes, actions : sequences of labels, optional
            Their names. Actions need names where they are not the predictions of the classes.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix.from_array([[0, 8], [1, 0]], rows="predicted")
        CostMatrix(fp=1, fn=8)
        >>> CostMatrix.from_array([[0, 1], [8, 0]], rows="actual")
        CostMatrix(fp=1, fn=8)
        >>> refer = [[0, 8], [1, 0], [0.5, 0.5]]
        >>> names = {"classes": ["well", "ill"], "actions": ["go", "treat", "ask"]}
        >>> costs = CostMatrix.from_array(refer, rows="predicted", **names)
        >>> [costs.actions[i] for i in costs.decide([0.01, 0.1, 0.9])]
        ['go', 'ask', 'treat']
        """
        called, done = naming.as_names(classes, "classes"), naming.as_names(actions, "actions")
        return cls._from_cells(naming.cells_from_array(matrix, rows, called, done), called, done)

    @classmethod
    def from_frame(cls, frame: Any, *, rows: Literal["predicted", "actual"]) -> Self:
        """Take a frame (pandas, polars) with names on both axes: its index (or else its first column) and its columns.

        Examples
        --------
        >>> import pandas as pd
        >>> from adacsl import CostMatrix
        >>> frame = pd.DataFrame({"well": [0, 1], "ill": [8, 0]}, index=["well", "ill"])
        >>> CostMatrix.from_frame(frame, rows="predicted")
        CostMatrix.from_array([[0, 8], [1, 0]], rows='predicted', classes=['well', 'ill'])
        """
        values, index, columns = naming.read_frame(frame)
        actions, classes = (columns, index) if rows == "actual" else (index, columns)
        return cls.from_array(values, rows=rows, classes=classes, actions=actions)

    # what it holds

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self._said[0])

    @property
    def n_actions(self) -> int:
        """The number of actions to choose from: that of the classes, unless there are others than predicting one."""
        return len(self._said)

    @property
    def classes(self) -> Names:
        """The names of the classes, None where they have none."""
        return self._classes

    @property
    def actions(self) -> Names:
        """The names of the actions (those of the classes, where each action predicts one), or None."""
        return self._classes if self.square else self._actions

    @property
    def square(self) -> bool:
        """Whether action i is the prediction of class i."""
        return self._actions is None and len(self._said) == len(self._said[0])

    @property
    def n_instances(self) -> int | None:
        """How many samples bring their own costs; None where one price holds for all."""
        return next((cell.shape[0] for cell in self._flat() if not isinstance(cell, float)), None)

    def reduced(self) -> Self:
        """Return the matrix that leads to the same decisions and in which the right one is free: a zero diagonal.

        Where actions are other than predicting a class, the cheapest one of each class is the right one.
        """
        columns = [column_of_errors(self._cells, j, square=self.square) for j in range(self.n_classes)]
        ranges = recipes.reduced_ranges(self._by_name(), self._ranges) if self._ranges else ()
        return self._like(tuple(zip(*columns, strict=True)), ranges, self._known("reduced"))

    def aligned(self, classes: Iterable[object]) -> Self:
        """Return the matrix with its classes in the order of these labels: those of the data, all and no others.

        Text matches numbers ("1" means 1). A matrix without names has to be in that order already.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> costs = CostMatrix.from_array([[0, 8], [1, 0]], rows="predicted", classes=["well", "ill"])
        >>> costs.aligned(["ill", "well"])
        CostMatrix.from_array([[0, 1], [8, 0]], rows='predicted', classes=['ill', 'well'])
        """
        wanted = list(classes)
        if self._classes is None:
            if len(wanted) != self.n_classes:
                raise ValueError(
                    f"the cost matrix has {self.n_classes} classes, but the data have {len(wanted)}: "
                    f"{naming.shown(wanted)}"
                )
            return self
        order = naming.positions(self._classes, wanted)
        rows = [self._said[i] for i in order] if self.square else self._said
        names = tuple(self._classes[j] for j in order)
        cells = tuple(tuple(row[j] for j in order) for row in rows)
        return self._bare(cells, names, self._actions, (), self._known("aligned", wanted))

    def rows(self, index: Array) -> Self:
        """Return the costs of some samples (a slice, a mask or positions); class-wide costs stay as they are."""
        if self.n_instances is None:
            return self

        def pick(cell: Any) -> Any:
            return cell[arrays.move(index, cell) if is_array_api_obj(index) else index]

        # some samples alone may have free errors only: still their costs
        return self._like(self._mapped(pick), deciding=self._known("rows", index))

    def averaged(self, labels: Array | None = None) -> Self:
        """Return one price per outcome: the means over the samples.

        With ``labels`` (class numbers), only samples that can pay a price count for it: positives for a miss, negatives
        for a false alarm, those of class j for column j. A class without samples has the mean over all.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> costs = CostMatrix(fp=1, fn=[10.0, 20.0, 90.0])
        >>> costs.averaged(), costs.averaged(labels=[1, 1, 0])
        (CostMatrix(fp=1, fn=40), CostMatrix(fp=1, fn=15))
        """
        classes = None if labels is None else self._labels(labels)
        cells = tuple(tuple(mean_over(cell, classes, j) for j, cell in enumerate(row)) for row in self._cells)
        if self.n_classes == self.n_actions == 2 and self.square:
            check_prices(cells)
        return self._like(cells)

    def row_weights(self, labels: Array) -> Array:
        """Return how much an error about each sample costs, relative to the mean of its class.

        That is fn / mean fn among the positives, fp / mean fp among the negatives (of the reduced costs; of more
        classes, the mean over the errors). Ones where all samples cost the same.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=[10.0, 20.0, 90.0]).row_weights([1, 1, 0]).tolist()
        [0.6666666666666666, 1.3333333333333333, 1.0]
        """
        return row_stakes(self.reduced()._cells, self._labels(labels))

    def without_samples(self) -> Self:
        """Return the costs with prices of single samples replaced by their means; those over columns stay."""
        cells = ((c if recipes.is_recipe(c) else mean_over(c, None, 0) for c in row) for row in self._said)
        return self._like(tuple(map(tuple, cells)))

    def clipped(self) -> Self:
        """Return the costs with errors about single samples that cost less than being right made free."""
        return self._like(clip_errors(self._cells, square=self.square), deciding=self._known("clipped"))

    def checked(self) -> Self:
        """Return itself; raise where errors do not cost more than being right. What depends on columns passes."""
        if self.settled:
            check_prices(self._cells, self._classes, self._actions)
        elif self.n_classes == 2 and self.square:
            said = self._by_name()
            for error, right in (("fn", "tp"), ("fp", "tn")):
                if isinstance(said[error], float) and isinstance(said[right], float):
                    check_dearer(said[error], said[right], error, right)
        if self._ranges:
            recipes.check_ranges(self._by_name(), self._ranges)
        return self

    # arrays, frames, JSON, equality, display

    def to_array(self, like: Array | None = None) -> Any:
        """Return the prices as an array of actions x classes (n x actions x classes where samples have their own).

        ``like`` names the library and the device by an array of it; default is numpy.
        """
        n = self.n_instances
        if n is None:
            table = np.asarray(self._cells, dtype=np.float64)
        else:
            table = np.stack([np.stack([_spread(cell, n) for cell in row], -1) for row in self._cells], -2)
        if like is None:
            return table
        xp = array_namespace(like)
        return xp.asarray(table, dtype=arrays.default_float(xp, like), device=device(like))

    def to_frame(self) -> pd.DataFrame:
        """Return the prices as a pandas DataFrame: rows are predicted, columns are actual (needs pandas)."""
        import pandas as pd  # noqa: PLC0415  pandas stays optional

        if self.n_instances is not None:
            raise ValueError("a frame holds one price for each outcome, and each sample has its own: averaged() first")
        names = self.actions or range(self.n_actions), self.classes or range(self.n_classes)
        index, columns = (
            pd.Index(list(axis), name=what) for axis, what in zip(names, ("predicted", "actual"), strict=True)
        )
        return pd.DataFrame(self.to_array(), index, columns)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return naming.to_document(*self._parts())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        return cls._from_cells(*naming.read_document(data))

    def to_json(self) -> str:
        """Return a JSON text; floats survive the round trip exactly."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ValueError(f"these costs are no JSON as to_json writes it: {error}") from None
        return cls.from_dict(data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PriceMatrix):
            return NotImplemented
        sizes, others = ((m.n_actions, m.n_classes, m._classes, m._actions, m._ranges) for m in (self, other))
        if (self._deciding is None) != (other._deciding is None):
            return False
        if self._deciding is not None and self.deciding != other.deciding:
            return False
        return sizes == others and all(
            naming.same_cell(a, b)
            for row, rival in zip(self._said, other._said, strict=True)
            for a, b in zip(row, rival, strict=True)
        )

    def __hash__(self) -> int:
        if self.settled and self.n_instances is not None:
            raise TypeError("costs of single samples are not hashable; class-wide costs are")
        return hash(self._parts())

    def __repr__(self) -> str:
        known = "" if self._deciding is None else f".decided_by({self.deciding!r})"
        return naming.show(*self._parts()[:4]) + known

    def _repr_html_(self) -> str:
        return naming.as_html(*self._parts()[:4])

    def __setattr__(self, *change: object) -> NoReturn:
        raise AttributeError("a CostMatrix does not change; make a new one")

    __delattr__ = __setattr__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    # the parts everything above is made of

    @property
    def _cells(self) -> Cells:
        """The prices, for all who need numbers."""
        if self._recipes:
            raise recipes.unsettled(self.columns)
        return self._said

    def _like(self, cells: Cells, ranges: Ranges | None = None, deciding: Cells | None = None) -> Self:
        return self._bare(cells, self._classes, self._actions, self._ranges if ranges is None else ranges, deciding)

    def _known(self, change: str, *given: Any) -> Cells | None:
        """Return the prices to decide by, changed as the others are."""
        return None if self._deciding is None else getattr(self.deciding, change)(*given)._cells

    def _parts(self) -> tuple[Any, ...]:
        every = (self._said, self._classes, self._actions, self._ranges)
        return every if self._deciding is None else (*every, self._deciding)

    def _by_name(self) -> dict[str, Any]:
        (tn, fn), (fp, tp) = self._said
        return {"fp": fp, "fn": fn, "tp": tp, "tn": tn}

    def _labels(self, labels: Array) -> Array:
        classes = arrays.as_classes(labels, self.n_classes, "labels")
        check_samples(self.n_instances, classes.shape[0])
        return classes

    def _flat(self) -> Iterator[Any]:
        return (cell for row in self._cells for cell in row)

    def _mapped(self, change: Callable[[Any], Any]) -> Cells:
        return tuple(tuple(c if isinstance(c, float) else change(c) for c in row) for row in self._cells)


def _spread(cell: Any, n: int) -> NDArray[np.float64]:
    return np.broadcast_to(as_host(cell), (n,))
