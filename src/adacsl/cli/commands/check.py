"""``adacsl check``: what looks wrong about data, before anything is learned from them."""

from __future__ import annotations

from adacsl.cli.checking import load_checked
from adacsl.cli.options import ALL, ANY, FREE, NEVER, Checking, Prices, Source, Times, task_text
from adacsl.cli.screen import PLAIN, Answer, Screen


def check(
    data: str | None = None,
    *,
    source: Source = ANY,
    prices: Prices = FREE,
    times: Times = NEVER,
    checking: Checking = ALL,
    screen: Screen = PLAIN,
) -> Answer:
    """Look for what is wrong with data: copies, columns that give the label away, too few rows, and the like.

    Nothing is trained. Exit code 1 if something is found that makes results worthless until it is repaired (stop).
    docs/checks.md says of each code what it means, and what to do. `train` and `compare` check too.

    Parameters
    ----------
    data
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of pictures per class, .npz archive, or a name
        (`adacsl data`); or --sql.

    Examples
    --------
    adacsl check loans.csv --target default --positive yes --fn 8 --fp 1
    adacsl check loans.csv --target default --positive yes --fn 8 --fp 1 --ignore duplicate-rows,looks-like-id
    adacsl check german-credit --json
    """
    task, found = load_checked(source, data, prices, checking, time_column=times.time_column)
    silenced = f"; silenced: {', '.join(found.ignored)}" if found.ignored else ""
    count = "nothing was found" if not found else f"{len(found)} finding{'s' if len(found) > 1 else ''}"
    shown = [f"{task.name}: {task_text(task)}; {count}{silenced}"]
    if found:
        shown += ["", *map(str, found), "", "what each [code] means: docs/checks.md; to silence one: --ignore CODE"]
    document = {"data": task.name, "rows": len(task.y), "findings": found.to_list(), "ignored": list(found.ignored)}
    document |= task.reading.facts()
    return Answer(document, tuple(shown), code=1 if found.stop else 0)
