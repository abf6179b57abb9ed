"""The page engine: one HTML file from views, sections and cards, with one template, one style and one script."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import adacsl
from adacsl.base.extras import requires
from adacsl.report.content import Card, Page
from adacsl.report.style import PALETTES, house_template
from adacsl.storage.atomic import replace_file
from adacsl.storage.documents import plain

with requires("compare"):
    import jinja2
    import plotly.offline
    from markupsafe import Markup


TEMPLATES = Path(__file__).parent / "templates"


def write_page(page: Page, path: str | os.PathLike[str]) -> Path:
    """Write a page and return its path; an existing page is replaced whole or not at all."""
    return write_text(render_page(page), path)


def write_text(text: str, path: str | os.PathLike[str]) -> Path:
    """Write a report as text and return its path; an existing file is replaced whole or not at all."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"cannot write the report: {target} is a folder; name a file such as report.html")
    try:
        replace_file(target, text.encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(f"cannot write the report {target}: {reason}; free space or choose another place") from None
    return target


def render_page(page: Page, figures: Mapping[str, Any] | None = None) -> str:
    """Return a page as text; ``figures`` are more than those of its cards, which the explorers redraw."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    plotly_js, plotly_hash = packed_plotly()
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            version=adacsl.__version__,
            policy=_script_policy(_sha256(script), plotly_hash),
            style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),  # noqa: S704  our own file
            script=Markup(script),  # noqa: S704  our own file
            payload=embedded(_payload(page)),
            figures=packed_figures(_figures_of(page) | dict(figures or {})),
            plotly=plotly_js,
        )
    )


def _payload(page: Page) -> dict[str, Any]:
    """Return what the script reads: colours, themes, and for each view its names and samples."""
    explorers = page.explorers
    extra = explorers.views if explorers is not None else [{"samples": []}] * len(page.views)
    return {
        "unit": page.unit,
        "classes": list(page.classes),
        "start": page.start,
        "colors": list(zip(PALETTES["light"], PALETTES["dark"], strict=True)),
        "themes": {theme: house_template(theme).to_plotly_json() for theme in ("light", "dark")},
        "views": [
            {"data": view.data, "ratio": view.ratio, **more} for view, more in zip(page.views, extra, strict=True)
        ],
        "arrays": list(explorers.arrays) if explorers is not None else [],
    }


def _figures_of(page: Page) -> dict[str, Any]:
    """Return the figures of all cards by their place on the page."""
    return {f"{key}{card.id}": card.figure for key, card in cards_of(page) if card.figure is not None}


def cards_of(page: Page) -> Iterator[tuple[str, Card]]:
    """Yield the cards of a page, each with the prefix of its place: its view, or nothing."""
    for number, view in enumerate(page.views):
        cards = [*view.cards, *(card for section in view.sections for row in section.rows for card in row)]
        yield from ((f"view-{number}-", card) for card in cards)
    yield from (("", card) for section in page.sections for row in section.rows for card in row)


# what is embedded


def embedded(payload: Mapping[str, Any]) -> Markup:
    """Return JSON that no HTML parser can leave: only letters and digits a script element may hold."""
    text = json.dumps(plain(payload), allow_nan=False, separators=(",", ":"))  # ASCII: U+2028 and U+2029 are escaped
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - escaped above


def packed_figures(figures: Mapping[str, Any]) -> str:
    """Return figures by name, compressed."""
    return _packed(json.dumps({name: _figure_spec(figure) for name, figure in figures.items()}))


def _figure_spec(figure: Any) -> Any:
    """Return a figure without title and template, its numbers rounded to what a screen can show."""
    spec = figure.to_plotly_json()
    layout = {key: value for key, value in spec["layout"].items() if key not in ("template", "title")}
    return plain({"data": spec["data"], "layout": layout}, digits=6)


@cache
def packed_plotly() -> tuple[str, str]:
    """Return plotly.js, compressed to two fifths of its size, and the hash by which the policy allows it."""
    source = plotly.offline.get_plotlyjs()
    return _packed(source), _sha256(source)


def _script_policy(*hashes: str) -> str:
    """Return the content security policy: nothing is loaded or sent, and only the scripts with these hashes run."""
    scripts = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _packed(text: str) -> str:
    """Return a text as base64 of its compressed bytes."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


@cache
def _environment() -> jinja2.Environment:
    """Return where templates are found; everything put into them is escaped."""
    loader = jinja2.PackageLoader("adacsl.report", "templates")
    return jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
