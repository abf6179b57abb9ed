"""How a request looks, for the page that describes the server."""

from __future__ import annotations

from typing import Any

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
