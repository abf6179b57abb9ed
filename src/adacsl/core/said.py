"""Prices of a cost matrix that are not simply numbers: made from a table, given as ranges, or known afterwards only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from adacsl.core import recipes
from adacsl.core.expressions import column_names
from adacsl.core.prices import as_price

if TYPE_CHECKING:
    from adacsl.core.naming import Cells, Names


class SaidPrices:
    """What was said about prices beyond their numbers."""

    __slots__ = ()
    if TYPE_CHECKING:
        _said: Cells
        _classes: Names
        _actions: Names
        _ranges: recipes.Ranges
        _recipes: tuple[recipes.Recipe, ...]
        _deciding: Cells | None
        _like: Callable[..., Self]
        clipped: Callable[[], Self]
        _cells: property
        n_actions: property
        n_classes: property
        n_instances: property
        square: property

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that its prices depend on; none where they are numbers."""
        return tuple(dict.fromkeys(column for recipe in self._recipes for column in recipe.columns))

    @property
    def settled(self) -> bool:
        """Whether its prices are numbers: :meth:`of` a table makes them so."""
        return not self._recipes

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The prices that were given as a range, by name: from what to what."""
        return {name: (low, high) for name, low, high in self._ranges}

    @property
    def deciding(self) -> Self:
        """The prices that are known when deciding: its own, unless it is :meth:`decided_by` others."""
        return self if self._deciding is None else self._like(self._deciding)

    @property
    def paid(self) -> Self:
        """The prices that are paid, alone."""
        return self if self._deciding is None else self._like(self._cells)

    def decided_by(self, known: Self) -> Self:
        """Return these prices, to be paid, with decisions made by others that are known before.

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
            raise ValueError(f"prices to decide by must be of the same outcomes and samples as {self!r}, got {known!r}")
        return self._like(self._cells, deciding=known._cells)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns of prices that are known afterwards only: no features."""
        return tuple(dict.fromkeys(column for recipe in self._recipes for column in getattr(recipe, "hidden", ())))

    @property
    def models(self) -> tuple[Any, ...]:
        """What predicts prices that are known afterwards only."""
        return tuple(recipe for recipe in self._recipes if hasattr(recipe, "learns"))

    @property
    def learns(self) -> bool:
        """Whether some of its prices have to be learned before anything can be decided by them."""
        return any(model.learns for model in self.models)

    def made(self, make: Callable[[Any, int, int], Any]) -> Self:
        """Return the matrix with each recipe replaced by what ``make(recipe, action, class)`` gives."""
        return self._like(
            tuple(
                tuple(make(cell, i, j) if recipes.is_recipe(cell) else cell for j, cell in enumerate(row))
                for i, row in enumerate(self._said)
            )
        )

    def of(self, table: Any, *, clipped: bool = True) -> Self:
        """Return the prices of the rows of a table (pandas, polars, pyarrow, a mapping of arrays).

        Where an error costs less than being right, it is taken to cost the same (``clipped``). Prices that were learned
        are predicted; where the table has them, those are paid.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> costs = CostMatrix(fp=5, fn="0.8 * amount + 12")
        >>> costs.of({"amount": [10.0, 100.0]}).fn.tolist()
        [20.0, 92.0]
        """
        if self.settled:
            return self

        @functools.cache
        def settle(recipe: Any) -> Any:
            return as_price(recipe.of(table), f"the price {recipe!r}")

        settled = self.made(lambda recipe, *_: settle(recipe))
        if not self.learns and self.hidden and set(self.hidden) <= set(column_names(table)):
            paid = self.made(lambda recipe, *_: recipe.paid(table) if hasattr(recipe, "paid") else settle(recipe))
            settled = paid.decided_by(settled)
        return settled.clipped() if clipped else settled
