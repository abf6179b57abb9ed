"""Names from data in pages: markup, scripts, styles and templates that must stay words, opened in a real Chromium."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from adacsl import CostMatrix, CostSensitiveClassifier, monitor
from adacsl.comparison.recommendation import Recommendation
from adacsl.datasets.findings import Checks, finding
from adacsl.datasets.overview import overview_frame
from adacsl.metrics.intervals import Interval
from adacsl.monitoring.page import write_monitoring
from adacsl.report.comparison import write_report
from adacsl.report.data import ReportData, Saved
from adacsl.report.markdown import to_markdown
from adacsl.serving.schema import render_page
from benchmarks.attacks.scoreboard import Attack, Attempt

ROOT = Path(__file__).resolve().parents[2]
VIEW = ("loans", 8.0)
SEEN = "window.seen=1;alert(1)"
PAYLOADS = {
    "script": f"<script data-seen>{SEEN}</script>",
    "closed script": f"</script><script data-seen>{SEEN}</script>",
    "comment": f"<!--<script>--></script><script data-seen>{SEEN}</script>",
    "image": f"<img data-seen src=x onerror='{SEEN}'>",
    "double quote": f'"><svg data-seen onload="{SEEN}">',
    "single quote": f"'><svg data-seen onload='{SEEN}'>",
    "attribute": f'" onmouseover="{SEEN}" autofocus onfocus="{SEEN}" data-seen="',
    "link": f'<a data-seen href="javascript:{SEEN}">x</a>',
    "address": f"javascript:{SEEN}//",
    "closed style": "</style><style data-seen>:root{--seen:1}body{display:none}</style>",
    "style": "red;--seen:1;background:url(//seen.invalid/x)",
    "frame": f'<iframe data-seen srcdoc="<script>parent.{SEEN}</script>"></iframe>',
    "elsewhere": '<base data-seen href="//seen.invalid/"><link data-seen rel=stylesheet href="//seen.invalid/x.css">',
    "away": '<meta data-seen http-equiv=refresh content="0;url=//seen.invalid/">',
    "template": "{{7*7}}{% raw %}${7*7}#{7*7}",
    "literal": f"`+({SEEN})+`${{{SEEN}}}",
    "JSON": f'"]}}];{SEEN};[{{"',
    "line ends": f"a\u2028;{SEEN};\u2029b",
    "right to left": "\u202e\u2066evil\u2069\u202c<b data-seen>",
    "Plotly": f'%{{x}}<b data-seen>b</b><a href="javascript:{SEEN}" data-seen>a</a><br>',
    "Markdown": f"|x|\n\n# [x](javascript:{SEEN}) <img data-seen src=x onerror={SEEN}> ![](//seen.invalid/x.png)",
    "entity": f"&lt;img data-seen src=x onerror={SEEN}&gt;&#60;b&#62;",
    "nothing": "\x00\x0b<b data-seen>\x1b[31m",
}

# what each page shows of one name, put where the name stands


def _loaded(name: str) -> ModuleType:
    """Return a module of the tests that makes up reports."""
    place = ROOT / f"tests/report/{name}.py"
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _report(place: str, name: str) -> ReportData:
    """Return a small report with a name in one place."""

    def here(*places: str, other: str) -> str:
        return name if place in places else other

    data, known = here("data", other=VIEW[0]), ["net", "adacsl-cv"]
    method = here("method", other="net")

    def text(word: str) -> str:
        return {
            "loans": data, "net": method, "benign": here("class", other="good"), "EUR": here("unit", other="EUR"),
            "cross-entropy, decided at 0.5": here("method's title", other="plain"), "Device": here("fact", other="D"),
            "Which method is cheapest?": here("title", other="Which?"),
        }.get(word, word)  # fmt: skip

    made = _loaded("made").made_report(data=("loans",), ratios=(8.0,), rows=30, seeds=2, methods=known, text=text)
    view = made.views[0]
    note = {"code": here("finding's code", other="code"), "text": here("finding", other="Look."), "severity": "warning",
            "page": here("finding's page", other="https://a.invalid")}  # fmt: skip
    worth = {"column": [here("column", other="age"), "job"], "cost": [0.2, 0.1], "low": [0.1, -0.1], "high": 0.3}
    overview = {"rows": 9, "n_columns": 1, "classes": [{"name": "good", "rows": 9, "at_stake": 1.0}], "columns": [
        {"column": here("column", other="c"), "kind": "text", "missing": 1, "distinct": 3,
         "values": here("value", other="Ulm 60%")}]}  # fmt: skip
    saved = Saved(here("baseline", other="at 0.5"), Interval(10, 5, 15), Interval(0.1, 0.05, 0.2),
                  Interval(1, 0.8, 1.2), made.outcomes[(*view, "adacsl-cv")])  # fmt: skip
    parts = _segments(here("segment's column", other="region"), here("segment", other="west"))
    return replace(
        made, recommendations={view: here("recommendation", other="Take it.")}, explained={view: pd.DataFrame(worth)},
        overview={data: overview_frame(overview, here("costs", other="costs"))}, checks={data: [note]},
        model={view: {here("card's line", other="for"): here("card", other="all")}}, savings={view: saved},
        people=here("people", other="customers"), volume=50_000, segments={view: parts},
        titles=dict(made.titles),
    )  # fmt: skip


def _segments(column: str, name: str) -> pd.DataFrame:
    same = {"share": 0.5, "positive": 0.3, "decided": 0.4, "fpr": 0.2, "fnr": 0.2, "p": 0.01, "saved": 0.25,
            "cost": 0.9, "difference": 0.3}  # fmt: skip
    ends = {f"{which}_{end}": 0.1 * i for which in ("fnr", "fpr", "difference", "saved")
            for i, end in enumerate(("low", "high"), start=1)}  # fmt: skip
    return pd.DataFrame({"column": column, "segment": [name, "north"], "rows": [480, 700], **same, **ends,
                         "low": 0.4, "high": 1.4,
                         "significance": ["significant difference", "no significant difference"]})  # fmt: skip


PLACES = (
    "title", "data", "method", "class", "unit", "method's title", "fact", "finding", "finding's code", "finding's page",
    "column", "value", "baseline", "segment's column", "segment", "recommendation", "costs", "card's line", "card",
    "people",
)  # fmt: skip


def _report_page(path: Path, place: str, name: str) -> None:
    write_report(_report(place, name), path)


def _markdown_page(path: Path, place: str, name: str) -> None:
    """Write the report in Markdown as a reader that lets HTML through would show it."""
    from markdown_it import MarkdownIt  # noqa: PLC0415

    _write(path, MarkdownIt("commonmark", {"html": True}).enable("table").render(to_markdown(_report(place, name))))


def _classes_page(path: Path, place: str, name: str) -> None:
    write_report(_loaded("made_classes").made_class_report(names=("a", name, "c"), rows=40, seeds=2), path)


def _monitor_page(path: Path, place: str, name: str) -> None:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    rng = np.random.default_rng(0)
    positive = name if place == "class" else "bad"
    y = np.where(rng.random(300) < 0.3, positive, "good").astype(object)
    features = rng.normal(size=(300, 2)) + (y == positive)[:, None]
    model = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=8), learner=LogisticRegression(), pos_label=positive, random_state=0
    )
    result = monitor(model.fit(features[:150], y[:150]), features[150:], y[150:])
    write_monitoring(result, path, title=name if place == "title" else "Loans")


def _served_page(path: Path, place: str, name: str) -> None:
    def here(which: str) -> str:
        return name if place == which else which

    field = SimpleNamespace(name=here("column"), kind="text", role="feature", needed=True, schema={})
    about = {
        "adacsl_version": "1", "kind": here("kind"), "learner": "net", "classes": [here("class"), "b"], "policy": None,
        "pos_label": here("class"), "costs": here("costs"), "columns": [vars(field)], "image": False,
        "estimated_cost": None,
    }  # fmt: skip
    path.write_text(render_page(about, SimpleNamespace(fields=[field], image=False), 50), encoding="utf-8")  # type: ignore[arg-type]


def _notebook_page(path: Path, place: str, name: str) -> None:
    """Write what a notebook shows, which has no policy against scripts."""
    shown: Any = {
        "costs": lambda: CostMatrix.from_array(1 - np.eye(3), rows="predicted", classes=["a", name, "c"]),
        "recommendation": lambda: Recommendation(name, name, (), (), f"Take {name}."),
        "checks": lambda: Checks.of([finding("few-rows", name)]),
    }[place]()
    _write(path, shown._repr_html_())


def _write(path: Path, body: str) -> None:
    path.write_text(f"<!doctype html><meta charset=utf-8><title>x</title><body>{body}</body>", encoding="utf-8")


IN_MARKDOWN = tuple(place for place in PLACES if place not in (
    "data", "method's title", "finding's page", "column", "value", "costs",  # it has less to say
))  # fmt: skip
PAGES: dict[str, tuple[Callable[[Path, str, str], None], tuple[str, ...]]] = {
    "report": (_report_page, PLACES),
    "served": (_served_page, ("column", "class", "kind", "costs")),
    "notebook": (_notebook_page, ("costs", "recommendation", "checks")),
    "markdown": (_markdown_page, IN_MARKDOWN),
    "monitor": (_monitor_page, ("class", "title")),
    "classes": (_classes_page, ("class",)),
}

# looking at them

LOOK = """() => {
  const found = [], words = document.documentElement.cloneNode(true)
  if (window.seen) found.push('a script ran')
  if (document.querySelector('[data-seen]')) found.push('an element was made')
  const on = [...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => /^on/i.test(a.name)))
  if (on.length) found.push('a handler on ' + on[0].tagName)
  const led = [...document.querySelectorAll('[href], [src]')].filter(e =>
    /^\\s*javascript:/i.test(e.getAttribute('href') ?? e.getAttribute('src')))
  if (led.length) found.push('a link that is a script: ' + led[0].outerHTML.slice(0, 80))
  const styled = [...document.querySelectorAll('*')].find(e => getComputedStyle(e).getPropertyValue('--seen'))
  if (styled || getComputedStyle(document.body).display === 'none') found.push('a style was changed')
  words.querySelectorAll('script, style').forEach(e => e.remove())
  const texts = [...words.querySelectorAll('[aria-label], [alt], [title], [value]')].flatMap(e =>
    ['aria-label', 'alt', 'title', 'value'].map(name => e.getAttribute(name) ?? ''))
  return [found, [words.textContent, ...texts].join(' ')]
}"""


@contextlib.contextmanager
def _chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise FileNotFoundError("no Chromium was found: install it (scripts/install-chromium) or name it in CHROMIUM")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _plain(text: str) -> str:
    """Return the letters of a text: pages break lines, leave out signs that cannot be shown, and escape."""
    return "".join(sign for sign in text if sign.isalnum() or sign in "<>&{}%'\"$")


def _looked_at(browser: Any, path: Path, place: str, name: str) -> str:
    """Return what is wrong with a page; nothing where the name is a word on it."""
    context = browser.new_context()
    page, log = context.new_page(), list[str]()
    page.on("dialog", lambda dialog: (log.append("a dialog"), dialog.dismiss()))
    page.on("pageerror", lambda error: log.append(f"an error: {error}"))
    page.on("console", lambda message: log.append(f"the console: {message.text}") if message.type == "error" else None)
    page.on("request", lambda asked: log.append(f"asked for {asked.url}") if asked.url != path.as_uri() else None)
    page.goto(path.as_uri())
    if "data-ready" in path.read_text(encoding="utf-8"):
        page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
    for plot in page.locator(".plot:visible").all()[:2]:
        plot.hover()
    page.keyboard.press("Tab")
    result, words = page.evaluate(LOOK)
    context.close()
    if "finding's page" not in place and _plain(name) not in _plain(words):  # that is an address, and no words
        result.append("the name is not shown as it is")
    return "; ".join([*result, *log])[:300]


def attack(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Put names into pages; the first tries are of different pages."""
    order = np.random.default_rng(seed)
    grids = [[(page, *pair) for pair in product(PAGES[page][1], PAYLOADS)] for page in PAGES]
    for grid in grids:
        order.shuffle(grid)
    turns = [grid[i] for i in range(max(map(len, grids))) for grid in grids if i < len(grid)]
    with _chromium() as browser:
        for number, (page, place, kind) in enumerate(turns[:tries]):
            path, name = folder / f"{number}.html", PAYLOADS[kind]
            try:
                PAGES[page][0](path, place, name)
                fault = _looked_at(browser, path, place, name)
            except Exception as error:  # a page that cannot be made is a fault too
                fault = f"{type(error).__name__}: {error}"[:300]
            yield Attempt(f"{page}, {place}, {kind}", fault)


ATTACKS = (
    Attack(
        "pages",
        "names of data, columns, classes, methods, segments, units and files that hold scripts, quotes, styles, links "
        "and templates, in the report, its Markdown, the pages of monitoring and serving and in notebooks, opened in "
        "Chromium: a script, handler or style that works, an element or a request, or a name not shown as it is",
        attack, long=120, short=3,
    ),
)  # fmt: skip
