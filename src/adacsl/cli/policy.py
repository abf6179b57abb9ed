"""Policy options of the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Group, Parameter

from adacsl.base.labels import is_number
from adacsl.cli.options import within
from adacsl.costs.matrix import CostMatrix

if TYPE_CHECKING:
    from adacsl.decision.policy import Decisions, Policy
    from adacsl.estimators.classifier import CostSensitiveClassifier


@Parameter(name="*", group=Group("Decisions", sort_key=15))
@dataclass(frozen=True)
class Limits:
    """The settings of a policy."""

    refer: Annotated[float | None, within(0, 1e15)] = None
    """A person may decide: what it costs to have one row looked at. The decision is a class or refer then."""

    refer_errors: str | None = None
    """How often that person is wrong: a share such as 0.02, or shares such as fp=0.01,fn=0.05 or of the classes."""

    actions: Path | None = None
    """CSV file with the prices of all actions: rows are actions, columns the classes that are true."""

    capacity: Annotated[int | None, within(0, 10**15)] = None
    """At most so many rows get the limited action: those that gain most by it."""

    capacity_of: str | None = None
    """Which action is limited; default: refer where there is one, else the positive class."""

    per: Literal["hour", "day", "week", "month"] | None = None
    """The capacity is there anew in each; needs --time-column."""

    prior: str | None = None
    """Share of the positive class where the model is used, if other than in training; of more classes yes=0.1,no=0.9;
    or em: estimated on the rows themselves."""

    no_policy: Annotated[bool, Parameter(show_default=False)] = False
    """Decide among the classes alone, whatever was said in training."""

    def policy(self, kept: Policy | None, time_column: str | None = None) -> Policy:
        """Return what holds: what the model was trained with, and what is said now."""
        from adacsl.datasets.costs import read_costs  # noqa: PLC0415  pandas
        from adacsl.decision.policy import Policy, choose_policy  # noqa: PLC0415  scikit-learn

        said = {
            "refer": self.refer,
            "errors": None if self.refer_errors is None else _shares(self.refer_errors, "--refer-errors"),
            "actions": None if self.actions is None else read_costs(self.actions),
            "capacity": self.capacity, "action": self.capacity_of, "per": self.per, "time": time_column,
            "prior": self.prior if self.prior in (None, "em") else _shares(self.prior, "--prior"),
        }  # fmt: skip
        given = any(value is not None for value in said.values())
        if self.no_policy and given:
            raise ValueError("--no-policy decides among the classes alone: leave it out, or the other options")
        return choose_policy(Policy() if self.no_policy else kept, None, said)


NONE = Limits()


def _shares(text: str, option: str) -> Any:
    """Return a number, or numbers by name: ``fp=0.01,fn=0.05``."""
    if is_number(text):
        return float(text)
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not name.strip() or not is_number(share.strip()) for name, _, share in pairs):
        raise ValueError(f"{option} must be a share such as 0.02, or shares such as yes=0.02,no=0.98, got {text!r}")
    return {name.strip(): float(share) for name, _, share in pairs}


def decide(
    classifier: CostSensitiveClassifier,
    probability: np.ndarray[Any, Any],
    costs: CostMatrix,
    policy: Policy,
    times: Any = None,
) -> Decisions:
    """Return decisions under a policy; ``costs`` are those of the samples, ``times`` the column that it names."""
    from adacsl.estimators.decisions import decide_probabilities  # noqa: PLC0415  scikit-learn

    timed = policy if policy.per is None else replace(policy, time=times)
    return decide_probabilities(classifier, probability, costs=costs, policy=timed)


def timed_by(policy: Policy) -> str | None:
    """Return the column with the time of each row, which a capacity of each day needs; None where none does."""
    if policy.per is not None and policy.time is None:
        raise ValueError(f"--per {policy.per} needs the time of each row: --time-column NAME")
    return None if policy.time is None else str(policy.time)
