"""Results as HTML tables for notebooks, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from adacsl.base.arrays import as_host


def html_table(rows: Iterable[Sequence[Any]], heads: Sequence[Any] = (), title: str = "") -> str:
    """Return a table; the first cell of each row names it.

    Examples
    --------
    >>> html_table([("<b>", 0.25)], title="Costs")
    '<table><caption>Costs</caption><tbody><tr><th>&lt;b&gt;</th><td>0.25</td></tr></tbody></table>'
    """
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    head = "".join(f"<th>{escape(describe(name))}</th>" for name in heads)
    body = "".join(
        f"<tr><th>{escape(describe(first))}</th>{''.join(f'<td>{escape(describe(cell))}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return f"<table>{caption}{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def html_record(result: Any, title: str) -> str:
    """Return the fields of a named tuple as a table."""
    return html_table(((name.replace("_", " "), cell) for name, cell in result._asdict().items()), title=title)


def html_lines(first: str, *rest: str) -> str:
    """Return sentences, the first in bold."""
    return f"<p><strong>{'<br>'.join(map(escape, first.splitlines()))}</strong></p>" + "".join(
        f"<p>{escape(line)}</p>" for line in rest
    )


def describe(value: Any) -> str:
    """Return a value as text: a few digits, an interval with its ends, many numbers by their range.

    Examples
    --------
    >>> describe(0.123456789), describe([0.5, 0.25]), describe(None)
    ('0.123457', '0.5, 0.25', '')
    """
    if value is None or isinstance(value, str | bool):
        return "" if value is None else str(value)
    if getattr(value, "_fields", None) == ("estimate", "low", "high"):
        return f"{value.estimate:.6g} ({value.low:.6g} to {value.high:.6g})"
    if isinstance(value, tuple | list):
        return ", ".join(map(describe, value))
    if not getattr(value, "shape", ()):
        return f"{value:.6g}" if isinstance(value, float) or hasattr(value, "dtype") else str(value)
    numbers = as_host(value)
    if numbers.size <= 6 or numbers.dtype.kind not in "biuf":
        return describe(numbers.tolist()[:6])
    return f"{numbers.size:,} numbers, {numbers.min():.6g} to {numbers.max():.6g}"
