"""The scripts that check the project: only its own files, wherever they run."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MISSPELT, UNTIDY = "t" + "eh cost of a false negative\n", "import os, sys; x=1\n"


@pytest.fixture
def clone(tmp_path):
    """Return a clone of this checkout in which both commands of the README have left their files."""
    done = subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "clone")], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("needs a git checkout")
    for changed in ("scripts/lint", ".gitignore", "pyproject.toml"):  # also before they are committed
        shutil.copy(ROOT / changed, tmp_path / "clone" / changed)
    for written in ("runs/german-credit", "model"):
        folder = tmp_path / "clone" / written
        folder.mkdir(parents=True)
        (folder / "report.html").write_text(MISSPELT)
        (folder / "method.py").write_text(UNTIDY)
    return tmp_path / "clone"


def lint(folder):
    tools = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "scripts/lint"], cwd=folder, env={"PATH": tools}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_the_files_of_a_run_and_a_model_are_not_linted(clone):
    for name, text in (("notes.md", MISSPELT), ("trial.py", UNTIDY)):  # a user's own, not tracked
        (clone / name).write_text(text)
    code, said = lint(clone)
    assert code == 0, said


@pytest.mark.parametrize(("name", "text"), [("README.md", MISSPELT), ("src/adacsl/__init__.py", UNTIDY)])
def test_a_tracked_file_is_linted(clone, name, text):
    with (clone / name).open("a") as file:
        file.write(text)
    code, said = lint(clone)
    assert code != 0
    assert name in said


def test_files_are_linted_without_git(clone):
    shutil.rmtree(clone / ".git")
    code, said = lint(clone)
    assert code == 0, said
    (clone / "src/adacsl/new.py").write_text(UNTIDY)
    assert lint(clone)[0] != 0


def test_git_ignores_the_run_and_the_model_of_the_readme_only(clone):
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"], cwd=clone, capture_output=True, text=True, check=True
    )
    assert not [line for line in listed.stdout.splitlines() if "runs/" in line or "model/" in line]
    ignored = ["git", "check-ignore", "docs/runs/x", "tests/model/x"]
    assert subprocess.run(ignored, cwd=clone, capture_output=True, check=False).stdout == b""


def test_an_interpreter_that_is_only_a_shim_is_skipped(load_module, tmp_path):
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'python3.12: command not found in the chosen version' >&2\nexit 127\n")
    shim.chmod(0o755)
    versions = load_module(Path(__file__).parent / "test_versions.py")
    with pytest.raises(pytest.skip.Exception, match=r"python3\.12 does not run: .* not found in the chosen version"):
        versions.try_out(str(shim), tmp_path, tmp_path / "pins.txt", tmp_path / "some.whl")
