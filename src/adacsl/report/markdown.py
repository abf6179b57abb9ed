"""A comparison as Markdown: what the page says first, for pull requests, wikis and summaries of CI jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import adacsl
from adacsl.report import tables
from adacsl.report.apportionment import money_each
from adacsl.report.data import ReportData
from adacsl.report.embedding import write_page
from adacsl.report.sections.about import alarm, checks_card
from adacsl.report.sections.money import money_rows, money_words, people_told, people_words
from adacsl.report.sections.segments import segment_parts, segment_tables, segment_words
from adacsl.report.tables import Table

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@$&])")
"""Signs that would be no words in Markdown: emphasis, links, tables, HTML, mentions and formulas of GitHub."""


def to_markdown(data: ReportData, path: str | os.PathLike[str] | None = None) -> str:
    """Return the report as Markdown, and write it where a path is given."""
    text = "\n\n".join(_blocks(data)) + "\n"
    if path is not None:
        write_page(text, path)
    return text


def _blocks(data: ReportData) -> Iterator[str]:
    """Yield paragraphs and tables, one after another."""
    yield f"# {words(data.title)}"
    if data.banner:
        yield f"> **{words(data.banner)}.** This comparison is not finished: the same command goes on from there."
    for view in data.views:
        yield from _of_view(data, view)
    if data.overall:
        yield "## Over all data sets"
        yield words(data.overall)
    facts = {"Where the numbers come from": data.facts} if data.facts else {}
    yield from (_folded(title, list_of(lines)) for title, lines in facts.items())
    yield f"<sub>Made by adacsl {adacsl.__version__}.</sub>"


def _of_view(data: ReportData, view: tuple[str, float]) -> Iterator[str]:
    if len(data.views) > 1:
        yield f"## {words(view[0])}, ratio {view[1]:g}"
    headline, _, rest = data.verdicts[view].partition(". ")
    yield f"**{words(headline)}{'.' if rest else ''}** {words(rest)}".strip()
    if said := alarm(data, view[0]):
        yield f"> **Note:** {words(said)}"
    yield from _money(data, view)
    yield "### What each method costs"
    marked = data.recommended_of(view) if data.recommends(view) else ""
    yield table_of(_shortened(tables.cost_table(data, data.summary_of(view), marked)))
    if data.facts.get("intervals"):
        yield f"<sub>{words(data.facts['intervals'])}.</sub>"
    for rows in segment_parts(data, view) if data.recommends(view) else ():
        yield f"### By {words(str(rows['column'].iloc[0]))}"
        yield words(segment_words(data, rows))
        yield from map(table_of, segment_tables(data, rows))
    yield from _about(data, view)


def _money(data: ReportData, view: tuple[str, float]) -> Iterator[str]:
    if "saved" in money_each(data, view):
        yield "### In money"
        yield words(money_words(data, view))
        yield table_of(money_rows(data, view))
    for _, title, outcome, people, matrix in people_told(data, view) if data.recommends(view) else ():
        yield f"**{words(title)}.** {words(people_words(data, outcome, people))}"
        if matrix is None:
            continue
        rows = [
            [f"really {actual}", *(f"{count} ({each})" for _, count, each, _ in cells)] for actual, cells in matrix.rows
        ]
        yield table_of(Table("", ["", *matrix.headers], rows))


def _about(data: ReportData, view: tuple[str, float]) -> Iterator[str]:
    seen = checks_card(data, view[0], "")
    if seen is not None:
        yield "### What the checks saw"
        lines = [f"- **{found.word}** {words(found.text)} `{found.code}`" for found in seen.findings]
        yield "\n".join(lines) or words(seen.say)
    if card := data.model.get(view):
        yield _folded("Model card", list_of(card))


def _shortened(table: Table) -> Table:
    """Return the columns that a page of text has room for: up to how a method stands against the cheapest."""
    wide = max([*table.text, 2]) + 1
    return table._replace(headers=table.headers[:wide], rows=[row[:wide] for row in table.rows])


def _folded(title: str, text: str) -> str:
    """Return a text that GitHub and GitLab show on a click; everywhere else it is simply there."""
    return f"<details>\n<summary>{words(title)}</summary>\n\n{text}\n\n</details>"


def list_of(lines: Mapping[str, str]) -> str:
    """Return names and what is said about them as a list."""
    return "\n".join(f"- **{words(name)}**: {words(text)}" for name, text in lines.items())


def table_of(table: Table) -> str:
    """Return a table as GitHub's Markdown has it; the row that stands out is bold."""
    head = [words(name) for name in table.headers]
    left = [place == 0 or place in table.text for place in range(len(head))]
    lines = [head, [":--" if words_there else "--:" for words_there in left]]
    for first, *cells in table.rows:
        row = [f"{first} ({table.badges[first]})" if first in table.badges else first, *cells]
        texts = [words(cell) for cell in row]
        lines.append([f"**{text}**" if text else text for text in texts] if first == table.marked else texts)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def words(text: Any) -> str:
    r"""Return a text on one line in which nothing is markup.

    Examples
    --------
    >>> print(words("a|b <i>*c*"))
    a\|b \<i\>\*c\*
    """
    return SPECIAL.sub(r"\\\1", " ".join(str(text).split()))
