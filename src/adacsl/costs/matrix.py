"""CostMatrix: what each outcome of a decision costs."""

from __future__ import annotations

import functools
import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj
from numpy.typing import NDArray

from adacsl.base import arrays
from adacsl.base.arrays import Array, as_host
from adacsl.base.labels import same_label
from adacsl.costs import formats
from adacsl.costs.cells import (
    Ranges,
    Recipe,
    as_cost,
    check_above,
    check_cell_costs,
    check_ranges,
    check_samples,
    clip_errors,
    column_of_errors,
    cost_like,
    is_free,
    is_recipe,
    mean_over,
    read_costs_of_cells,
    reduced_ranges,
    row_stakes,
    unresolved,
)
from adacsl.costs.expressions import column_names
from adacsl.costs.formats import Cells, Names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CostMatrix", "check_binary", "merge_costs", "no_costs", "or_nan", "scale_fn", "unchecked_costs"]

BELOW_ONE = 1.0 - 2.0**-53
"""The highest threshold: a cost ratio of 10^16 rounds it to 1, but a certain positive must be predicted positive."""


class CostMatrix:
    r"""Costs of the outcomes of a decision: one per outcome, K x K of them, or per-sample costs.

    Costs are given **by name**, because published code disagrees about which axis of a matrix is the truth. More than
    two classes come by :meth:`from_array` or :meth:`from_frame`.

    Parameters
    ----------
    fp : float, array of shape (n,), tuple or str
        Cost of a false positive, C(1, 0): a number, one for each sample, a range ``(low, high)`` of what it may be (the
        middle is used, :attr:`ranges` keeps both ends), or a text over the columns of a table, ``"0.8 * amount + 12"``,
        of which :meth:`of` makes the costs of its rows. A cost that is unknown at prediction time is a
        :class:`~adacsl.CostModel`, as text ``"model(amount)"``.
    fn : float, array of shape (n,), tuple or str
        Cost of a false negative, C(0, 1), in the same forms.
    tp : float, array of shape (n,), tuple or str, default 0.0
        Cost of a true positive, C(1, 1), in the same forms. Benefits are negative costs. An error must cost more than a
        correct decision.
    tn : float, array of shape (n,), tuple or str, default 0.0
        Cost of a true negative, C(0, 0).

    Raises
    ------
    ValueError
        Where an error costs no more than the correct decision, or costs are not finite.

    See Also
    --------
    CostModel : A cost that is unknown at prediction time.
    find_threshold : The cost-optimal threshold of held-out scores.
    cost_interval : The mean cost of decisions with a confidence interval.

    Notes
    -----
    Subtracting :math:`C(j, j)` from column *j* changes no decision, so every matrix is as good as its
    :meth:`reduced` form with a zero diagonal. The decision of least expected cost is "positive" where the probability
    exceeds

    .. math:: T = \frac{C(1,0)}{C(1,0) + C(0,1)} \qquad \text{(paper, eq. 1; reduced costs)}

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> costs = CostMatrix(fp=1, fn=8)
    >>> costs.threshold, costs.ratio
    (0.1111111111111111, 8.0)
    >>> costs.decide([0.05, 0.2]).tolist()
    [0, 1]
    >>> costs.total([0, 1, 1], [1, 0, 1])
    9.0
    """

    __slots__ = ("_actions", "_classes", "_deciding", "_ranges", "_recipes", "_said")
    _said: Cells
    _classes: Names
    _actions: Names
    _ranges: Ranges
    _recipes: tuple[Recipe, ...]
    _deciding: Cells | None

    def __init__(self, *, fp: Any, fn: Any, tp: Any = 0.0, tn: Any = 0.0) -> None:
        cells, ranges = read_costs_of_cells({"fp": fp, "fn": fn, "tp": tp, "tn": tn})
        self._fill(cells, None, None, ranges)
        self.checked()

    # constructors

    @classmethod
    def balanced(cls, y: Array, *, factor: float = 1.0, classes: Iterable[object] | None = None) -> CostMatrix:
        """Return the paper's inverse priors: fp = N / N-, fn = factor * N / N+.

        Calling everything positive then costs exactly N, so that costs compare across data sets. With more classes, an
        error about class j costs N / N_j; ``classes`` names them.

        Parameters
        ----------
        y : array of shape (n,)
            Class numbers.
        factor : float, default 1.0
            With two classes without names: how many times its inverse prior a false negative costs.
        classes : sequence of labels, optional
            Names of the classes, in the order of their numbers.

        Returns
        -------
        CostMatrix
            Costs under which each class weighs the same in total.

        Raises
        ------
        ValueError
            Where a class has no samples.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix.balanced([0, 1, 1, 1], factor=3)
        CostMatrix(fp=4, fn=4)
        """
        names = formats.as_names(classes, "classes")
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

    @classmethod
    def ordinal(
        cls, n_classes: int, *, power: float = 1.0, low: float = 1.0, high: float = 1.0,
        classes: Iterable[object] | None = None,
    ) -> Self:  # fmt: skip
        """Return costs of ordered classes, such as grades: an error costs its distance, to a power.

        Parameters
        ----------
        n_classes : int
            The number of classes, which are ordered.
        power : float, default 1.0
            1: the distance (absolute error); 2: its square.
        low : float, default 1.0
            Factor for predictions below the truth.
        high : float, default 1.0
            Factor for predictions above the truth.
        classes : sequence of labels, optional
            Names of the classes, in order.

        Returns
        -------
        CostMatrix
            The costs.

        Raises
        ------
        ValueError
            Where a number is out of range.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix.ordinal(3, power=2, low=5)
        CostMatrix.from_array([[0, 5, 20], [1, 0, 5], [4, 1, 0]], rows='predicted')
        """
        arrays.check_whole("n_classes", n_classes, 2)
        for name, value in (("power", power), ("low", low), ("high", high)):
            if not 0.0 < arrays.number_or_nan(value) < math.inf:
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        predicted, true = np.indices((n_classes, n_classes)).astype(np.float64)
        matrix = np.abs(predicted - true) ** power * np.where(predicted < true, low, high)
        return cls.from_array(matrix, rows="predicted", classes=classes)

    @classmethod
    def from_array(
        cls,
        matrix: Array,
        *,
        rows: Literal["predicted", "actual"],
        classes: Iterable[object] | None = None,
        actions: Iterable[object] | None = None,
    ) -> Self:
        """Return the costs of a K x K matrix (or n x K x K, one matrix for each sample).

        Parameters
        ----------
        matrix : array of shape (K, K), (A, K), (n, K, K) or (n, A, K)
            The costs. With more actions than classes (refer to a person), predictions are numbers of actions.
        rows : {"predicted", "actual"}
            What the rows stand for; the columns are the other one.
        classes : sequence of labels, optional
            Names of the classes.
        actions : sequence of labels, optional
            Names of the actions; needed where they are not the predictions of the classes.

        Returns
        -------
        CostMatrix
            The same costs by name.

        Raises
        ------
        ValueError
            Where the shape, a name or a cost makes no sense.

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
        called, done = formats.as_names(classes, "classes"), formats.as_names(actions, "actions")
        return cls._from_cells(formats.cells_from_array(matrix, rows, called, done), called, done)

    @classmethod
    def from_frame(cls, frame: Any, *, rows: Literal["predicted", "actual"]) -> Self:
        """Return the costs of a data frame with names on both axes.

        The names of its rows are its index (or its first column, in polars), those of its columns the column names.

        Parameters
        ----------
        frame : pandas.DataFrame or polars.DataFrame
            The costs.
        rows : {"predicted", "actual"}
            What the rows stand for; the columns are the other one.

        Returns
        -------
        CostMatrix
            The same costs, with names.

        Examples
        --------
        >>> import pandas as pd
        >>> from adacsl import CostMatrix
        >>> frame = pd.DataFrame({"well": [0, 1], "ill": [8, 0]}, index=["well", "ill"])
        >>> CostMatrix.from_frame(frame, rows="predicted")
        CostMatrix.from_array([[0, 8], [1, 0]], rows='predicted', classes=['well', 'ill'])
        """
        values, index, columns = formats.read_frame(frame)
        actions, classes = (columns, index) if rows == "actual" else (index, columns)
        return cls.from_array(values, rows=rows, classes=classes, actions=actions)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the costs that :meth:`to_dict` wrote.

        Parameters
        ----------
        data : dict
            The document.

        Returns
        -------
        CostMatrix
            The costs.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix.from_dict(CostMatrix(fp=1, fn=8).to_dict())
        CostMatrix(fp=1, fn=8)
        """
        return cls._from_cells(*formats.read_document(data))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the costs that :meth:`to_json` wrote.

        Parameters
        ----------
        text : str
            The document.

        Returns
        -------
        CostMatrix
            The costs.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix.from_json(CostMatrix(fp=1, fn=8).to_json())
        CostMatrix(fp=1, fn=8)
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ValueError(f"the text is not JSON as to_json writes it: {error}") from None
        return cls.from_dict(data)

    @classmethod
    def _from_cells(cls, cells: Cells, classes: Names = None, actions: Names = None, *others: Any) -> Self:
        cells, classes, actions = formats.named(cells, classes, actions)
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
        made = tuple(cell for row in cells for cell in row if is_recipe(cell))
        parts = {"_said": cells, "_classes": classes, "_actions": actions, "_ranges": ranges, "_recipes": made}
        for name, value in (parts | {"_deciding": deciding}).items():
            object.__setattr__(self, name, value)

    # shape and names

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self._said[0])

    @property
    def n_actions(self) -> int:
        """The number of actions to choose from: that of the classes, unless there are others than predicting one."""
        return len(self._said)

    @property
    def n_instances(self) -> int | None:
        """How many samples bring their own costs; None where one cost holds for all."""
        return next((cell.shape[0] for cell in self._flat() if not isinstance(cell, float)), None)

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

    # costs of two classes

    fp = property(lambda self: self._binary("fp", 1, 0), doc="Cost of a false positive, C(1, 0).")
    fn = property(lambda self: self._binary("fn", 0, 1), doc="Cost of a false negative, C(0, 1).")
    tp = property(lambda self: self._binary("tp", 1, 1), doc="Cost of a true positive, C(1, 1).")
    tn = property(lambda self: self._binary("tn", 0, 0), doc="Cost of a true negative, C(0, 0).")

    @property
    def threshold(self) -> Any:
        """The Bayes threshold T: positive has the lower expected cost where the probability is above it (eq. 1)."""
        if self._deciding is not None:
            return self.deciding.threshold
        fp, fn = self.fp - self.tn, self.fn - self.tp
        if isinstance(fp + fn, float):
            return min(fp / (fp + fn), BELOW_ONE)
        xp = array_namespace(fp + fn)
        share = fp / xp.where(fp + fn == 0, 1.0, fp + fn)
        # false negatives are free: never positive, as nothing is gained by it
        return xp.where(fn == 0, 1.0, xp.where(share < BELOW_ONE, share, BELOW_ONE))

    @property
    def ratio(self) -> Any:
        """How many false positives one false negative is worth: rho = C(0, 1) / C(1, 0), reduced."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.fn - self.tp) / (self.fp - self.tn)

    # cost specification: ranges, expressions over columns, predicted costs

    @property
    def resolved(self) -> bool:
        """Whether its costs are numbers: :meth:`of` a table makes them so."""
        return not self._recipes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that its costs depend on; none where they are numbers."""
        return tuple(dict.fromkeys(column for recipe in self._recipes for column in recipe.columns))

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The costs that were given as a range, by name: from what to what."""
        return {name: (low, high) for name, low, high in self._ranges}

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns of costs that are unknown at prediction time: excluded from the features."""
        return tuple(dict.fromkeys(column for recipe in self._recipes for column in getattr(recipe, "hidden", ())))

    @property
    def models(self) -> tuple[Any, ...]:
        """The models of costs that are unknown at prediction time."""
        return tuple(recipe for recipe in self._recipes if hasattr(recipe, "learns"))

    @property
    def learns(self) -> bool:
        """Whether some of its costs have to be learned before they can decide anything."""
        return any(model.learns for model in self.models)

    def made(self, make: Callable[[Any, int, int], Any]) -> Self:
        """Return the matrix with each recipe replaced by what ``make(recipe, action, class)`` gives."""
        return self._like(
            tuple(
                tuple(make(cell, i, j) if is_recipe(cell) else cell for j, cell in enumerate(row))
                for i, row in enumerate(self._said)
            )
        )

    def of(self, table: Any, *, clipped: bool = True) -> Self:
        """Return the costs of the rows of a table.

        Parameters
        ----------
        table : pandas, polars or pyarrow table, or mapping of arrays
            Holds the columns that the costs depend on. Costs that were learned are predicted; where the table has the
            observed ones, those are paid.
        clipped : bool, default True
            Whether an error that costs less than the correct decision is taken to cost the same.

        Returns
        -------
        CostMatrix
            Numbers for each row; itself where no cost depends on columns.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> costs = CostMatrix(fp=5, fn="0.8 * amount + 12")
        >>> costs.of({"amount": [10.0, 100.0]}).fn.tolist()
        [20.0, 92.0]
        """
        if self.resolved:
            return self

        @functools.cache
        def settle(recipe: Any) -> Any:
            return as_cost(recipe.of(table), f"the cost {recipe!r}")

        resolved = self.made(lambda recipe, *_: settle(recipe))
        if not self.learns and self.hidden and set(self.hidden) <= set(column_names(table)):
            paid = self.made(lambda recipe, *_: recipe.paid(table) if hasattr(recipe, "paid") else settle(recipe))
            resolved = paid.decided_by(resolved)
        return resolved.clipped() if clipped else resolved

    # costs known when deciding, and costs that are paid

    @property
    def deciding(self) -> Self:
        """The costs that are known when deciding: its own, unless it is :meth:`decided_by` others."""
        return self if self._deciding is None else self._like(self._deciding)

    @property
    def paid(self) -> Self:
        """The costs that are paid, alone."""
        return self if self._deciding is None else self._like(self._cells)

    def decided_by(self, known: Self) -> Self:
        """Return these costs, to be paid, with decisions made by other costs that are known before.

        Parameters
        ----------
        known : CostMatrix
            The costs to decide by, of the same outcomes and samples.

        Returns
        -------
        CostMatrix
            Costs whose ``decide`` uses ``known`` and whose totals use these.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> paid, foreseen = CostMatrix(fp=1, fn=[2.0, 30.0]), CostMatrix(fp=1, fn=[9.0, 9.0])
        >>> costs = paid.decided_by(foreseen)
        >>> costs.decide([0.2, 0.2]).tolist(), costs.total([1, 1], [0, 0])
        ([1, 1], 32.0)
        """
        shapes = {(m.n_actions, m.n_classes, m._classes, m._actions) for m in (self, known)}
        if len(shapes) > 1 or known.n_instances not in (None, self.n_instances):
            raise ValueError(f"costs to decide by must be of the same outcomes and samples as {self!r}, got {known!r}")
        return self._like(self._cells, deciding=known._cells)

    # other matrices made from this one

    def reduced(self) -> Self:
        """Return the matrix of the same decisions in which the correct decision is free: a zero diagonal.

        Where actions are other than predicting a class, the one of lowest cost for a class is the correct one.

        Returns
        -------
        CostMatrix
            The reduced costs.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=3, fn=8, tp=-1, tn=2).reduced()
        CostMatrix(fp=1, fn=9)
        """
        columns = [column_of_errors(self._cells, j, square=self.square) for j in range(self.n_classes)]
        ranges = reduced_ranges(self._by_name(), self._ranges) if self._ranges else ()
        return self._like(tuple(zip(*columns, strict=True)), ranges, self._known("reduced"))

    def aligned(self, classes: Iterable[object]) -> Self:
        """Return the matrix with its classes in the order of these labels.

        Parameters
        ----------
        classes : sequence of labels
            The labels of the data, all and no others. Text matches numbers ("1" means 1). A matrix without names has to
            be in that order already.

        Returns
        -------
        CostMatrix
            The same costs in the other order.

        Raises
        ------
        ValueError
            Where the labels are not those of the matrix.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> table, names = [[0, 8], [1, 0]], ["well", "ill"]
        >>> costs = CostMatrix.from_array(table, rows="predicted", classes=names)
        >>> costs.aligned(["ill", "well"])
        CostMatrix.from_array([[0, 1], [8, 0]], rows='predicted', classes=['ill', 'well'])
        """
        wanted = list(classes)
        if self._classes is None:
            if len(wanted) != self.n_classes:
                raise ValueError(
                    f"the cost matrix has {self.n_classes} classes, but the data have {len(wanted)}: "
                    f"{formats.shown(wanted)}"
                )
            return self
        order = formats.positions(self._classes, wanted)
        rows = [self._said[i] for i in order] if self.square else self._said
        names = tuple(self._classes[j] for j in order)
        cells = tuple(tuple(row[j] for j in order) for row in rows)
        return self._bare(cells, names, self._actions, (), self._known("aligned", wanted))

    def named(self, classes: Iterable[object]) -> Self:
        """Return the matrix with names for its classes; one that has names stays as it is.

        Parameters
        ----------
        classes : sequence of labels
            The names, in the order of the classes.

        Returns
        -------
        CostMatrix
            The same costs, with names.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).named(["well", "ill"])
        CostMatrix.from_array([[0, 8], [1, 0]], rows='predicted', classes=['well', 'ill'])
        """
        cells, known, actions, ranges = self._parts()[:4]
        if known is not None:
            return self
        named: Self = self._bare(*formats.named(cells, formats.as_names(classes, "classes"), actions), ranges)
        return named if self.deciding is self else named.decided_by(self.deciding.named(classes))

    def rows(self, index: Array) -> Self:
        """Return the costs of some samples; class-wide costs stay as they are.

        Parameters
        ----------
        index : slice, or array of positions or booleans
            Which samples.

        Returns
        -------
        CostMatrix
            The costs of these samples.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=[10.0, 20.0, 90.0]).rows(slice(2)).fn.tolist()
        [10.0, 20.0]
        """
        if self.n_instances is None:
            return self

        def pick(cell: Any) -> Any:
            return cell[arrays.move(index, cell) if is_array_api_obj(index) else index]

        # some samples alone may have free errors only: still their costs
        return self._like(self._mapped(pick), deciding=self._known("rows", index))

    def averaged(self, labels: Array | None = None) -> Self:
        """Return one cost per outcome: the means over the samples.

        Parameters
        ----------
        labels : array of shape (n,), optional
            Class numbers. With them, only samples that can have a cost count for it: positives for a false negative,
            negatives for a false positive, those of class j for column j. A class without samples has the mean over
            all.

        Returns
        -------
        CostMatrix
            Class-wide costs.

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
            check_cell_costs(cells)
        return self._like(cells)

    def without_samples(self) -> Self:
        """Return the costs with costs of single samples replaced by their means; those over columns stay."""
        cells = ((c if is_recipe(c) else mean_over(c, None, 0) for c in row) for row in self._said)
        return self._like(tuple(map(tuple, cells)))

    def clipped(self) -> Self:
        """Return the costs with errors about single samples that cost less than being right made free."""
        return self._like(clip_errors(self._cells, square=self.square), deciding=self._known("clipped"))

    def checked(self) -> Self:
        """Return itself; raise where errors do not cost more than being right. What depends on columns passes."""
        if self.resolved:
            check_cell_costs(self._cells, self._classes, self._actions)
        elif self.n_classes == 2 and self.square:
            named = self._by_name()
            for error, right in (("fn", "tp"), ("fp", "tn")):
                if isinstance(named[error], float) and isinstance(named[right], float):
                    check_above(named[error], named[right], error, right)
        if self._ranges:
            check_ranges(self._by_name(), self._ranges)
        return self

    def with_action(self, name: str, costs: Any) -> Self:
        """Return the matrix with one more action: ask for a document, offer a discount, let somebody look.

        Decisions are numbers of actions then, the new one the last. Classes without names are called by their numbers.

        Parameters
        ----------
        name : str
            Name of the action.
        costs : float, mapping or sequence
            What it costs: always, or for each class that may be true, by name or in order; each a number or one for
            each sample.

        Returns
        -------
        CostMatrix
            The costs with one more row.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> costs = CostMatrix(fp=1, fn=8).with_action("remind", {"0": 0.2, "1": 3})
        >>> costs.actions, costs.decide([0.01, 0.15, 0.9]).tolist()
        (('0', '1', 'remind'), [0, 2, 1])
        """
        if self.deciding is not self:
            return self.paid.with_action(name, costs).decided_by(self.deciding.with_action(name, costs))
        row = [as_cost(cost, f"the cost of {name!r}") for cost in _by_class(self, costs, name)]
        longer: Self = _appended(self, name, row)
        return longer

    def with_referral(self, cost: Any, *, errors: Any = None, name: str = "refer") -> Self:
        """Return the matrix with one more action, the reject option: a person decides.

        Parameters
        ----------
        cost : float or array of shape (n,)
            What it costs to have a sample looked at.
        errors : float, mapping or array of shape (K, K), optional
            How often the person is wrong; default never. A share of all samples; ``{"fp": 0.01, "fn": 0.05}``, of the
            negative and of the positive ones; shares by the name of the true class; or a K x K matrix of shares, rows
            decided, columns true, whose columns sum to 1. Wrong decisions go to the other classes alike, unless a
            matrix says otherwise.
        name : str, default "refer"
            Name of the action.

        Returns
        -------
        CostMatrix
            The costs with one more row.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> costs = CostMatrix(fp=1, fn=8).with_referral(0.5)
        >>> [costs.actions[i] for i in costs.decide([0.01, 0.3, 0.9])]
        ['0', 'refer', '1']
        >>> costs = CostMatrix(fp=1, fn=8).with_referral(0.5, errors={"fn": 0.1})
        >>> costs.to_array()[2].round(9).tolist()
        [0.5, 1.3]
        """
        if self.deciding is not self:
            longer, known = (m.with_referral(cost, errors=errors, name=name) for m in (self.paid, self.deciding))
            return longer.decided_by(known)
        paid = as_cost(cost, f"the cost of {name!r}")
        if (paid if isinstance(paid, float) else float(array_namespace(paid).min(paid))) < 0:
            raise ValueError(f"the cost of {name!r} must not be negative, got {cost!r}")
        made: Self = _appended(self, name, [paid + wrong for wrong in _decided_by_person(self, errors)])
        return made

    # decisions and what they cost

    def decide(self, probabilities: Array) -> Array:
        """Return the class (or action) of least expected cost for each sample.

        Parameters
        ----------
        probabilities : array of shape (n,) or (n, K)
            Probability of the positive class, or of every class. Ties go to the lower class: positive needs p > T.

        Returns
        -------
        array of shape (n,)
            Class numbers (numbers of actions, where there are others), in the library of ``probabilities``.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).decide([0.05, 0.2]).tolist()
        [0, 1]
        """
        if self._deciding is not None:
            return self.deciding.decide(probabilities)
        probabilities = self._probabilities(probabilities)
        xp = array_namespace(probabilities)
        if self.n_classes == 2 and self.square:
            positive = arrays.widest(probabilities if probabilities.ndim == 1 else probabilities[:, 1])
            return xp.astype(positive > cost_like(self.threshold, positive), xp.int64)
        each = self._expected_of_each(probabilities)
        if self.n_instances is not None:
            return xp.argmin(each, axis=1)
        # sums of equal costs may differ by their rounding, which depends on the rows beside: that is a tie
        slack = 4 * self.n_classes * xp.finfo(each.dtype).eps * max(abs(cell) for cell in self._flat())
        cheapest = each <= xp.min(each, axis=1, keepdims=True) + slack
        return xp.argmax(xp.astype(cheapest, xp.int8), axis=1)

    def expected(self, probabilities: Array, decisions: Array | None = None) -> Array:
        """Return the expected cost of each sample.

        Parameters
        ----------
        probabilities : array of shape (n,) or (n, K)
            Probability of the positive class, or of every class.
        decisions : array of shape (n,), optional
            Class numbers. Default: the decisions of least expected cost.

        Returns
        -------
        array of shape (n,)
            Expected costs.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).expected([0.25, 0.5]).tolist()
        [0.75, 0.5]
        """
        if self._deciding is not None:
            return self.deciding.expected(probabilities, decisions)
        probabilities = self._probabilities(probabilities)
        given = self.decide(probabilities) if decisions is None else decisions
        chosen = arrays.as_column(arrays.as_classes(given, self.n_actions, "decisions"), probabilities, "decisions")
        each = self._expected_of_each(probabilities)
        return array_namespace(each).take_along_axis(each, chosen[:, None], axis=1)[:, 0]

    def expected_of_each(self, probabilities: Array) -> Array:
        """Return the expected cost of each action for each sample.

        Parameters
        ----------
        probabilities : array of shape (n,) or (n, K)
            Probability of the positive class, or of every class.

        Returns
        -------
        array of shape (n, A)
            Expected costs, one column per action.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).expected_of_each([0.25, 0.5]).tolist()
        [[2.0, 0.75], [4.0, 0.5]]
        """
        known = self.deciding
        return known._expected_of_each(known._probabilities(probabilities))

    def incurred(self, y_true: Array, y_pred: Array) -> Array:
        """Return the cost of each single decision.

        Parameters
        ----------
        y_true : array of shape (n,)
            True class numbers.
        y_pred : array of shape (n,)
            Decisions, as numbers of classes or actions.

        Returns
        -------
        array of shape (n,)
            Costs.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).incurred([0, 1, 1], [1, 0, 1]).tolist()
        [1.0, 8.0, 0.0]
        """
        true, pred = self._pair(y_true, y_pred)
        xp = array_namespace(true)
        out = arrays.widest(xp.zeros_like(true))
        if self.n_instances is None:
            return xp.take(xp.reshape(self.to_array(out), (-1,)), pred * self.n_classes + true, axis=0)
        for i, row in enumerate(self._cells):
            for j, cell in enumerate(row):
                if not is_free(cell):
                    out = xp.where((pred == i) & (true == j), cost_like(cell, out), out)
        return out

    def confusion(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> NDArray[np.float64]:
        """Return the total cost of each kind of outcome.

        Parameters
        ----------
        y_true : array of shape (n,)
            True class numbers.
        y_pred : array of shape (n,)
            Decisions, as numbers of classes or actions.
        sample_weight : array of shape (n,), optional
            How much each sample counts.

        Returns
        -------
        array of shape (A, K)
            Totals, actions x classes.

        Examples
        --------
        >>> from adacsl import CostMatrix
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
        """Return the total cost of decisions.

        Parameters
        ----------
        y_true : array of shape (n,)
            True class numbers.
        y_pred : array of shape (n,)
            Decisions, as numbers of classes or actions.
        sample_weight : array of shape (n,), optional
            How much each sample counts.

        Returns
        -------
        float
            The sum of all costs.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).total([0, 1, 1], [1, 0, 1])
        9.0
        """
        true, pred = self._pair(y_true, y_pred)
        weight = arrays.as_weights(sample_weight, true)
        if weight is None and self.n_instances is None:
            # costs times exact counts: no rounding builds up over the samples
            return math.fsum(self._cells[i][j] * n for i, j, n in self._count(true, pred))
        each = self.incurred(true, pred)
        return float(array_namespace(each).sum(each if weight is None else each * weight))

    def mean(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the mean cost of decisions, per sample (per unit of weight).

        Parameters
        ----------
        y_true : array of shape (n,)
            True class numbers.
        y_pred : array of shape (n,)
            Decisions, as numbers of classes or actions.
        sample_weight : array of shape (n,), optional
            How much each sample counts.

        Returns
        -------
        float
            The mean cost.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).mean([0, 1, 1], [1, 0, 1])
        3.0
        """
        total = self.total(y_true, y_pred, sample_weight=sample_weight)
        true = arrays.as_vector(y_true, "y_true")
        weight = arrays.as_weights(sample_weight, true)
        return total / (true.shape[0] if weight is None else float(array_namespace(weight).sum(weight)))

    def normalized(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the cost on a scale where 0 is flawless and 1 is the best constant decision.

        Computed from the reduced costs, so that unavoidable costs and benefits do not move the scale.

        Parameters
        ----------
        y_true : array of shape (n,)
            True class numbers.
        y_pred : array of shape (n,)
            Decisions, as numbers of classes or actions.
        sample_weight : array of shape (n,), optional
            How much each sample counts.

        Returns
        -------
        float
            The normalised cost.

        Raises
        ------
        ValueError
            Where a constant decision is free, as with one class only.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).normalized([0, 0, 1, 1], [0, 1, 1, 1])
        0.5
        """
        costs = self.reduced()
        best = min(costs._constant_totals(y_true, sample_weight))
        if best == 0:
            raise ValueError(
                "the normalised cost is undefined here: a constant baseline costs nothing "
                "(only one class in y_true?), so there is nothing to compare with"
            )
        return costs.total(y_true, y_pred, sample_weight=sample_weight) / best

    def savings(self, y_true: Array, y_pred: Array, *, sample_weight: Array | None = None) -> float:
        """Return the share of the best constant decision's cost that these decisions save.

        Parameters
        ----------
        y_true : array of shape (n,)
            True class numbers.
        y_pred : array of shape (n,)
            Decisions, as numbers of classes or actions.
        sample_weight : array of shape (n,), optional
            How much each sample counts.

        Returns
        -------
        float
            1 - cost / cost of the best constant decision.

        Raises
        ------
        ValueError
            Where the best constant decision costs nothing.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).savings([0, 0, 1, 1], [0, 1, 1, 1])
        0.5
        """
        best = min(self._constant_totals(y_true, sample_weight))
        if best == 0:
            raise ValueError("savings are undefined here: the best constant baseline costs nothing")
        return (best - self.total(y_true, y_pred, sample_weight=sample_weight)) / abs(best)

    def class_weights(self, power: float = 1.0) -> NDArray[np.float64]:
        """Return the cost of errors about each class, scaled to a geometric mean of 1.

        It is the mean of a class's (reduced) column without the correct decision. Per-sample costs are averaged first.

        Parameters
        ----------
        power : float, default 1.0
            Exponent of the costs: 0 weighs all classes the same.

        Returns
        -------
        array of shape (K,)
            Weights.

        Raises
        ------
        ValueError
            Where all decisions about a class cost the same.

        Examples
        --------
        >>> from adacsl import CostMatrix
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

    def row_weights(self, labels: Array) -> Array:
        """Return the cost of an error about each sample, relative to the mean of its class.

        That is fn / mean fn among the positives, fp / mean fp among the negatives (of the reduced costs; of more
        classes, the mean over the errors).

        Parameters
        ----------
        labels : array of shape (n,)
            Class numbers.

        Returns
        -------
        array of shape (n,)
            Weights: ones where all samples cost the same.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=[10.0, 20.0, 90.0]).row_weights([1, 1, 0]).tolist()
        [0.6666666666666666, 1.3333333333333333, 1.0]
        """
        return row_stakes(self.reduced()._cells, self._labels(labels))

    # other forms

    def to_array(self, like: Array | None = None) -> Any:
        """Return the costs as an array of actions x classes.

        Parameters
        ----------
        like : array, optional
            An array of the library and device to use. Default: numpy.

        Returns
        -------
        array of shape (A, K) or (n, A, K)
            Costs; with a first axis where samples have costs of their own.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).to_array().tolist()
        [[0.0, 8.0], [1.0, 0.0]]
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
        """Return the costs as a data frame: rows are predicted, columns are actual.

        Returns
        -------
        pandas.DataFrame
            The costs.

        Raises
        ------
        ValueError
            Where samples have costs of their own.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).to_frame().loc[0].tolist()
        [0.0, 8.0]
        """
        import pandas as pd  # noqa: PLC0415  pandas stays optional

        if self.n_instances is not None:
            raise ValueError("to_frame needs one cost per outcome, got per-sample costs: use averaged().to_frame()")
        names = self.actions or range(self.n_actions), self.classes or range(self.n_classes)
        index, columns = (
            pd.Index(list(axis), name=what) for axis, what in zip(names, ("predicted", "actual"), strict=True)
        )
        return pd.DataFrame(self.to_array(), index, columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the costs as plain JSON values.

        Returns
        -------
        dict
            What :meth:`from_dict` reads.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).to_dict()
        {'rows': 'predicted', 'costs': [[0.0, 8.0], [1.0, 0.0]]}
        """
        return formats.to_document(*self._parts())

    def to_json(self) -> str:
        """Return the costs as a JSON text; floats survive the round trip exactly.

        Returns
        -------
        str
            What :meth:`from_json` reads.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix.from_json(CostMatrix(fp=0.1, fn=8).to_json()).fp
        0.1
        """
        return json.dumps(self.to_dict(), allow_nan=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CostMatrix):
            return NotImplemented
        sizes, others = ((m.n_actions, m.n_classes, m._classes, m._actions, m._ranges) for m in (self, other))
        if (self._deciding is None) != (other._deciding is None):
            return False
        if self._deciding is not None and self.deciding != other.deciding:
            return False
        return sizes == others and all(
            formats.same_cell(a, b)
            for row, rival in zip(self._said, other._said, strict=True)
            for a, b in zip(row, rival, strict=True)
        )

    def __hash__(self) -> int:
        if self.resolved and self.n_instances is not None:
            raise TypeError("costs of single samples are not hashable; class-wide costs are")
        return hash(self._parts())

    def __repr__(self) -> str:
        known = "" if self._deciding is None else f".decided_by({self.deciding!r})"
        return formats.show(*self._parts()[:4]) + known

    def _repr_html_(self) -> str:
        return formats.as_html(*self._parts()[:4])

    def __setattr__(self, *change: object) -> NoReturn:
        raise AttributeError("a CostMatrix is immutable: make a new one")

    __delattr__ = __setattr__

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return unchecked_costs, self._parts()

    # internals

    @property
    def _cells(self) -> Cells:
        """The costs as numbers; raises where they are not resolved."""
        if self._recipes:
            raise unresolved(self.columns)
        return self._said

    def _like(self, cells: Cells, ranges: Ranges | None = None, deciding: Cells | None = None) -> Self:
        return self._bare(cells, self._classes, self._actions, self._ranges if ranges is None else ranges, deciding)

    def _known(self, change: str, *given: Any) -> Cells | None:
        """Return the costs to decide by, changed as the others are."""
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

    def _binary(self, name: str, predicted: int, actual: int) -> Any:
        if self.n_classes != 2:
            raise ValueError(f"{name} is for two classes, but this matrix has {self.n_classes}; use decide()")
        if not self.square:
            raise ValueError(
                f"{name} is for predicting one of two classes, but the matrix has other actions; use decide()"
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
        """Return the costs of each action when class j is true, 1 x A or n x A."""
        xp = array_namespace(like)
        costs = [row[j] for row in self._cells]
        if self.n_instances is None:
            return xp.asarray([costs], dtype=like.dtype, device=device(like))
        one = xp.ones_like(like[:, 0] if like.ndim == 2 else like)
        return xp.stack([one * cost_like(cost, like) for cost in costs], axis=1)

    def _constant_totals(self, y_true: Array, sample_weight: Array | None) -> list[float]:
        true = arrays.as_classes(y_true, self.n_classes, "y_true")
        if sample_weight is None and self.n_instances is None:
            counts = [arrays.count_true(true == j) for j in range(self.n_classes)]
            return [math.fsum(c * n for c, n in zip(row, counts, strict=True)) for row in self._cells]
        xp = array_namespace(true)
        return [self.total(true, xp.full_like(true, i), sample_weight=sample_weight) for i in range(self.n_actions)]


def _spread(cell: Any, n: int) -> NDArray[np.float64]:
    return np.broadcast_to(as_host(cell), (n,))


def _appended(matrix: CostMatrix, name: str, costs: list[Any]) -> Any:
    classes = matrix.classes or tuple(map(str, range(matrix.n_classes)))
    actions = matrix.actions or tuple(map(str, range(matrix.n_actions)))
    if any(same_label(name, known) for known in actions):
        raise ValueError(
            f"there is an action {name!r} already: {formats.shown(actions)}; give the new one another name"
        )
    cells: Cells = (*matrix._cells, tuple(costs))
    # ranges are those of a matrix whose actions are its two classes: further actions are at their middle
    longer = matrix._bare(cells, classes, formats.as_names((*actions, name), "actions"))
    if longer.n_instances is None:  # of some samples alone, all errors may be free
        check_cell_costs(cells, classes, longer.actions)
    return longer


def _by_class(matrix: CostMatrix, costs: Any, name: str) -> list[Any]:
    k = matrix.n_classes
    if isinstance(costs, Mapping):
        names = matrix.classes or tuple(map(str, range(k)))
        order = formats.positions([*map(str, costs)], names)
        return [list(costs.values())[place] for place in order]
    if isinstance(costs, int | float) or (is_array_api_obj(costs) and costs.ndim == 0):
        return [costs] * k
    result = list(costs)
    if len(result) != k:
        raise ValueError(f"{name!r} needs one cost, or one for each of {k} classes, got {len(result)}")
    return result


def _decided_by_person(matrix: CostMatrix, errors: Any) -> list[Any]:
    """Return what a person's decision costs on average when each class is true, who may err."""
    cells = matrix._cells
    if errors is None:  # the right decision: predicting the class, or the action of lowest cost
        reduced = [column_of_errors(cells, j, square=matrix.square) for j in range(matrix.n_classes)]
        return [cells[0][j] - extra[0] for j, extra in enumerate(reduced)]
    shares = _confusion(matrix, errors)
    rows = [cells[place] for place in _places_of_classes(matrix)]
    return [sum(float(shares[i, j]) * row[j] for i, row in enumerate(rows)) for j in range(matrix.n_classes)]


