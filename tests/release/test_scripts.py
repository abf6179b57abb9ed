"""The scripts that check the project: only its own files, wherever they run."""

import hashlib
import shutil
import subprocess
import sys
import tomllib
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
    code, output = lint(clone)
    assert code == 0, output


@pytest.mark.parametrize(("name", "text"), [("README.md", MISSPELT), ("src/adacsl/__init__.py", UNTIDY)])
def test_a_tracked_file_is_linted(clone, name, text):
    with (clone / name).open("a") as file:
        file.write(text)
    code, output = lint(clone)
    assert code != 0
    assert name in output


def test_files_are_linted_without_git(clone):
    shutil.rmtree(clone / ".git")
    code, output = lint(clone)
    assert code == 0, output
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


def test_the_list_of_weekly_tests_is_complete(collected):
    """As far as tests were collected: the full run has them all."""
    known = tomllib.loads((ROOT / "tests/weekly.toml").read_text())
    named = {ROOT / name for part in ("seconds", "excluded") for name in known[part]}
    weekly = {path for path, is_weekly in collected.items() if is_weekly}
    assert weekly <= named, "add to tests/weekly.toml"
    assert not (named & set(collected)) - weekly, "remove from tests/weekly.toml"


def test_every_weekly_test_is_in_one_slice_of_about_a_minute(script):
    weekly = script("weekly")
    shared = weekly.slices()
    words = [word for own in shared for target in own for word in target.words]
    assert len(words) == len(set(words))
    known = tomllib.loads((ROOT / "tests/weekly.toml").read_text())
    assert {word.split("::")[0] for word in words} == set(known["seconds"])
    assert all("pytest -m weekly" in why for why in known["excluded"].values())
    for own in shared:
        assert sum(target.seconds for target in own) <= weekly.SLICE
    # a long file is divided by its functions
    text = (ROOT / "tests/ensemble/test_ray.py").read_text()
    parts = [word for word in words if word.startswith("tests/ensemble/test_ray.py::")]
    assert sorted(parts) == sorted(
        f"tests/ensemble/test_ray.py::{line[4 : line.index('(')]}"
        for line in text.splitlines()
        if line.startswith("def test_")
    )


def test_the_commit_chooses_the_slice(script):
    weekly = script("weekly")
    commits = [hashlib.sha1(bytes([i]), usedforsecurity=False).hexdigest() for i in range(200)]
    numbers = [weekly.chosen(commit, 9) for commit in commits]
    assert numbers == [weekly.chosen(commit, 9) for commit in commits]
    assert set(numbers) == set(range(1, 10))
    assert weekly.chosen("", 9) == 1  # a source tree without git


def test_a_weekly_test_fails_the_slice_only_when_it_fails_again_on_a_quiet_machine(script, monkeypatch, capsys):
    weekly = script("weekly")

    def failed(codes, **settings):
        for name, value in settings.items():
            monkeypatch.setattr(weekly, name, value)
        monkeypatch.setattr(weekly, "_pytest", lambda *words, seconds: codes[words[-1]].pop(0))
        return [target.words[0] for target in weekly.run([weekly.Target((name,), 1.0) for name in codes])]

    codes = {"passes": [0], "flaky": [1, 0], "broken": [1, 1], "nothing": [5], "hangs": [weekly.OVER]}
    assert failed(codes, _busy=lambda: False) == ["broken"]
    assert not any(codes.values())
    assert "120 s are over, not finished: hangs" in capsys.readouterr().out
    assert failed({"broken": [1, 1]}, _busy=lambda: True) == []
    assert "failed on a busy machine, which may be why: broken" in capsys.readouterr().out
    assert failed({"late": []}, LIMIT=-1.0) == []


def test_weekly_tests_are_broken_off_when_their_time_is_over(script, tmp_path, monkeypatch):
    weekly = script("weekly")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = weekly\n")
    text = "import time, pytest\n\n@pytest.mark.weekly\ndef test_it():\n    time.sleep({})\n"
    for name, seconds in (("long", 300), ("short", 0)):
        (tmp_path / f"test_{name}.py").write_text(text.format(seconds))
    monkeypatch.setattr(weekly, "ROOT", tmp_path)
    assert weekly._pytest("test_short.py", seconds=120.0) == 0
    assert weekly._pytest("test_long.py", seconds=5.0) == weekly.OVER


def test_ci_runs_a_slice_of_the_weekly_tests():
    assert "scripts/weekly.py" in (ROOT / ".ci/run").read_text()
