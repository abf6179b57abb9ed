"""From scores to actions: decision rules, calibration, policies, class priors."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.decision.policy import Policy, limit_action
    from adacsl.decision.priors import estimate_prior, shift_prior
    from adacsl.decision.rule import Decision

_PLACES = {
    "Decision": "adacsl.decision.rule",
    "Policy": "adacsl.decision.policy",
    "estimate_prior": "adacsl.decision.priors",
    "limit_action": "adacsl.decision.policy",
    "shift_prior": "adacsl.decision.priors",
}

__all__ = [
    "Decision",
    "Policy",
    "estimate_prior",
    "limit_action",
    "shift_prior",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "sklearn")
