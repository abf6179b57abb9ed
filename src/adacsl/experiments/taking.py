"""A method as it was compared, ready to be fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adacsl.core.costs import CostMatrix
from adacsl.core.labels import plain_labels
from adacsl.estimators.method import Method
from adacsl.estimators.methods import METHODS, is_portfolio, method
from adacsl.experiments.protocol import compared_nets, set_portfolio
from adacsl.experiments.ratios import named_costs
from adacsl.experiments.statistics.wording import TODAY
from adacsl.extras import requires

with requires("compare"):
    from sklearn.base import clone

if TYPE_CHECKING:
    from adacsl.experiments.comparison import Comparison


def method_taken(found: Comparison, name: str, classes: Sequence[str], costs: CostMatrix) -> Method:
    """Return a method of a comparison with its settings, the names of its classes and these costs, not yet fitted."""
    if name == TODAY:
        raise ValueError("'today' are decisions that were given, there is nothing to fit: name a method")
    if name not in {*found.methods, *METHODS} and name in set(found.results["method"]):
        raise ValueError(f"{name!r} was a method of your own, and no folder keeps code: fit it by yourself")
    made: Method = clone(found.methods[name]) if name in found.methods else method(name)
    net = found.facts["protocol"].get("net")
    if net and made.learner == "net":
        made.set_params(learner=compared_nets(found.net, net))
    elif net and is_portfolio(made):
        set_portfolio(made, compared_nets(found.net, net).get_params(deep=False))
    if len(classes) > 2:
        return made.set_params(costs=named_costs([costs], classes), positive=None)
    return made.set_params(costs=costs, positive=plain_labels(classes)[1])
