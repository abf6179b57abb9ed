"""Policy options of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from adacsl.base.labels import is_number
from adacsl.cli.options import ADVANCED_DECISIONS, within

if TYPE_CHECKING:
    from adacsl.decision.policy import Policy


@Parameter(name="*", group=Group("Decisions", sort_key=15))
@dataclass(frozen=True)
class PolicyOptions:
    """Reject option, capacity, other actions and prior: the settings of a policy."""

    refer: Annotated[float | None, within(0, 1e15)] = None
    """Cost of referring one sample to a person (reject option). A decision is then a class or refer."""

    refer_errors: Annotated[str | None, Parameter(group=ADVANCED_DECISIONS)] = None
    """Error rate of that person: a share such as 0.02, or shares such as fp=0.01,fn=0.05 or by class."""

    actions: Annotated[Path | None, Parameter(group=ADVANCED_DECISIONS)] = None
    """CSV file with the costs of all actions: rows are actions, columns are the actual classes."""

    capacity: Annotated[int | None, within(0, 10**15)] = None
    """Capacity constraint: at most so many samples get the limited action, those that gain most by it."""

    capacity_of: Annotated[str | None, Parameter(group=ADVANCED_DECISIONS)] = None
    """The limited action; default: refer with --refer, else the positive class."""

    per: Annotated[Literal["hour", "day", "week", "month"] | None, Parameter(group=ADVANCED_DECISIONS)] = None
    """Period of the capacity; needs --time-column. Default: all samples of one call."""

    prior: Annotated[str | None, Parameter(group=ADVANCED_DECISIONS)] = None
    """Share of the positive class at prediction time, if it differs from training; for more classes yes=0.1,no=0.9; or
    em: estimated on the samples themselves."""

    no_policy: Annotated[bool, Parameter(show_default=False, group=ADVANCED_DECISIONS)] = False
    """Decide among the classes alone, whatever policy the model has."""

    def policy(self, kept: Policy | None, time_column: str | None = None) -> Policy:
        """Return the policy of the model with the options given here in place of its own."""
        from adacsl.datasets.costs import read_costs  # noqa: PLC0415  pandas
        from adacsl.decision.policy import Policy, choose_policy  # noqa: PLC0415  scikit-learn

        settings = {
            "refer": self.refer,
            "errors": None if self.refer_errors is None else _shares(self.refer_errors, "--refer-errors"),
            "actions": None if self.actions is None else read_costs(self.actions),
            "capacity": self.capacity, "action": self.capacity_of, "per": self.per, "time": time_column,
            "prior": self.prior if self.prior in (None, "em") else _shares(self.prior, "--prior"),
        }  # fmt: skip
        given = any(value is not None for value in settings.values())
        if self.no_policy and given:
            raise ValueError("--no-policy decides among the classes alone: omit it, or the other options")
        return choose_policy(Policy() if self.no_policy else kept, None, settings)


POLICY_DEFAULTS = PolicyOptions()


def _shares(text: str, option: str) -> Any:
    """Return a number, or numbers by name: ``fp=0.01,fn=0.05``."""
    if is_number(text):
        return float(text)
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not name.strip() or not is_number(share.strip()) for name, _, share in pairs):
        raise ValueError(f"{option} must be a share such as 0.02, or shares such as yes=0.02,no=0.98, got {text!r}")
    return {name.strip(): float(share) for name, _, share in pairs}


def timed_by(policy: Policy) -> str | None:
    """Return the column with the time of each sample, which a capacity per period needs; None where none does."""
    if policy.per is not None and policy.time is None:
        raise ValueError(f"--per {policy.per} needs the time of each sample: --time-column NAME")
    return None if policy.time is None else str(policy.time)
