"""A comparison as Markdown: the summary and a few sections, for pull requests, wikis and CI jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import adacsl
from adacsl.report.comparison import costs_input, money_input, summary_input
from adacsl.report.content import Table
from adacsl.report.data import ReportData
from adacsl.report.page import write_text
from adacsl.report.sections.about import checks_card
from adacsl.report.sections.costs import cost_table
from adacsl.report.sections.money import money_rows, money_words, people_cards
from adacsl.report.sections.segments import Segments, segment_tables, segment_words
from adacsl.report.sections.summary import headline_and_lead, notice

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@$&])")
"""Characters with a meaning in Markdown: emphasis, links, tables, HTML, mentions and formulas of GitHub."""


def to_markdown(data: ReportData, path: str | os.PathLike[str] | None = None) -> str:
    """Return the report as Markdown, and write it where a path is given."""
    text = "\n\n".join(_blocks(data)) + "\n"
    if path is not None:
        write_text(text, path)
    return text


def _blocks(data: ReportData) -> Iterator[str]:
    """Yield paragraphs and tables, one after another."""
    yield f"# {words(data.title)}"
    if data.banner:
        yield f"> **{words(data.banner)}.** This comparison is not finished: the same command continues it."
    for view in data.views:
        yield from _of_view(data, view)
    if data.facts:
        yield _folded("Provenance", list_of(data.facts))
    yield f"<sub>Made by adacsl {adacsl.__version__}.</sub>"


def _of_view(data: ReportData, view: tuple[str, float]) -> Iterator[str]:
    if len(data.views) > 1:
        yield f"## {words(view[0])}, ratio {view[1]:g}"
    headline, lead = headline_and_lead(summary_input(data, view))
    yield f"**{words(headline)}**"
    if lead:
        yield words(lead)
    if text := notice(data.checks.get(view[0], ())):
        yield f"> **Note:** {words(text)}"
    yield "### Cost of each method"
    yield table_of(_shortened(cost_table(costs_input(data, view))))
    if data.facts.get("intervals"):
        yield f"<sub>{words(data.facts['intervals'])}.</sub>"
    if data.recommends(view):
        yield from _money(data, view)
        yield from _segments(data, view)
    yield from _about(data, view)


def _money(data: ReportData, view: tuple[str, float]) -> Iterator[str]:
    money = money_input(data, view)
    if "saved" in money.each:
        yield "### Saving"
        yield words(money_words(money))
        yield table_of(money_rows(money))
    for card in people_cards(money):
        yield f"**{words(card.title)}.** {words(card.result)}"
        if card.matrix is None:
            continue
        rows = [
            [f"actual {actual}", *(f"{cell.amount} ({cell.remark})" for cell in cells)]
            for actual, cells in card.matrix.rows
        ]
        yield table_of(Table("", ["", *card.matrix.headers], rows))


def _segments(data: ReportData, view: tuple[str, float]) -> Iterator[str]:
    for rows in Segments(data.segments.get(view)).by_column:
        yield f"### By {words(str(rows['column'].iloc[0]))}"
        yield words(segment_words(rows, data.terms))
        yield from map(table_of, segment_tables(rows, data.terms))


def _about(data: ReportData, view: tuple[str, float]) -> Iterator[str]:
    if view[0] in data.checks:
        card = checks_card(data.checks[view[0]])
        yield "### Data checks"
        lines = [f"- **{result.severity}** {words(result.text)} `{result.code}`" for result in card.findings]
        yield "\n".join(lines) or words(card.result)
    if facts := data.model.get(view):
        yield _folded("Model card", list_of(facts))


def _shortened(table: Table) -> Table:
    """Return the columns that a page of text has room for: up to the significance."""
    wide = max([*table.text, 2]) + 1
    return table._replace(headers=table.headers[:wide], rows=[row[:wide] for row in table.rows])


def _folded(title: str, text: str) -> str:
    """Return a text that GitHub and GitLab show on a click; elsewhere it is simply there."""
    return f"<details>\n<summary>{words(title)}</summary>\n\n{text}\n\n</details>"


def list_of(lines: Mapping[str, str]) -> str:
    """Return names with their texts as a list."""
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
