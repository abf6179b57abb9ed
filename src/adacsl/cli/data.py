"""``adacsl data``: the built-in data sets."""

from __future__ import annotations

from adacsl.cli.console import PLAIN, Answer, Screen, listing
from adacsl.cli.options import (
    Folder,
)


def data(name: str | None = None, *, folder: Folder = None, screen: Screen = PLAIN) -> Answer:
    """List the built-in data sets, or describe one.

    Parameters
    ----------
    name
        Data set to describe; default: list all.
    folder
        Folder of their files; default: the folder that ADACSL_DATA names.

    Examples
    --------
    adacsl data
    adacsl data breast-cancer
    """
    from adacsl.datasets.builtin import describe, list_datasets  # noqa: PLC0415  pandas

    if name is None:
        known = list_datasets(folder)
        return Answer({"datasets": known}, (_table(known), "", "describe one: adacsl data NAME"))
    about = describe(name, folder=folder)
    shown = [f"{key.replace('_', ' ')}: {_text(value)}" for key, value in about.items() if value not in (None, "", [])]
    return Answer(about, tuple(shown))


def _table(known: list[dict[str, object]]) -> object:
    table = listing("name", "", right=("rows", "positives"), then=("kind", "what"))
    for about in known:
        here = "here" if about["present"] else "absent"
        many = about["positives"] is None
        positives = f"{len(list(about['classes']))} classes" if many else f"{about['positives']:,}"  # type: ignore[call-overload]
        numbers = (f"{about['rows']:,}", positives)
        table.add_row(str(about["name"]), here, *numbers, str(about["kind"]), str(about["title"]))
    return table


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
