"""README, documentation, source and examples use the field's words."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "src", "examples")
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
KINDS = (".md", ".py", ".html", ".js", ".j2")
WORDS = {
    r"dear(?:er|est)?": "costs x % more, costly",
    r"(?:not )?told apart": "(no) significant difference",
    r"false alarms?": "false positive",
    r"a miss|misses": "false negative",
    r"cheapest threshold": "cost-optimal threshold",
    r"decided? at 0\.5": "predict at threshold 0.5",
    r"told the (?:prices|costs)": "cost-aware",
    r"said (?:prices|costs)|what was said": "cost specification",
    r"today's practice": "baseline",
    r"with hindsight": "oracle, chosen on test data",
    r"class shares?": "class prior",
    r"torn apart": "split across folds",
    r"by chance": "at random",
    r"strangers?(?:'s)?": "untrusted",
    r"withstood|attacked": "passed, tested",
    r"what (?:a|each) column is worth": "permutation importance",
    r"(?:a person as a )?third way": "reject option",
    r"(?:gives|tells) the label(?: away)?": "target leakage",
    r"model in use": "deployed model",
    r"contestants?": "methods",
    r"steered": "adapted",
    r"nets": "neural networks",
    r"pictures?": "image, figure",
    r"anew": "again",
    r"in company": "jointly",
    r"price of each row|prices of (?:each row|rows)": "per-sample costs",
    r"honest score": "selection-corrected out-of-fold score",
    r"known only afterwards": "unknown at prediction time",
}
PATTERN = re.compile(r"\b(?:" + "|".join(f"(?P<w{i}>{word})" for i, word in enumerate(WORDS)) + r")\b", re.IGNORECASE)


def private_words(text: str) -> list[str]:
    """Return the private words of a text, each with its line and the field's word."""
    result = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in PATTERN.finditer(line.replace("<picture>", "").replace("</picture>", "")):
            better = list(WORDS.values())[int(str(match.lastgroup)[1:])]
            result.append(f"{number}: {match[0]!r}, write {better}")
    return result


def checked_files() -> list[Path]:
    """Return the pages and the source files, without histories and generated pages."""
    files = [ROOT / page for page in PAGES]
    for folder in FOLDERS:
        files += [
            path
            for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in KINDS and not {"_build", "results", "__pycache__"} & set(path.parts)
        ]
    return [path for path in files if path.name != "changelog.md"]


def test_private_words_are_found_with_the_word_to_use():
    assert private_words("one\nXGBoost is 5 % dearer") == ["2: 'dearer', write costs x % more, costly"]
    assert private_words('<picture>\n  <img alt="a miss">') == ["2: 'a miss', write false negative"]


@pytest.mark.parametrize("path", checked_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_use_the_words_of_the_field(path):
    assert not private_words(path.read_text(encoding="utf-8"))
