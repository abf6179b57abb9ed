"""The paper's experiments use adacsl as anybody could: what the API reference lists, and nothing else."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def public(load_module):
    reference = load_module(ROOT / "docs" / "api_reference.py")
    return {*reference.listed_names(), *reference.listed_constants()}


def imports_of(path):
    """Yield the dotted names of adacsl that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "adacsl":
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] == "adacsl")


@pytest.mark.parametrize("path", sorted((ROOT / "paper").glob("*.py")), ids=lambda path: path.name)
def test_imports_are_listed_in_the_api_reference(path, public):
    assert set(imports_of(path)) <= public


def test_the_check_sees_what_is_not_public(tmp_path, public):
    (tmp_path / "a.py").write_text(
        "import adacsl.cli\nfrom adacsl import Task\ndef f():\n    from adacsl.base import x\n"
    )
    assert set(imports_of(tmp_path / "a.py")) - public == {"adacsl.cli", "adacsl.base.x"}
