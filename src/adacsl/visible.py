"""Text that came from data, as it may be shown: what a terminal would obey is written out."""

from __future__ import annotations

import re

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tabs and ends of lines, and what turns the direction of text around."""


def visible(text: str) -> str:
    r"""Return text that a terminal shows and does not obey.

    >>> print(visible("red\x1b[31m, or not"))
    red\x1b[31m, or not
    """
    return OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_json(text: str) -> str:
    r"""Return a JSON document that a terminal shows and does not obey; it still says the same.

    >>> print(visible_json('"\x9b31m"'))
    "\u009b31m"
    """
    return OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
