"""What a page consists of: views with a summary and sections; sections with cards; cards with figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple


class Table(NamedTuple):
    """Rows of text under headers.

    ``text`` are the columns that hold words, ``marked`` the row that stands out, ``badges`` what stands beside names.
    """

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    marked: str | None = None
    text: Sequence[int] = ()
    badges: Mapping[str, str] = MappingProxyType({})


class MatrixCell(NamedTuple):
    """A cell of a confusion matrix of two classes: its outcome ("tp", ...), two lines of text, its shade (0 to 1)."""

    outcome: str
    amount: str
    remark: str
    shade: float


class Matrix(NamedTuple):
    """A confusion matrix of two classes: a row has the name of its actual class and its cells."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[tuple[str, Sequence[MatrixCell]]]


class HeatCell(NamedTuple):
    """A cell of a confusion matrix of K classes; ``words`` say all of it in a sentence."""

    kind: str
    predicted: int
    actual: int
    amount: str
    samples: str
    share: str
    shade: float
    words: str


class Heat(NamedTuple):
    """A confusion matrix of K classes; columns are heads and names, rows head, name and cells."""

    caption: str
    size: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, str, Sequence[HeatCell]]]


class Finding(NamedTuple):
    """A finding of a data check: severity ("error", "warning" or "info"), text, code, and the address of its page."""

    severity: str
    text: str
    code: str
    page: str


class Tile(NamedTuple):
    """A number of the summary with its name and a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Card:
    """A figure or matrix with its result in a sentence, how to read it, text alternative and numbers as tables."""

    id: str
    title: str = ""
    guide: str = ""
    result: str = ""
    alt: str = ""
    figure: Any = None
    matrix: Matrix | None = None
    heat: Heat | None = None
    tables: Sequence[Table] = ()
    folded: Sequence[Table] = ()
    findings: Sequence[Finding] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    sentences: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """One subject below the summary: a title, and rows of one or several cards; closed unless ``open``."""

    id: str
    title: str
    rows: Sequence[Sequence[Card]]
    guide: str = ""
    open: bool = False


@dataclass(frozen=True)
class View:
    """What a page shows at a time: the summary of one data set at one cost ratio, and the sections below it.

    ``about`` says what the view is of (``data`` and ``ratio`` in the choosers); ``headline`` and ``lead`` are the
    result in words, ``notice`` what has to be known before, ``footnote`` how intervals were computed.
    """

    headline: str
    lead: str = ""
    about: str = ""
    data: str = ""
    ratio: str = ""
    tiles: Sequence[Tile] = ()
    notice: str = ""
    footnote: str = ""
    cards: Sequence[Card] = ()
    sections: Sequence[Section] = ()


@dataclass(frozen=True)
class Explorers:
    """What the sliders of a page need: a payload for each view, packed arrays, and which explorers there are."""

    views: Sequence[Mapping[str, Any]]
    arrays: Sequence[Mapping[str, Any]] = ()
    two_classes: bool = False
    many_classes: bool = False
    matrix: Matrix | None = None
    repeats: int = 1


@dataclass(frozen=True)
class Page:
    """A whole page; ``sections`` are about all views, ``start`` is the view shown first."""

    title: str
    views: Sequence[View]
    sections: Sequence[Section] = ()
    banner: str = ""
    unit: str = ""
    classes: Sequence[str] = ()
    start: int = 0
    explorers: Explorers | None = None


def listed(*cards: Card | None) -> list[Card]:
    """Return a row of the cards that there are."""
    return [card for card in cards if card is not None]


def section(id: str, title: str, *rows: Sequence[Card], guide: str = "", open: bool = False) -> Section | None:  # noqa: A002
    """Return a section of the rows that hold cards; None where there are none."""
    kept = [row for row in rows if row]
    return Section(id, title, kept, guide, open) if kept else None