def _places_of_classes(matrix: CostMatrix) -> list[int]:
    if matrix.square or matrix.actions is None:
        return list(range(matrix.n_classes))
    result = [
        [i for i, action in enumerate(matrix.actions) if same_label(action, name)] for name in matrix.classes or ()
    ]
    if not all(result):
        raise ValueError(
            f"errors of a person are wrong classes, but the actions {formats.shown(matrix.actions)} predict no "
            "class: add the cost of the person with with_action(...)"
        )
    return [places[0] for places in result]


def _confusion(matrix: CostMatrix, errors: Any) -> NDArray[np.float64]:
    """Return which share of each class (columns) a person decides to be which (rows)."""
    k = matrix.n_classes
    if not isinstance(errors, Mapping) and np.ndim(errors) == 2:
        shares = np.asarray(errors, dtype=np.float64)
        if shares.shape != (k, k) or not (shares >= 0).all() or not np.allclose(shares.sum(axis=0), 1.0, atol=1e-6):
            raise ValueError(
                f"errors must be {k} x {k} shares, rows decided, columns true, whose columns sum to 1, got {errors!r}"
            )
        return shares
    rates = _rates(matrix, errors)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(f"errors must be shares between 0 and 1, got {errors!r}")
    other = 1.0 - np.eye(k)
    return np.asarray(np.diag(1.0 - rates) + other * rates / (k - 1))


