"""Pages of the documentation: first and last line, length, width of code, links, and two clicks to what is sought."""

import posixpath
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
STARTS = ("index", "install", "quickstart", "which-tool", "what-is-adacsl", "faq", "cite")
FOLDERS = ("guide", "integrations", "theory")
MOST_WORDS, ALL_WORDS, WIDTH, MOST_LINKS = 1300, 28_000, 88, 2

FENCE = re.compile(r"^(?P<mark>`{3,}|:{3,})(?P<kind>[^\n]*)\n(?P<body>.*?)^(?P=mark)[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
WORD = re.compile(r"\w[\w'.-]*")


def pages() -> list[Path]:
    """Return the pages that a reader meets first: start, guide, integrations, theory."""
    return [DOCS / f"{name}.md" for name in STARTS] + [
        page for folder in FOLDERS for page in sorted((DOCS / folder).rglob("*.md"))
    ]


def prose(text: str) -> str:
    """Return a page without its code, figures and navigation."""
    return FENCE.sub("", text)


def with_code() -> list[Path]:
    """Return README.md and the pages that are written by hand; examples of the API reference are docstrings."""
    return [
        ROOT / "README.md",
        *(page for page in sorted(DOCS.rglob("*.md")) if not {"_build", "api"} & set(page.relative_to(DOCS).parts)),
    ]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", with_code(), ids=name)
def test_no_line_of_code_is_clipped(page):
    text = page.read_text(encoding="utf-8")
    blocks = [block for block in FENCE.finditer(text) if block["mark"][0] == "`" and not block["kind"].startswith("{")]
    long = [line for block in blocks for line in block["body"].splitlines() if len(line) > WIDTH]
    assert not long, f"more than {WIDTH} characters:\n" + "\n".join(long)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_a_page_begins_with_a_title_and_a_sentence_and_ends_with_next(page):
    text = page.read_text(encoding="utf-8")
    body = FENCE.sub("", text).strip()
    assert re.match(r"(<!--.*?-->\s*)*# \S", body, re.DOTALL)
    first = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL).strip().split("\n\n")[1]
    assert not first.startswith(("|", "#", "-", "```")), "the first sentence says what the page helps to do"
    last = body.rsplit("\n\n", 1)[-1].strip()
    assert last.startswith("**Next:** "), last
    assert 1 <= len(LINK.findall(last)) <= 2


def test_pages_are_short():
    counts = {name(page): len(WORD.findall(prose(page.read_text(encoding="utf-8")))) for page in pages()}
    assert {page: count for page, count in counts.items() if count > MOST_WORDS} == {}
    assert sum(counts.values()) <= ALL_WORDS


@pytest.mark.parametrize("page", pages(), ids=name)
def test_no_sentence_has_more_than_two_links(page):
    paragraphs = [
        part for part in prose(page.read_text(encoding="utf-8")).split("\n\n") if not part.lstrip().startswith("|")
    ]
    for part in paragraphs:
        for sentence in re.split(r"(?<=[.?!])\s+|\n(?=[-*\d|])", part):
            assert len(LINK.findall(sentence)) <= MOST_LINKS, sentence


# a first reader's walk: from the home page, at most two clicks


def links_of(page: str) -> set[str]:
    """Return the pages and places that a page links to, in its text and its navigation."""
    text = (DOCS / page).read_text(encoding="utf-8")
    targets = {target for target in LINK.findall(FENCE.sub("", text)) if "://" not in target}
    for block in FENCE.finditer(text):
        if block["kind"].startswith("{toctree}"):
            entries = [line.strip() for line in block["body"].splitlines() if line.strip() and line[0] != ":"]
            targets |= {(re.search(r"<(.+)>", entry) or re.match(r"(.+)", entry))[1] + ".md" for entry in entries}
    folder = posixpath.dirname(page)
    return {posixpath.normpath(posixpath.join(folder, target)) for target in targets if target[0] != "#"}


def reach(start: str, clicks: int) -> set[str]:
    """Return the pages within so many clicks."""
    reached = {start}
    for _ in range(clicks):
        reached |= {
            link.partition("#")[0] for page in reached if (DOCS / page).suffix == ".md" and (DOCS / page).exists()
            for link in links_of(page)
        }  # fmt: skip
    return reached


WALK = {
    "an optimal threshold": ("guide/thresholds/threshold.md", "find_threshold(scores, labels, costs)"),
    "per-sample costs": ("guide/costs/instance-costs.md", 'fn="amount"'),
    "the Lightning callback": ("integrations/lightning.md", "callbacks=[AdaCSLCallback()]"),
    "the Hugging Face Trainer": ("integrations/transformers.md", "compute_loss_func=cost.loss"),
    "which method": ("which-tool.md", "What lowers the cost"),
    "the table of methods": ("guide/train/methods.md", "## All methods"),
    "the classes": ("api/index.md", "CostSensitiveClassifier"),
    "the citation": ("cite.md", "@article"),
    "a model that is there already": ("guide/existing-model.md", "FrozenEstimator"),
    "what AdaCSL is": ("what-is-adacsl.md", "## Algorithm"),
}


@pytest.mark.parametrize("sought", WALK)
def test_a_first_reader_is_there_in_two_clicks(sought):
    page, words = WALK[sought]
    assert page in reach("index.md", 2)
    assert words in (DOCS / page).read_text(encoding="utf-8")


def test_the_walk_follows_links_and_navigation(monkeypatch, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "index.md").write_text("# A\n\n[b](a/b.md#c)\n\n```{toctree}\n:hidden:\n\nHere <a/d>\n```\n")
    (tmp_path / "a/b.md").write_text("# B\n\n[e](../e.md)\n")
    monkeypatch.setitem(globals(), "DOCS", tmp_path)
    assert reach("index.md", 1) == {"index.md", "a/b.md", "a/d.md"}
    assert "e.md" in reach("index.md", 2)


def test_every_link_of_the_documentation_leads_to_a_file():
    broken = []
    for page in (page for page in with_code()[1:] if page.name != "changelog.md"):
        for link in links_of(page.relative_to(DOCS).as_posix()):
            target = link.partition("#")[0]
            if target and not (DOCS / target).exists():
                broken.append(f"{name(page)}: {link}")
    assert not broken
