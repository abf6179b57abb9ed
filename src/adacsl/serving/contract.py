"""What a served model takes and gives: the columns of a request, their kinds, and what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from adacsl import __version__
from adacsl.core.labels import label_name
from adacsl.estimators.acting import ordered_labels
from adacsl.estimators.predicting import CostClassifier

Kind = Literal["number", "date", "text", "any", "picture"]
SAID: dict[Kind, str] = {
    "number": "a number", "date": "a date such as 2026-03-31", "text": "text", "any": "a number or text",
    "picture": "a picture, as base64 text (of its PNG, JPEG, WebP, BMP, GIF or TIFF file)",
}  # fmt: skip
PICTURE = "picture"
"""The one column of a model of pictures."""


class Field(NamedTuple):
    """One column of a request."""

    name: str
    kind: Kind
    role: Literal["feature", "price", "time"]

    @property
    def wanted(self) -> str:
        """What a value has to be, for messages; only features may be missing."""
        return SAID[self.kind] + (" or null" if self.role == "feature" and self.kind != "picture" else "")

    @property
    def schema(self) -> dict[str, Any]:
        """The column as JSON Schema."""
        types = {"number": ["number"], "any": ["number", "string", "boolean"]}.get(self.kind, ["string"])
        null = ["null"] if self.wanted.endswith("null") else []
        return {"type": types + null, "description": f"{self.role}: {self.wanted}"}


@dataclass(frozen=True)
class Contract:
    """The columns that a model needs of every row, in order.

    Parameters
    ----------
    fields : tuple of Field
        First the features, in the order of the training; then columns of prices and of the time.
    features : int
        How many are features.
    named : bool
        Whether the training rows had names; if not, columns are called x0, x1, ...
    picture : tuple of int, optional
        Height, width and channels, where rows are pictures.
    """

    fields: tuple[Field, ...]
    features: int
    named: bool
    picture: tuple[int, int, int] | None = None

    @classmethod
    def of(cls, classifier: CostClassifier) -> Self:
        """Return what a fitted classifier takes."""
        if getattr(classifier, "images_", False):
            height, width, channels = classifier.image_shape_
            return cls((Field(PICTURE, "picture", "feature"),), 1, named=True, picture=(height, width, channels))
        n, names = classifier.n_features_in_, getattr(classifier, "feature_names_in_", None)
        known = [f"x{i}" for i in range(n)] if names is None else [str(name) for name in names]
        fields = [Field(*pair, "feature") for pair in zip(known, _kinds(classifier.model_, n), strict=True)]
        said, policy = getattr(classifier, "said_costs_", None), classifier.policy
        fields += [Field(name, "number", "price") for name in (() if said is None else said.columns)]
        fields += [Field(policy.time, "date", "time")] if policy and isinstance(policy.time, str) else []
        once = {field.name: field for field in reversed(fields)}  # a feature may be a price as well
        return cls(tuple(once[name] for name in dict.fromkeys(f.name for f in fields)), n, named=names is not None)


def _kinds(model: Any, n: int) -> list[Kind]:
    """Return the kinds of the features as the encoders of the model have seen them; "any" where none has."""
    found: list[Kind] = ["any"] * n
    for one in getattr(model, "models", [model]):
        encoder = getattr(one, "encoder", None)
        for place, rule in enumerate([] if encoder is None else encoder.to_dict()["columns"]):
            if rule is not None and found[place] == "any":
                found[place] = "text" if rule["kind"] == "category" else rule["kind"]
    return found


def describe(classifier: CostClassifier, contract: Contract) -> dict[str, Any]:
    """Return what is served, as plain values: classes, costs, how it decides, the columns it needs."""
    said, policy = getattr(classifier, "said_costs_", None), classifier.policy
    names = [label_name(label) for label in ordered_labels(classifier)]
    two = len(names) == 2
    return {
        "adacsl_version": __version__,
        "kind": type(classifier).__name__,
        "learner": classifier.model_.kind,
        "classes": names,
        "positive": names[1] if two else None,
        "costs": repr(said or classifier.costs_),
        "decide": classifier.decision_.decide,
        "threshold": classifier.threshold_ if two else None,
        "policy": None if policy is None or policy.empty else policy.to_dict(),
        "policy_note": _about_policy(classifier),
        "estimated_cost": list(getattr(classifier, "estimated_cost_", ())) or None,
        "calibration_error": getattr(classifier, "calibration_error_", None),
        "picture": contract.picture and dict(zip(("height", "width", "channels"), contract.picture, strict=True)),
        "columns": [{"name": f.name, "kind": f.kind, "role": f.role} for f in contract.fields],
    }


def _about_policy(classifier: CostClassifier) -> str | None:
    """Return what to know about a policy that looks at several rows."""
    policy = classifier.policy
    if policy is None or not policy.needs_all_rows:
        return None
    what = (
        "the capacity is there anew in" if policy.capacity is not None else "class shares are estimated on the rows of"
    )
    return f"{what} every request: send the rows among which to choose together"


def probability_names(classifier: CostClassifier) -> list[str]:
    """Return the names of the columns of probabilities: one of the positive class, or one of each of K > 2."""
    names = [label_name(label) for label in np.asarray(ordered_labels(classifier))]
    return ["probability"] if len(names) == 2 else [f"probability_{name}" for name in names]
