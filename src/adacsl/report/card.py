"""A card of the report: a figure, how to read it, and its tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from adacsl.report.tables import Table

GUIDES = tomllib.loads((Path(__file__).parent / "templates" / "guides.toml").read_text(encoding="utf-8"))
"""Titles of sections and pictures, and how to read them."""


class Finding(NamedTuple):
    """What a check saw: how serious ("stop", "warn" or "note"), in a word, in a sentence; its code, and a page."""

    severity: str
    word: str
    text: str
    code: str
    page: str


@dataclass(frozen=True)
class Card:
    """A picture with what it says in a sentence, its guide, text alternative and tables; or a list of facts."""

    id: str
    title: str = ""
    guide: str = ""
    alt: str = ""
    figure: Any = None
    matrix: Table | None = None
    heat: Any = None
    say: str = ""
    tables: Sequence[Table] = field(default_factory=tuple)
    folded: Sequence[Table] = field(default_factory=tuple)
    findings: Sequence[Finding] = field(default_factory=tuple)
    facts: Mapping[str, str] = field(default_factory=dict)


def card(key: str, name: str, **more: Any) -> Card:
    """Return the card of that name with its guide."""
    return Card(f"{key}-{name}", **GUIDES[name], **more)


def arranged(sections: Mapping[str, Sequence[Sequence[Card | None]]], key: str) -> list[dict[str, Any]]:
    """Return sections with what stands above them, without cards and rows that are empty.

    Behind the one that is ``tried`` stands what the reader can try out.
    """
    found = []
    for name, cards in sections.items():
        rows = [row for row in ([card for card in row if card] for row in cards) if row]
        if rows:
            found.append({"id": f"{key}-{name}", "guide": "", "rows": rows, "tried": name == "costs", **GUIDES[name]})
    return found
