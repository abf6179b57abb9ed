"""The same conditions for every method: splits, settings of nets, device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.task import Task
from adacsl.estimators.classifiers import make_learner
from adacsl.estimators.learners.boosters import installed_engine
from adacsl.estimators.learners.net import Net
from adacsl.estimators.learners.portfolio import Portfolio
from adacsl.estimators.method import Method
from adacsl.estimators.methods import is_portfolio, needs_net
from adacsl.estimators.splits import one_split
from adacsl.extras import requires

with requires("compare"):
    from sklearn.base import clone


@dataclass(frozen=True)
class Protocol:
    """How every method of a comparison is trained and tested.

    Parameters
    ----------
    test, validation : float
        Shares of the rows; the rest trains. 65 / 15 / 20 as in the paper.
    net : mapping
        Settings of the nets: ``{"epochs": 30, "weights": ..., "views": 4}``, see
        :class:`~adacsl.estimators.learners.net.Net`.
    device : str
        Where nets train.
    """

    test: float = 0.20
    validation: float = 0.15
    net: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"

    def __post_init__(self) -> None:
        make_learner(Net, dict(self.net), "net").check()

    def identity(self) -> dict[str, Any]:
        """Return what decides about results: everything but the device, and which booster is installed."""
        net = {name: _plain(value) for name, value in sorted(self.net.items())}
        boosting = installed_engine() or "scikit-learn"
        return {"test": self.test, "validation": self.validation, "net": net, "boosting": boosting}

    def prepare(self, method: Method, seed: int) -> Method:
        """Return a fresh copy of a method under these conditions."""
        fresh: Method = clone(method)
        fresh.set_params(random_state=seed, validation=self.validation / (1.0 - self.test), device=self.device)
        if needs_net(fresh) and fresh.learner == "net":
            fresh.set_params(learner=Net(**self.net))
        if is_portfolio(fresh):
            # the jobs of a comparison share the cores already
            fresh = set_portfolio(fresh, self.net, n_jobs=1)
        fresh.check_settings()
        return fresh


def set_portfolio(method: Method, net: Mapping[str, Any], **settings: Any) -> Method:
    """Give a portfolio settings, and its nets theirs, unless it has some of its own."""
    if method.learner == "portfolio":
        method.set_params(learner=Portfolio())
    inside = "learner__" if "learner" in method.get_params(deep=False) else ""
    if net and method.learner.net is None:
        settings["net"] = Net(**net)
    return method.set_params(**{f"{inside}{name}": value for name, value in settings.items()})


def compared_nets(given: Mapping[str, Any] | None, settings: Mapping[str, Any]) -> Any:
    """Return the nets of a comparison, as they were given, or by the settings that its folder kept."""
    if given is not None:
        return Net(**given)
    for name in (name for name, value in settings.items() if isinstance(value, dict)):
        raise ValueError(
            f"its nets had {name}={settings[name]['code']!r}, which is code, and no folder keeps code: "
            f"fit a method with  learner=Net({name}=...)  by yourself, or compare again"
        )
    return Net(**settings)


def _plain(value: Any) -> Any:
    """Return a setting as it is, or, of code, what can be told from one run of a program to the next."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return {"code": getattr(value, "__qualname__", None) or repr(value)}


def split_rows(task: Task, test: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut rows into those to learn from and those to test on: stratified, groups never torn apart."""
    rest, tested = one_split(task.y, task.groups, test, seed)[0]
    return np.sort(rest), np.sort(tested)
