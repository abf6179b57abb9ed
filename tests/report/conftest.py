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
