"""How a request looks: for people, and as OpenAPI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2

from adacsl.serving.contract import Contract

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
