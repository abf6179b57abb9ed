"""A made-up comparison, and a real Chromium to look at its page with."""

import os
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent


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
