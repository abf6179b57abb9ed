"""Every example of the gallery runs, is as short as promised, and its page shows what it prints."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.docs.test_notebooks import agrees

ROOT = Path(__file__).resolve().parents[2]


def load():
    spec = importlib.util.spec_from_file_location("gallery_pages", ROOT / "docs/gallery_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gallery = load()
EXAMPLES = gallery.examples()
SLOW = ("churn", "melanoma")
OUTPUT = re.compile(r"^```text\n(.*?)\n```$", re.DOTALL | re.MULTILINE)


def committed(example):
    return (gallery.PAGES / f"{example.name}.md").read_text(encoding="utf-8")


def test_six_questions_are_answered_and_linked():
    names = {example.name for example in EXAMPLES}
    assert names == {"fraud", "churn", "melanoma", "three_classes", "alerts", "drift"}
    index = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    assert all(f":link: gallery/{name}\n" in index for name in names)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_pages_are_made_from_the_scripts(example):
    page = committed(example)
    code = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert code == [gallery.wrapped(cell.code) for cell in example.cells], "run python docs/gallery_pages.py"
    assert max(map(len, "".join(code).splitlines())) <= gallery.WIDTH
    assert example.text in page
    assert all(cell.text in page and f"## {cell.title}\n" in page for cell in example.cells[1:])
    assert all((gallery.PAGES / f"{example.name}-{look}.png").exists() for look in ("light", "dark"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_are_short_and_say_that_their_data_are_made(example):
    assert len((gallery.SCRIPTS / f"{example.name}.py").read_text(encoding="utf-8").splitlines()) <= 80
    assert re.search("simulated|drawn, not photographed", example.text)


@pytest.mark.parametrize(
    "example",
    [pytest.param(one, id=one.name, marks=pytest.mark.slow if one.name in SLOW else ()) for one in EXAMPLES],
)
def test_examples_print_what_their_pages_say(example, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("adacsl.execution.threads.cores", lambda: 1)
    heard = [text.rstrip() for _, text in gallery.run(example) if text.strip()]
    output = OUTPUT.findall(committed(example))
    assert len(output) == len(heard)
    for page, now in zip(output, heard, strict=True):
        assert agrees(page, now), f"{example.name} says\n{page}\nbut now it is\n{now}"
    assert pyplot.get_fignums(), "the last cell draws a figure"
    pyplot.close("all")


def test_scripts_become_cells(tmp_path):
    script = tmp_path / "one.py"
    script.write_text(
        '"""A title.\n\nWords.\n"""\n\nx = 1\n\n'
        "# %%\n# A heading\n#\n# Some words.\n\nprint(x)  # not words\n# a comment\n"
    )
    example = gallery.read(script)
    assert (example.name, example.title, example.text) == ("one", "A title", "Words.")
    assert example.cells == (("", "", "x = 1"), ("A heading", "Some words.", "print(x)  # not words\n# a comment"))
    page = gallery.page(example, ["", "1\n"])
    assert "# A title\n\nWords.\n\n```python\nx = 1\n```\n\n## A heading\n\nSome words.\n" in page
    assert "```text\n1\n```" in page
    assert [text for _, text in gallery.run(example)] == ["", "1\n"]
