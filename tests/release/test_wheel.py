"""The wheel and the archive of the sources hold what they should, and work where there is no source tree."""

import os
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from adacsl import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def contents(wheel):
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


def tracked():
    listed = subprocess.run(["git", "ls-files", "src/adacsl"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode or not listed.stdout:
        pytest.skip("needs a git checkout")
    return {line.removeprefix("src/") for line in listed.stdout.splitlines()}


def test_the_wheel_holds_the_package_and_nothing_else(built):
    held = {name for name in contents(built.wheel) if ".dist-info/" not in name}
    assert tracked() <= held
    assert {name for name in held - tracked() if not (ROOT / "src" / name).exists()} == set()
    assert {"adacsl/py.typed", "adacsl/datasets/builtin.toml"} <= held


def test_the_archive_gives_the_same_wheel(build, built, tmp_path):
    with tarfile.open(built.archive) as file:
        file.extractall(tmp_path / "sources", filter="data")
    (sources,) = (tmp_path / "sources").iterdir()
    (again,) = build(sources, tmp_path / "dist", "wheel")
    assert contents(again) == contents(built.wheel)


def test_version_of_wheel_citation_and_changelog_agree(built):
    assert built.wheel.name.startswith(f"adacsl-{__version__}-py3-none-any")
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    released = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[1].rstrip(":,") in (__version__, "Unreleased")


def output_of(clean, *words, **more):
    done = subprocess.run(
        [str(clean / "venv/bin" / words[0]), *words[1:]], cwd=clean, capture_output=True, text=True, check=False,
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}, **more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_works_without_its_sources(clean):
    where = Path(output_of(clean, "python", "-c", "import adacsl; print(adacsl.__file__)").strip())
    assert where.is_relative_to(clean)
    assert output_of(clean, "adacsl", "--version").startswith(f"adacsl {__version__}\nPython 3.")
    output_of(clean, "adacsl", "train", "german-credit", "--method", "logistic", "--out", "model")
    result = output_of(clean, "adacsl", "predict", "model", "german-credit", "--out", "decisions.csv")
    assert "1,000 rows" in result
    assert len((clean / "decisions.csv").read_text().splitlines()) == 1001


def test_every_supported_version_of_python_is_allowed():
    named = {c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    assert named == {"3.11", "3.12", "3.13"}
    assert PROJECT["requires-python"] == ">=3.11"


def test_the_lock_has_every_pin_and_a_hash_for_each(script):
    lock = (ROOT / "constraints.lock").read_text()
    assert script("lock").pins(lock) == script("lock").pins((ROOT / "constraints.txt").read_text())
    blocks = re.split(r"\n(?=\S)", lock.strip())[1:]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}$", block) for block in blocks)


def test_lowest_versions_are_read_from_the_metadata(script):
    result = script("minimum").lowest(PROJECT)
    assert result["numpy"] == "2.1"
    assert "pytest" not in result
    assert script("minimum").lowest({"dependencies": ["a>=1.2", "adacsl[x]"], "optional-dependencies": {}}) == {
        "a": "1.2"
    }
