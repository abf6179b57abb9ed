"""README, documentation, source and examples use the field's words."""

import ast
import re
from pathlib import Path

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


def test_files_use_the_words_of_the_field():
    for path in checked_files():
        assert not private_words(path.read_text(encoding="utf-8")), path


# messages: errors, warnings, findings and notes

MESSAGES = {
    r"(?<!there )\bis no (?!longer\b)": "is not a",
    r"(?<!there )\bare no (?!longer\b)": "are not",
    r"\bspeaks? of\b": "is for",
    r"\bsays?\b|\bsaid\b": "state, give, name",
    r"\bcame\b": "got",
    r"\bknows? (?:no|none|other|the|its)\b": "has, was fitted on",
    r"\bleft out\b": "excluded, skipped",
    r"\bwants?\b": "needs",
    r"\bnobody\b": "name it",
    r"\bwhich is which\b": "the order is not known",
    r"\bkeeps? code\b|\bgone away\b|\bwent away\b|\bkeeps? .* to itself\b": "no personification",
    r"\bnothing follows\b|\bnothing is left\b": "there is nothing to",
    r"^which [^?]*\?": "state what is missing",
}
CALLS = {"warn", "note", "say", "Finding"}


def message_parts(node: ast.expr) -> list[str]:
    """Return the literal parts of an expression, joined where they are one text."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)]
    return [
        text for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr) for text in message_parts(child)
    ]


def messages_of(path: Path) -> list[tuple[int, str]]:
    """Return the texts of a module that users may get as errors, warnings and findings, each with its line."""
    result = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in CALLS or name.endswith(("Error", "Warning")):
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            result += [(node.lineno, text) for each in arguments for text in message_parts(each) if " " in text]
    return result


def unclear_messages(path: Path) -> list[str]:
    """Return the messages of a module in another voice than the field's, each with what to write."""
    return [
        f"{number}: {text!r}, write {better}"
        for number, text in messages_of(path)
        for pattern, better in MESSAGES.items()
        if re.search(pattern, text)
    ]


def test_unclear_messages_are_found(tmp_path):
    module = tmp_path / "module.py"
    module.write_text('def f(x):\n    raise ValueError(f"{x} is no table" + f": leave {x} out, or say why")\n')
    assert [line.split(", write ")[1] for line in unclear_messages(module)] == ["is not a", "state, give, name"]
    module.write_text('def f(x):\n    raise ValueError(f"there is no file {x}: check the name")\n')
    assert unclear_messages(module) == []


def test_messages_state_what_was_expected_in_the_voice_of_the_field():
    paths = list((ROOT / "src").rglob("*.py"))
    assert sum(len(messages_of(path)) for path in paths) > 700
    for path in paths:
        assert not unclear_messages(path), path


# percentages: 57.5 %, with a space, in messages, outputs and the blocks that show them

OUTPUT = re.compile(r"^```(?:console|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def unspaced_percentages(source: str) -> list[str]:
    """Return the texts of a module that would print a percentage without a space, each with its line."""
    tree, result = ast.parse(source), []
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            if re.search(r"^[^%]*%$", ast.unparse(node.format_spec)[2:-1]):
                result.append(f"{node.lineno}: {ast.unparse(node)}, write {{100 * share:.1f}} %")
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "0" for part in node.values]
            result += [f"{node.lineno}: {text}" for text in ["".join(parts)] if re.search(r"\d%(?![a-zA-Z{])", text)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\d%(?!\w)", node.value):
            result.append(f"{node.lineno}: {node.value}")
    return result


def test_percentages_without_a_space_are_found():
    assert unspaced_percentages('a = f"{100 * x:.1f} % of {y:%Y-%m-%d}, {z % 2}"') == []
    for line in ('f"{x:.1%}"', 'f"{x}%"', '"95% interval"', '"%{y:.1%}"'):
        assert unspaced_percentages(line), line


def test_percentages_have_a_space_in_all_messages():
    for path in (ROOT / "src").rglob("*.py"):
        assert not unspaced_percentages(path.read_text(encoding="utf-8")), path


def test_percentages_have_a_space_in_the_outputs_that_pages_show():
    for path in checked_files():
        if path.suffix == ".md":
            blocks = OUTPUT.findall(path.read_text(encoding="utf-8"))
            assert not re.findall(r".*\d%.*", "\n".join(blocks)), path
