"""The page that states how to cite agrees with CITATION.cff."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_bibtex_shows_what_the_citation_file_shows():
    page = (ROOT / "docs/cite.md").read_text(encoding="utf-8")
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    output = dict(re.findall(r"^  (\w+) +?= \{+([^}]+)\}", page.split("@article")[0], re.MULTILINE))
    assert output["version"] == re.search(r"^version: (\S+)", cff, re.MULTILINE)[1]
    assert output["title"] == re.search(r'^title: "([^"]+)"', cff, re.MULTILINE)[1]
    paper = " ".join(page.split("@article")[1].split())
    for name in re.findall(r"(?:family|given)-names: (\S+)", cff):
        assert name in paper
    assert re.search(r"^    title: (.+)$", cff, re.MULTILINE)[1] in paper
    assert re.search(r"arXiv:\d+\.\d+", cff)[0] in paper