def _rates(matrix: CostMatrix, errors: Any) -> NDArray[np.float64]:
    """Return how often a person is wrong about rows of each class."""
    k = matrix.n_classes
    if not isinstance(errors, Mapping):
        return np.full(k, float(errors))
    if k == 2 and set(errors) <= {"fp", "fn"}:
        return np.asarray([float(errors.get("fp", 0.0)), float(errors.get("fn", 0.0))])
    names = matrix.classes or tuple(map(str, range(k)))
    places = {key: [j for j, name in enumerate(names) if same_label(str(key), name)] for key in errors}
    if unknown := [key for key, result in places.items() if not result]:
        known = ("'fp', 'fn' or " if k == 2 else "") + formats.shown(names)
        raise ValueError(f"errors name {unknown[0]!r}, expected {known}")
    rates = np.zeros(k)
    for key, result in places.items():
        rates[result[0]] = float(errors[key])
    return rates


def check_binary(costs: Any) -> None:
    """Raise unless these are costs of two classes."""
    if not isinstance(costs, CostMatrix):
        raise no_costs(costs)
    if costs.n_classes != 2:
        raise ValueError(
            f"costs must be those of two classes, but the cost matrix has {costs.n_classes}: more than two have no "
            "threshold: use costs.decide(probabilities), and find_multipliers to correct them"
        )
    if not costs.square:
        raise ValueError(
            f"costs must be those of predicting two classes, but the cost matrix has other actions: {costs}"
        )


