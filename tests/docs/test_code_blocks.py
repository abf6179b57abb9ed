"""Every Python block of README.md and of the documentation runs. The blocks of one page share one namespace."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LONG = (
    "docs/guide/compare/index.md", "docs/guide/costs/predicted-costs.md", "docs/guide/existing-model.md",
    "docs/guide/train/methods.md",
)  # fmt: skip
NEEDS = re.compile(r"^# needs: (\w+)", re.MULTILINE)  # a block may name the extra it cannot run without


def pages() -> list[str]:
    result = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        str(page.relative_to(ROOT))
        for page in result
        if not {"_build", "tutorials", "gallery"} & set(page.parts)  # test_notebooks.py and test_gallery.py run these
        and BLOCK.search(page.read_text(encoding="utf-8"))
    ]


def test_pages_with_code_are_found() -> None:
    assert {"README.md", "docs/quickstart.md"} <= set(pages())


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # Lightning's own, with new versions of torch
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")  # Keras's own, with new numpy
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.weekly if page in LONG else ()) for page in pages()]
)
def test_code_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what a page writes is not left behind
    monkeypatch.setattr(
        "adacsl.execution.threads.cores", lambda: 1
    )  # processes take long to start; test_runner.py has them
    text = (ROOT / page).read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "page"}
    for block in BLOCK.finditer(text):
        missing = [name for name in NEEDS.findall(block[1]) if importlib.util.find_spec(name) is None]
        if missing:
            continue
        line = text.count("\n", 0, block.start()) + 1
        # blank lines in front make a traceback show the line of the page
        exec(compile("\n" * line + block[1], page, "exec"), namespace)  # noqa: S102
