"""Actions beyond the classes: one more row of a cost matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj
from numpy.typing import NDArray

from adacsl.core import naming
from adacsl.core.labels import same_label
from adacsl.core.matrices import PriceMatrix
from adacsl.core.naming import Cells
from adacsl.core.prices import as_price, check_prices, column_of_errors


class ActionMatrix(PriceMatrix):
    """Prices to which actions can be added."""

    __slots__ = ()

    def named(self, classes: Iterable[object]) -> Self:
        """Return the matrix with names for its classes, in order; one that has names stays as it is.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> CostMatrix(fp=1, fn=8).named(["well", "ill"])
        CostMatrix.from_array([[0, 8], [1, 0]], rows='predicted', classes=['well', 'ill'])
        """
        cells, known, actions, ranges = self._parts()[:4]
        if known is not None:
            return self
        named: Self = self._bare(*naming.named(cells, naming.as_names(classes, "classes"), actions), ranges)
        return named if self.deciding is self else named.decided_by(self.deciding.named(classes))

    def with_action(self, name: str, prices: Any) -> Self:
        """Return the matrix with one more action: ask for a document, offer a discount, let somebody look.

        Decisions are numbers of actions then, the new one the last. Classes without names are called by their numbers.

        Parameters
        ----------
        name : str
            What it is called.
        prices : number, mapping or sequence
            What it costs: always, or for each class that may be true, by name or in order; each a number or one for
            each sample.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> costs = CostMatrix(fp=1, fn=8).with_action("remind", {"0": 0.2, "1": 3})
        >>> costs.actions, costs.decide([0.01, 0.15, 0.9]).tolist()
        (('0', '1', 'remind'), [0, 2, 1])
        """
        if self.deciding is not self:
            return self.paid.with_action(name, prices).decided_by(self.deciding.with_action(name, prices))
        row = [as_price(price, f"the price of {name!r}") for price in _by_class(self, prices, name)]
        longer: Self = _appended(self, name, row)
        return longer

    def with_referral(self, price: Any, *, errors: Any = None, name: str = "refer") -> Self:
        """Return the matrix with one more action: a person decides, who costs ``price`` and what they decide.

        Parameters
        ----------
        price : number or array of shape (n,)
            What it costs to have a row looked at.
        errors : optional
            How often the person is wrong; default never. A share of all rows; ``{"fp": 0.01, "fn": 0.05}``, of the
            negative and of the positive ones; shares by the name of the true class; or a K x K matrix of shares, rows
            decided, columns true, whose columns sum to 1. Wrong decisions go to the other classes alike, unless a
            matrix says otherwise.
        name : str, default "refer"
            What it is called.

        Examples
        --------
        >>> from adacsl import CostMatrix
        >>> costs = CostMatrix(fp=1, fn=8).with_referral(0.5)
        >>> [costs.actions[i] for i in costs.decide([0.01, 0.3, 0.9])]
        ['0', 'refer', '1']
        >>> CostMatrix(fp=1, fn=8).with_referral(0.5, errors={"fn": 0.1}).to_array()[2].round(9).tolist()
        [0.5, 1.3]
        """
        if self.deciding is not self:
            longer, known = (m.with_referral(price, errors=errors, name=name) for m in (self.paid, self.deciding))
            return longer.decided_by(known)
        paid = as_price(price, f"the price of {name!r}")
        if (paid if isinstance(paid, float) else float(array_namespace(paid).min(paid))) < 0:
            raise ValueError(f"the price of {name!r} must not be negative, got {price!r}")
        made: Self = _appended(self, name, [paid + cost for cost in _decided_by_person(self, errors)])
        return made


def _appended(matrix: Any, name: str, prices: list[Any]) -> Any:
    classes = matrix.classes or tuple(map(str, range(matrix.n_classes)))
    actions = matrix.actions or tuple(map(str, range(matrix.n_actions)))
    if any(same_label(name, known) for known in actions):
        raise ValueError(f"there is an action {name!r} already: {naming.shown(actions)}; give the new one another name")
    cells: Cells = (*matrix._cells, tuple(prices))
    # ranges are those of a matrix whose actions are its two classes: further actions are at their middle
    longer = matrix._bare(cells, classes, naming.as_names((*actions, name), "actions"))
    if longer.n_instances is None:  # of some samples alone, all errors may be free
        check_prices(cells, classes, longer.actions)
    return longer


def _by_class(matrix: Any, prices: Any, name: str) -> list[Any]:
    k = matrix.n_classes
    if isinstance(prices, Mapping):
        names = matrix.classes or tuple(map(str, range(k)))
        order = naming.positions([*map(str, prices)], names)
        return [list(prices.values())[place] for place in order]
    if isinstance(prices, int | float) or (is_array_api_obj(prices) and prices.ndim == 0):
        return [prices] * k
    found = list(prices)
    if len(found) != k:
        raise ValueError(f"{name!r} needs one price, or one for each of {k} classes, got {len(found)}")
    return found


def _decided_by_person(matrix: Any, errors: Any) -> list[Any]:
    """Return what a person's decision costs on average when each class is true, who may err."""
    cells = matrix._cells
    if errors is None:  # the right decision: predicting the class, or what is cheapest then
        reduced = [column_of_errors(cells, j, square=matrix.square) for j in range(matrix.n_classes)]
        return [cells[0][j] - extra[0] for j, extra in enumerate(reduced)]
    shares = _confusion(matrix, errors)
    rows = [cells[place] for place in _places_of_classes(matrix)]
    return [sum(float(shares[i, j]) * row[j] for i, row in enumerate(rows)) for j in range(matrix.n_classes)]


def _places_of_classes(matrix: Any) -> list[int]:
    if matrix.square or matrix.actions is None:
        return list(range(matrix.n_classes))
    found = [[i for i, action in enumerate(matrix.actions) if same_label(action, name)] for name in matrix.classes]
    if not all(found):
        raise ValueError(
            f"errors of a person are wrong classes, but the actions {naming.shown(matrix.actions)} predict none: "
            "say with with_action(...) what the person costs"
        )
    return [places[0] for places in found]


def _confusion(matrix: Any, errors: Any) -> NDArray[np.float64]:
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


def _rates(matrix: Any, errors: Any) -> NDArray[np.float64]:
    """Return how often a person is wrong about rows of each class."""
    k = matrix.n_classes
    if not isinstance(errors, Mapping):
        return np.full(k, float(errors))
    if k == 2 and set(errors) <= {"fp", "fn"}:
        return np.asarray([float(errors.get("fp", 0.0)), float(errors.get("fn", 0.0))])
    names = matrix.classes or tuple(map(str, range(k)))
    places = {key: [j for j, name in enumerate(names) if same_label(str(key), name)] for key in errors}
    if unknown := [key for key, found in places.items() if not found]:
        known = ("'fp', 'fn' or " if k == 2 else "") + naming.shown(names)
        raise ValueError(f"errors name {unknown[0]!r}, expected {known}")
    rates = np.zeros(k)
    for key, found in places.items():
        rates[found[0]] = float(errors[key])
    return rates
