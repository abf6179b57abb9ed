"""Schema of requests and answers: columns, envelope, OpenAPI, and the page that describes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import jinja2
import numpy as np
from pydantic_core import SchemaValidator, core_schema

from adacsl import __version__
from adacsl.base.labels import label_name
from adacsl.decision.policy import ordered_labels
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.fitting.rows import graph_of, missing_costs

Kind = Literal["number", "date", "text", "any", "image", "list"]
EXPECTED: dict[Kind, str] = {
    "number": "a number", "date": "a date such as 2026-03-31", "text": "text", "any": "a number or text",
    "image": "an image, as base64 text (of its PNG, JPEG, WebP, BMP, GIF or TIFF file)",
    "list": "a list of numbers, such as tokens",
}  # fmt: skip
IMAGE = "image"
"""The one column of a model of images."""


class Field(NamedTuple):
    """One required column of a request.

    Parameters
    ----------
    name : str
        Its name.
    kind : {"number", "date", "text", "any", "image", "list"}
        The expected values.
    role : {"feature", "cost", "time"}
        What the model computes from it.
    needed : bool
        Whether null is an error, as for values from which a cost or a period is computed.
    """

    name: str
    kind: Kind
    role: Literal["feature", "cost", "time"]
    needed: bool = False

    @property
    def wanted(self) -> str:
        """The expected values, for messages."""
        return EXPECTED[self.kind] + ("" if self.needed else " or null")

    @property
    def longest(self) -> int:
        """The most characters of a text: columns of pipelines may be documents."""
        return 100_000 if self.kind == "any" else 1_000

    @property
    def schema(self) -> dict[str, Any]:
        """The column as JSON Schema."""
        if self.kind == "list":
            return {"type": "array", "items": {"type": "number"}, "description": f"{self.role}: {self.wanted}"}
        types = {"number": ["number"], "any": ["number", "string", "boolean"]}.get(self.kind, ["string"])
        return {"type": types + ([] if self.needed else ["null"]), "description": f"{self.role}: {self.wanted}"}


@dataclass(frozen=True)
class InputSchema:
    """The columns that a model expects of every sample.

    Parameters
    ----------
    fields : tuple of Field
        First the features, in the order of the training (x0, x1, ... if they had no names); then columns of costs and
        of the time.
    image : tuple of int, optional
        Height, width and channels, where samples are images.
    graph : OnnxClassifier, optional
        The graph that takes several arrays by name, such as the tokens of a text.
    """

    fields: tuple[Field, ...]
    image: tuple[int, int, int] | None = None
    graph: Any = None

    @classmethod
    def of(cls, classifier: CostSensitiveClassifier) -> Self:
        """Return the schema of a fitted classifier."""
        if missing := missing_costs(classifier, {}):
            raise ValueError(
                f"the model was fitted with {' and '.join(missing)} of each sample, which a request cannot give: fit "
                f"it with a column of the table, fit(X, y, {missing[0]}='amount'), or with one cost for all samples"
            )
        if getattr(classifier, "images_", False):
            height, width, channels = classifier.image_shape_
            return cls((Field(IMAGE, "image", "feature", needed=True),), image=(height, width, channels))
        if (graph := graph_of(classifier)) is not None:
            inputs = [Field(each.name, "list", "feature", needed=True) for each in graph.inputs_]
            return cls(tuple(inputs), graph=graph)
        n, names = classifier.n_features_in_, getattr(classifier, "feature_names_in_", None)
        known = [f"x{i}" for i in range(n)] if names is None else [str(name) for name in names]
        cost_spec, policy = getattr(classifier, "cost_spec_", None), classifier.policy
        cost_columns = () if cost_spec is None else cost_spec.columns
        times = (policy.time,) if policy is not None and isinstance(policy.time, str) else ()
        features = [
            Field(name, kind, "feature", name in (*cost_columns, *times))
            for name, kind in zip(known, _kinds(classifier.model_, n), strict=True)
        ]
        others = [Field(name, "number", "cost", needed=True) for name in cost_columns if name not in known]
        others += [Field(name, "date", "time", needed=True) for name in times if name not in known]
        return cls((*features, *others))

    def envelope(self, limit: int) -> SchemaValidator:
        """Return the validator of the form of a JSON body: rows or columns, no column missing, 1 to ``limit`` samples.

        It does not check or convert the values.
        """
        value = core_schema.any_schema()
        column = core_schema.list_schema(value, min_length=1, max_length=limit)
        record = self._required(value)
        rows = core_schema.list_schema(record, min_length=1, max_length=limit, fail_fast=True)
        either = {
            name: core_schema.typed_dict_field(content, required=False)
            for name, content in (("rows", rows), ("columns", self._required(column)))
        }
        return SchemaValidator(
            core_schema.typed_dict_schema(either, extra_behavior="allow"), core_schema.CoreConfig(strict=True)
        )

    def _required(self, content: core_schema.CoreSchema) -> core_schema.CoreSchema:
        """Return the schema of an object with all columns; others are ignored."""
        fields = {field.name: core_schema.typed_dict_field(content) for field in self.fields}
        return core_schema.typed_dict_schema(fields, extra_behavior="ignore")


def _kinds(model: Any, n: int) -> list[Kind]:
    """Return the kinds of the features by the encoders of the model; "any" where there is none."""
    result: list[Kind] = ["any"] * n
    for one in getattr(model, "models", [model]):
        encoder = getattr(one, "encoder", None)
        for place, rule in enumerate([] if encoder is None else encoder.to_dict()["columns"]):
            if rule is not None and result[place] == "any":
                result[place] = "text" if rule["kind"] == "category" else rule["kind"]
    return result


def describe(classifier: CostSensitiveClassifier, schema: InputSchema) -> dict[str, Any]:
    """Return a description of the served model as plain values: classes, costs, decision rule, columns."""
    cost_spec, policy = getattr(classifier, "cost_spec_", None), classifier.policy
    names = [label_name(label) for label in ordered_labels(classifier)]
    two = len(names) == 2
    return {
        "adacsl_version": __version__,
        "kind": type(classifier).__name__,
        "learner": classifier.model_.kind,
        "classes": names,
        "pos_label": names[1] if two else None,
        "costs": repr(cost_spec or classifier.costs_),
        "decide": classifier.decision_.decide,
        "threshold": classifier.threshold_ if two else None,
        **_constraints(classifier),
        "policy": None if policy is None or policy.empty else policy.to_dict(),
        "policy_note": _policy_note(classifier),
        "estimated_cost": list(getattr(classifier, "estimated_cost_", ())) or None,
        "calibration_error": getattr(classifier, "calibration_error_", None),
        "image": schema.image and dict(zip(("height", "width", "channels"), schema.image, strict=True)),
        "columns": [_column_about(field) for field in schema.fields],
    }


def _constraints(classifier: CostSensitiveClassifier) -> dict[str, Any]:
    """Return what is known of the constraints of the model, where it has some."""
    known = classifier.constraints_
    return {} if known is None else {"constraints": {name: each._asdict() for name, each in known.items()}}


def _column_about(field: Field) -> dict[str, Any]:
    """Return a column as plain values; all columns are required, some may hold null."""
    return {"name": field.name, "kind": field.kind, "role": field.role, "needed": True, "nullable": not field.needed}


def _policy_note(classifier: CostSensitiveClassifier) -> str | None:
    """Return a note on a policy under which decisions depend on the other samples of a request."""
    policy = classifier.policy
    if policy is None or not policy.needs_all_rows:
        return None
    what = "the capacity applies to" if policy.capacity is not None else "the class prior is estimated on"
    return f"{what} the rows of each request: send the rows among which to choose in one request"


def probability_names(classifier: CostSensitiveClassifier) -> list[str]:
    """Return the names of the columns of probabilities: one of the positive class, or one of each of K > 2."""
    names = [label_name(label) for label in np.asarray(ordered_labels(classifier))]
    return ["probability"] if len(names) == 2 else [f"probability_{name}" for name in names]


ARROW = "application/vnd.apache.arrow.stream"


def request_body(schema: InputSchema, limit: int) -> dict[str, Any]:
    """Return the OpenAPI description of the body of a request."""
    names = [field.name for field in schema.fields]
    record = {"type": "object", "properties": {f.name: f.schema for f in schema.fields}, "required": names}
    columns = {f.name: {"type": "array", "items": f.schema, "maxItems": limit} for f in schema.fields}
    forms = [
        {"type": "object", "required": ["rows"], "properties": {"rows": {"type": "array", "items": record}}},
        {
            "type": "object",
            "required": ["columns"],
            "properties": {"columns": {"type": "object", "properties": columns, "required": names}},
        },
    ]
    raw = {"schema": {"type": "string", "format": "binary"}}
    images = {"image/*": raw} if schema.image else {}
    content = {"application/json": {"schema": {"oneOf": forms}}, ARROW: raw, **images}
    return {"requestBody": {"required": True, "content": content}}


def render_page(about: dict[str, Any], schema: InputSchema, limit: int) -> str:
    """Return the HTML page with the model, its columns, and a form for a request."""
    example = {
        f.name: {"number": 0, "date": "2026-03-31", "image": "...", "list": [0]}.get(f.kind, "") for f in schema.fields
    }
    template = jinja2.Template(Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8"), autoescape=True)
    page: str = template.render(about, limit=limit, arrow=ARROW, example=json.dumps({"rows": [example]}, indent=1))
    return page
