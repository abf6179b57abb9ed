"""A made-up comparison, and a real Chromium to look at its page with."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
HOSTILE = "</script><img src=x onerror=\"alert('x')\"><b>"
MOVE = """([id, value]) => { const slider = document.getElementById(id); slider.value = value;
    slider.dispatchEvent(new Event('input', {bubbles: true})); return Number(slider.value); }"""
TEXTS = """selector => {
    const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
    const parse = text => { const p = text.match(/[\\d.]+/g).map(Number); return [p[0], p[1], p[2], p[3] ?? 1]; };
    const behind = e => { const stack = []; for (let n = e; n; n = n.parentElement)
        stack.push(parse(getComputedStyle(n).backgroundColor));
        return stack.reverse().reduce((below, top) => over(top, below), [255, 255, 255]); };
    return [...document.querySelectorAll(selector)].filter(e => e.checkVisibility() && !e.closest('.plot')
        && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
        .map(e => [e.tagName + '.' + e.className, parse(getComputedStyle(e).color).slice(0, 3), behind(e)]);
}"""
"""Every visible text outside the plots: its element, its colour and that of its background."""


def until(page, condition):
    """Wait for a JavaScript condition; as a function, since the page's policy allows no eval."""
    page.wait_for_function(f"() => {condition}", timeout=20_000)


def luminance(color):
    """Return the relative luminance of a colour: numbers, or CSS."""
    parts = re.findall(r"\d+", color)[:3] if isinstance(color, str) else color
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in (float(c) / 255 for c in parts)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def check_contrast(page, selector):
    """WCAG AA: 4.5 to 1 for every visible text outside the plots."""
    texts = page.evaluate(TEXTS, selector)
    assert len(texts) > 100
    for name, ink, paper in texts:
        low, high = sorted((luminance(ink), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (name, ink, paper)


def check_width(page, width):
    """Nothing is wider than the window, and what is pressed is at least 40 pixels high."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate("""width => [...document.querySelectorAll('main *')].filter(e => e.checkVisibility()
        && !e.closest('.scroll, .plot, select') && e.getBoundingClientRect().right > width + 0.5)
        .map(e => e.tagName + '.' + e.className)""", width)  # fmt: skip
    assert wide == []
    small = page.evaluate("""() => [...document.querySelectorAll('button, select, input[type=number]')]
        .filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 40).map(e => e.id)""")
    assert small == []


def check_nothing_ran(page):
    """No hostile name became an element or a script, and nothing but the page itself was asked for."""
    assert page.log == [("request", page.address)]
    assert page.evaluate("document.querySelectorAll('img, b, image[href]').length") == 0
    assert page.evaluate("[...document.querySelectorAll('*')].filter(e => e.hasAttribute('onerror')).length") == 0


@pytest.fixture(scope="session")
def made(load_module):
    """The generator of made-up reports."""
    return load_module(HERE / "made.py").made_report


@pytest.fixture(scope="session")
def report(made):
    """One data set, three ratios, eight methods, five seeds."""
    return made()


@pytest.fixture(scope="session")
def made_classes(load_module):
    """The generator of made-up reports of more than two classes, and its parts."""
    return load_module(HERE / "made_classes.py")


def _chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def browser():
    """One headless Chromium for a file of tests; without it they are skipped, except where that is forbidden."""
    path = _chromium()
    if path is None:
        message = "no Chromium was found: install it (scripts/install-chromium) or name it in CHROMIUM"
        if os.environ.get("CI") or os.environ.get("ADACSL_REQUIRE_CHROMIUM") == "1":
            pytest.fail(message)
        pytest.skip(message)
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # closed at the end of the file: as long as it runs, its event loop does too, and other tests may want their own
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def opened(browser, folder):
    """Open a report as a file, its details unfolded unless ``folded``; ``page.log`` has messages and requests."""
    contexts = []

    def open_report(report, name="report", *, folded=False, **options):
        path = folder / f"{name}.html"
        if not path.exists():
            from adacsl.report.comparison import write_report

            write_report(report, path)
        contexts.append(browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options)))
        page = contexts[-1].new_page()
        page.log = []
        page.on("console", lambda message: page.log.append(("console", message.type, message.text)))
        page.on("pageerror", lambda error: page.log.append(("error", str(error))))
        page.on("dialog", lambda dialog: (page.log.append(("dialog", dialog.message)), dialog.dismiss()))
        page.on("request", lambda request: page.log.append(("request", request.url)))
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]", state="attached", timeout=60_000)
            if not folded:
                page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
        page.address = path.as_uri()
        return page

    yield open_report
    for context in contexts:
        context.close()
