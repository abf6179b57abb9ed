"""Schema of requests and answers: columns, kinds, example request, OpenAPI."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import jinja2
import numpy as np

from adacsl import __version__
from adacsl.base.labels import label_name
from adacsl.decision.policy import ordered_labels
from adacsl.estimators.classifier import CostClassifier
from adacsl.fitting.rows import missing_costs

Kind = Literal["number", "date", "text", "any", "picture"]
SAID: dict[Kind, str] = {
    "number": "a number", "date": "a date such as 2026-03-31", "text": "text", "any": "a number or text",
    "picture": "a picture, as base64 text (of its PNG, JPEG, WebP, BMP, GIF or TIFF file)",
}  # fmt: skip
PICTURE = "picture"
"""The one column of a model of pictures."""


class Field(NamedTuple):
    """One column of a request, which has to be there; it may hold null unless its value is ``needed``.

    Values that a cost or a period is computed from are.
    """

    name: str
    kind: Kind
    role: Literal["feature", "price", "time"]
    needed: bool = False

    @property
    def wanted(self) -> str:
        """What a value has to be, for messages."""
        return SAID[self.kind] + ("" if self.needed else " or null")

    @property
    def schema(self) -> dict[str, Any]:
        """The column as JSON Schema."""
        types = {"number": ["number"], "any": ["number", "string", "boolean"]}.get(self.kind, ["string"])
        return {"type": types + ([] if self.needed else ["null"]), "description": f"{self.role}: {self.wanted}"}


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
        if missing := missing_costs(classifier, {}):
            raise ValueError(
                f"the model was fitted with {' and '.join(missing)} of each sample, which a request cannot bring: fit "
                f"it with a column of the table, fit(X, y, {missing[0]}='amount'), or with one cost for all samples"
            )
        if getattr(classifier, "images_", False):
            height, width, channels = classifier.image_shape_
            return cls(
                (Field(PICTURE, "picture", "feature", needed=True),), 1, named=True, picture=(height, width, channels)
            )
        n, names = classifier.n_features_in_, getattr(classifier, "feature_names_in_", None)
        known = [f"x{i}" for i in range(n)] if names is None else [str(name) for name in names]
        said, policy = getattr(classifier, "said_costs_", None), classifier.policy
        prices = () if said is None else said.columns
        times = (policy.time,) if policy is not None and isinstance(policy.time, str) else ()
        features = [
            Field(name, kind, "feature", name in (*prices, *times))
            for name, kind in zip(known, _kinds(classifier.model_, n), strict=True)
        ]
        others = [Field(name, "number", "price", needed=True) for name in prices if name not in known]
        others += [Field(name, "date", "time", needed=True) for name in times if name not in known]
        return cls((*features, *others), n, named=names is not None)


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
        "columns": [_description(field) for field in contract.fields],
    }


def _description(field: Field) -> dict[str, Any]:
    """Return a column as plain values: all have to be there, and some may hold null."""
    return {"name": field.name, "kind": field.kind, "role": field.role, "needed": True, "nullable": not field.needed}


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


ARROW = "application/vnd.apache.arrow.stream"


def request_body(contract: Contract, limit: int) -> dict[str, Any]:
    """Return the body of a request as OpenAPI writes it, made from the columns that the model needs."""
    names = [field.name for field in contract.fields]
    record = {"type": "object", "properties": {f.name: f.schema for f in contract.fields}, "required": names}
    columns = {f.name: {"type": "array", "items": f.schema, "maxItems": limit} for f in contract.fields}
    forms = [
        {"type": "object", "required": ["rows"], "properties": {"rows": {"type": "array", "items": record}}},
        {
            "type": "object",
            "required": ["columns"],
            "properties": {"columns": {"type": "object", "properties": columns, "required": names}},
        },
    ]
    raw = {"schema": {"type": "string", "format": "binary"}}
    pictures = {"image/*": raw} if contract.picture else {}
    content = {"application/json": {"schema": {"oneOf": forms}}, ARROW: raw, **pictures}
    return {"requestBody": {"required": True, "content": content}}


def show(about: dict[str, Any], contract: Contract, limit: int) -> str:
    """Return the page that describes the server: what is served, the columns of a row, and a form to try it."""
    example = {f.name: {"number": 0, "date": "2026-03-31", "picture": "..."}.get(f.kind, "") for f in contract.fields}
    template = jinja2.Template(Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8"), autoescape=True)
    page: str = template.render(about, limit=limit, arrow=ARROW, example=json.dumps({"rows": [example]}, indent=1))
    return page