def no_costs(given: Any) -> TypeError:
    """Return the error about something that is no cost matrix: how the one that was meant is written."""
    message = f"costs must be a CostMatrix such as CostMatrix(fp=1, fn=8), got {given!r}"
    shape = np.shape(given) if isinstance(given, list | tuple | np.ndarray) else getattr(given, "shape", ())
    if len(shape) == 2:
        message = (
            f"costs must be a CostMatrix, got an array of {shape[0]} x {shape[1]}: state what its rows are, "
            "CostMatrix.from_array(costs, rows='predicted') or rows='actual', and classes=[...] to name them"
        )
    elif isinstance(given, Mapping):
        message = f"costs must be a CostMatrix, got a mapping: CostMatrix(**{given!r})"
    return TypeError(message)


def or_nan(metric: Callable[..., float], y_true: Array, y_pred: Array) -> float:
    """Return a metric, NaN where it is undefined: one class only, and nothing to compare with."""
    try:
        return metric(y_true, y_pred)
    except ValueError:
        return math.nan


def scale_fn(costs: CostMatrix, factor: float) -> CostMatrix:
    """Return binary costs with the cost of a false negative above that of a true positive times ``factor``."""
    scaled = CostMatrix(fp=costs.fp, fn=costs.tp + (costs.fn - costs.tp) * factor, tp=costs.tp, tn=costs.tn)
    known = costs.deciding
    return scaled if known is costs else scaled.decided_by(scale_fn(known, factor))


