"""Text from data, escaped for terminals and spreadsheets.

Numbers, and signs before digits and their like (-5, +49 30 1234, a lone -), are no formulas and stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tabs and ends of lines, and what turns the direction of text around."""


def visible(text: str) -> str:
    r"""Return text with its control characters escaped, so that a terminal only shows it.

    >>> print(visible("red\x1b[31m, or not"))
    red\x1b[31m, or not
    """
    return OBEYED.sub(lambda result: result[0].encode("unicode_escape").decode(), text)


def visible_json(text: str) -> str:
    r"""Return a JSON document with its control characters escaped; its values are the same.

    >>> print(visible_json('"\x9b31m"'))
    "\u009b31m"
    """
    return OBEYED.sub(lambda result: f"\\u{ord(result[0]):04x}", text)


BEGINS = "^'*[=@+\\-\uff1d\uff20\uff0b\uff0d\t\r\n]"
"""What a formula may begin with, wide forms included; some programs look behind blanks of this kind.

What looks guarded already is guarded once more, so that reading it takes away what writing it has added."""
HARMLESS = r"[+-](?:[0-9 .,:/()%-]*|(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+|(?i:inf|infinity|nan))"
"""Numbers, and what has no letters: nothing that could be called."""
GUARD = "'"


def guarded(text: str) -> str:
    """Return text as a CSV cell that spreadsheets do not take for a formula.

    >>> guarded("=cmd|' /C calc'!A0"), guarded("-5"), guarded("+49 30 1234"), guarded("-x")
    ("'=cmd|' /C calc'!A0", '-5', '+49 30 1234', "'-x")
    """
    return GUARD + text if re.match(BEGINS, text) and not re.fullmatch(HARMLESS, text) else text


def unguarded(text: str) -> str:
    """Return what :func:`guarded` was given.

    >>> unguarded("'=x"), unguarded("'tis")
    ('=x', "'tis")
    """
    return text[1:] if text.startswith(GUARD) and guarded(text[1:]) == text else text


def guarded_column(column: Any) -> Any:
    """Return a pyarrow array of text with every cell guarded."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    begins = compute.match_substring_regex(column, BEGINS)
    if not compute.any(begins).as_py():
        return column
    runs = compute.and_(begins, compute.invert(compute.match_substring_regex(column, f"^(?:{HARMLESS})$")))
    marked = compute.binary_join_element_wise(pa.scalar(GUARD, column.type), column, pa.scalar("", column.type))
    return compute.if_else(runs, marked, column)
