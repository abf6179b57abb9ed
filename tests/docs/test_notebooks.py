"""Every tutorial has a notebook that is in step with it, runs, and prints what the page states."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load():
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs/notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = load()
PAGES = notebooks.tutorials()
QUICK = ("classes", "row-costs", "table")
"""The others take longer than a few seconds."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def agrees(said, heard):
    """Whether two outputs are the same but for digits that depend on the processor, and for their padding."""
    words, others = ([part.split() for part in NUMBER.split(text)] for text in (said, heard))
    numbers, measured = ([float(one) for one in NUMBER.findall(text)] for text in (said, heard))
    return words == others and measured == pytest.approx(numbers, rel=0.05, abs=0.011)


def test_every_kind_of_tutorial_is_there():
    assert {page.stem for page in PAGES} == {"classes", "hugging-face", "images", "row-costs", "table", "xgboost"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_notebooks_are_made_from_the_pages(page):
    committed = ROOT / f"examples/notebooks/{page.stem}.ipynb"
    assert committed.read_text(encoding="utf-8") == notebooks.notebook(page), "run python docs/notebooks.py"
    made = json.loads(committed.read_text(encoding="utf-8"))
    assert {cell["cell_type"] for cell in made["cells"]} == {"markdown", "code"}
    for cell in made["cells"]:
        for link in notebooks.LINK.findall("".join(cell["source"])) if cell["cell_type"] == "markdown" else ():
            assert (committed.parent / link).exists(), link


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # Lightning's own, with new versions of torch
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=() if page.stem in QUICK else pytest.mark.weekly) for page in PAGES],
)
def test_cells_print_what_the_page_shows(page, monkeypatch):
    monkeypatch.setattr("adacsl.execution.threads.cores", lambda: 1)  # worker processes take long to start
    for cell, heard in notebooks.run(page):
        if cell.said is not None:
            assert agrees(cell.said, heard), f"{page.name} says\n{cell.said}\nbut now it is\n{heard}"


def test_words_and_numbers_of_outputs_are_compared():
    assert agrees("cost 0.43 (0.07 to 0.93)\n", "cost  0.44 (0.07 to 0.92)")
    assert not agrees("cost 0.43\n", "cost 0.53\n")
    assert not agrees("use logistic\n", "use gbm-bayes\n")
    assert not agrees("1 2\n", "1 2 3\n")


def test_pages_become_cells(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\nSee [b](../b.md#c), [x](https://x.y).\n\n```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n\nEnd.\n"
    )
    words, code, end = json.loads(notebooks.notebook(page))["cells"]
    assert "".join(words["source"]) == "# A\n\nSee [b](../../docs/b.md#c), [x](https://x.y)."
    assert code["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["2\n"]}]
    assert end["source"] == ["End."]
    page.write_text(page.read_text().replace("2\n```", "an older answer\n```"))
    notebooks.write_outputs(page)
    assert "```text\n2\n```\n\nEnd." in page.read_text()
    assert list(tmp_path.iterdir()) == [page]