def unchecked_costs(cells: tuple[tuple[Any, ...], ...], *names: Any) -> CostMatrix:
    """Return a matrix of cells[predicted][actual] past all checks: of some samples alone, all errors may be free."""
    return CostMatrix._bare(cells, *names)


def merge_costs(given: Mapping[str, Any], default: CostMatrix | None = None) -> CostMatrix:
    """Return costs of two classes without names from costs by name; those that are missing are the default's, or free.

    Unchecked: ``clipped()`` and ``checked()`` need all samples.
    """
    if default is not None and (default.n_classes != 2 or not default.square):
        raise ValueError(
            f"fp, fn, tp and tn are costs of two classes, but these costs are of others: {default!r}; omit them, "
            f"or give another matrix, {arrays.MATRIX}"
        )
    known = dict.fromkeys(("fp", "fn", "tp", "tn"), 0.0) if default is None else default._by_name()
    kept = () if default is None else tuple(ends for ends in default._ranges if ends[0] not in given)
    cells, ranges = read_costs_of_cells(known | dict(given))
    return unchecked_costs(cells, None, None, kept + ranges)


def _counted(y: Array, n_classes: int | None) -> tuple[Array, list[int]]:
    """Return labels as class numbers, and how many rows each class has."""
    result = arrays.widest(arrays.as_vector(y, "y"))
    most = float(array_namespace(result).max(result))
    k = n_classes or (int(most) + 1 if 2 <= most < result.shape[0] else 2)  # of more classes than rows, some have none
    codes = arrays.as_classes(y, k, "y")
    return codes, [arrays.count_true(codes == j) for j in range(k)]
