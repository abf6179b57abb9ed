"""Scripts, figures and fonts embedded in one HTML file, and its content security policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from adacsl.base.extras import requires
from adacsl.storage.atomic import replace_file
from adacsl.storage.documents import plain

with requires("compare"):
    import jinja2
    import plotly.offline
    from markupsafe import Markup


def write_page(text: str, path: str | os.PathLike[str]) -> Path:
    """Write a page and return its path; an old page is replaced whole or not at all."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"cannot write the report: {target} is a folder; name a file such as report.html")
    try:
        replace_file(target, text.encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(f"cannot write the report {target}: {reason}; free space or choose another place") from None
    return target


def embedded(payload: Mapping[str, Any]) -> Markup:
    """Return JSON that no HTML parser can leave: only letters and digits a script element may hold."""
    text = json.dumps(plain(payload), allow_nan=False, separators=(",", ":"))  # ASCII: U+2028 and U+2029 are escaped
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def packed_figures(figures: Mapping[str, Any]) -> str:
    """Return figures by name, packed."""
    return packed(json.dumps({name: figure_spec(figure) for name, figure in figures.items()}))


def figure_spec(figure: Any) -> Any:
    """Return a figure without title and template, its numbers rounded to what a screen can show."""
    spec = figure.to_plotly_json()
    layout = {key: value for key, value in spec["layout"].items() if key not in ("template", "title")}
    return plain({"data": spec["data"], "layout": layout}, digits=6)


def script_policy(*hashes: str) -> str:
    """Nothing may be loaded or sent; only our own two scripts run."""
    scripts = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def sha256(text: str) -> str:
    """Return the digest that a content security policy names a script by."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def packed_plotly() -> tuple[str, str]:
    """Return plotly.js, packed to two fifths of its size, and the hash that lets it run."""
    source = plotly.offline.get_plotlyjs()
    return packed(source), sha256(source)


EMBEDDED_IN: list[str] = []
"""The notebook cell whose output holds plotly.js; empty: none so far."""


def notebook_html(figure: Any) -> str:
    """Return a figure as HTML for a notebook that is exported.

    The first figure of a kernel holds plotly.js, others use it; where the cell of the first runs again, it holds it
    again.
    """
    cell = notebook_cell()
    first = not EMBEDDED_IN or (bool(cell) and cell in EMBEDDED_IN)
    if first:
        EMBEDDED_IN[:] = [cell]
    return str(figure.to_html(full_html=False, include_plotlyjs=first, include_mathjax=False))


def notebook_cell() -> str:
    """Return which cell of a notebook is running, if the notebook says so."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)()
    return str(parent.get("metadata", {}).get("cellId", ""))


def packed(text: str) -> str:
    """Return a text as base64 of its compressed bytes."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


@cache
def environment() -> jinja2.Environment:
    """Return where templates are found; everything put into them is escaped."""
    loader = jinja2.PackageLoader("adacsl.report", "templates")
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )


def template_text(name: str) -> str:
    """Return a file of the templates as it is."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
