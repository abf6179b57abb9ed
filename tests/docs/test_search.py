"""The site's own search finds the right page first, run in Chromium on a site built from the pages."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.conftest import browser  # noqa: F401  a fixture

pytestmark = pytest.mark.slow
DOCS = Path(__file__).resolve().parents[2] / "docs"
FAST = "myst_parser,sphinx.ext.autodoc,sphinx.ext.napoleon,sphinx_copybutton,sphinx_design"
"""Extensions of the site but viewcode, whose pages of source code the search does not read."""
FIRST = {
    "data leakage": "guide/diagnose/checks",
    "statistically significant": "guide/compare/statistics",
    "hyperparameter": "integrations/sklearn",
    "abstain": "guide/constraints/reject-option",
    "drift": "guide/deploy/monitor",
    "optimal threshold": "guide/thresholds/threshold",
    "class_weight": "guide/train/methods",
    "imbalanced": "which-tool",
    "alerts per day": "guide/constraints/capacity",
    "bibtex": "cite",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site once, with a plain theme: its search is the same."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-D", f"extensions={FAST}", "-D", "html_theme=basic"]
    subprocess.run([*command, DOCS, folder], check=True, capture_output=True, text=True)
    return folder


@pytest.fixture(scope="module")
def search(browser, site):  # noqa: F811
    """Return the pages that the site's search finds, best first."""
    page = browser.new_page()
    page.goto(f"file://{site}/search.html")
    page.wait_for_function("typeof Search !== 'undefined' && Search._index")
    yield lambda words: page.evaluate(
        "words => Search._performSearch(...Search._parseQuery(words)).reverse().map(result => result[0])", words
    )
    page.close()


@pytest.mark.parametrize(("words", "page"), FIRST.items(), ids=FIRST)
def test_the_right_page_is_found_first_and_has_the_words(search, words, page):
    assert search(words)[:1] == [page]
    assert re.search(words, (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.IGNORECASE)
    assert search("xyzzyplugh") == []


def test_index_words_stand_under_the_title_of_pages_that_exist():
    spec = importlib.util.spec_from_file_location("conf", DOCS / "conf.py")
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    assert all((DOCS / f"{page}.md").exists() for page in conf.SEARCH_WORDS)
    content = ["<!-- made -->\n# A title\n\nText.\n\n# Not this\n"]
    conf.index_words(None, "cite", content)
    assert content[0].startswith("<!-- made -->\n# A title\n\n```{index} ! cite, ! citation, ! bibtex\n```\n\nText.")
    assert content[0].count("{index}") == 1
