"""python -m paper: the quick run as a user types it, and what goes wrong."""

import csv
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from PIL import Image

from paper import command
from paper.running import Reproduced
from paper.wishes import Wishes

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.weekly
def test_table_two_quick_from_the_command_to_the_page(paper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("table2", "--quick", "--device", "cpu", "--n-jobs", 1, "--seeds", 1, "--quiet")
    said = paper(*words, "--json")
    assert said.code == 0, said.err
    assert said.json["done"] == said.json["total"] == 18
    assert said.json["failed"] == []
    folder = tmp_path / "runs/paper-quick"
    with (folder / "table2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18
    for row in rows:
        assert 0 <= float(row["accuracy"]) <= 1
        assert float(row["cost"]) >= 0
        assert 0 <= float(row["epoch"]) <= 1
    # TA decides at T and misses nothing where it calls everything positive
    assert {row["method"] for row in rows} >= {
        "net",
        "ta",
        "net-smote",
        "net-weighted",
        "adacsl",
        "adacsl-cv",
        "net-bayes",
    }
    assert r"\toprule" in (folder / "table2.tex").read_text()
    assert "AdaCSL costs least" in (folder / "paper.html").read_text()

    again = paper(*words)
    assert again.code == 0
    assert "0 of 18 missing results are new" in again.out
    assert str(folder.relative_to(tmp_path) / "paper.html") in again.out


def test_the_plan_says_how_many_nets(paper):
    said = paper("table2", "--quick", "--plan", "--json")
    assert {entry["data"]: entry["nets"] for entry in said.json["plan"]} == {
        "made-up.paper.random": 16,
        "made-up.modern.random": 14,
    }
    assert "nets" in paper("table2", "--quick", "--plan").out


@pytest.mark.parametrize(
    "words",
    [
        ("table2", "--quick", "--methods", "adacsl-every-25"),
        ("table2", "--quick", "--methods", "adacsl,adacsl-every-25"),
        ("table1", "--quick", "--methods", "adacsl"),
        ("table2", "--quick", "--profile", "paper", "--methods", "adacsl-cv-auto"),
    ],
)
def test_methods_without_a_match_are_refused(refused, words, tmp_path):
    name = words[-1].split(",")[-1]
    for more in (("--plan",), ("--out", tmp_path)):
        assert f"{words[0]} --quick has no method {name!r}: " in refused(*words, *more)


def one_colour(*paths):
    for i, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (i, 40, 90)).save(path)


@pytest.fixture
def folder(tmp_path):
    """Return a folder of two whole (if small) data sets."""
    (tmp_path / "resnet18_imagenet_fp16.safetensors").touch()
    one_colour(*(tmp_path / f"idc/{p}/{c}/{p}_idx5_x{i}_y1_class{c}.png" for p in (1, 2) for c in (0, 1) for i in "ab"))
    one_colour(*(tmp_path / f"pv-d/Apple___{kind}/{i}.jpg" for kind in ("rot", "healthy") for i in range(4)))
    return tmp_path


def test_the_plan_leaves_out_what_is_incomplete_in_one_line(paper, folder):
    one_colour(folder / "rffd/training_fake/1.jpg")  # and no training_real
    said = paper("table2", "--plan", "--data", folder, "--profile", "modern", "--seeds", 1, "--json")
    assert said.code == 0, said.err
    # without a map of leaves PV-D has no groups
    assert {e["data"].removesuffix(".features") for e in said.json["plan"]} == {
        "idc.modern.random", "idc.modern.group", "pv-d.modern.random"
    }  # fmt: skip
    lines = [line for line in said.err.splitlines() if "will not compare" not in line]
    assert len(lines) == 2
    assert lines[0].startswith("warning: RFFD is left out: ")
    assert "has no folder training_real" in lines[0]
    assert lines[1] == "warning: PV-D has no groups here: it is split at random only"


def test_what_was_named_and_is_incomplete_is_an_error(paper, folder):
    one_colour(folder / "rffd/training_fake/1.jpg")
    for words in (("--datasets", "rffd", "idc"), ("--datasets", "pvd", "--splits", "group")):
        said = paper("table2", "--plan", "--data", folder, *words)
        assert said.code == 2
        assert said.err.splitlines()[-1].startswith("error: ")
    assert "PV-D has no groups here" in said.err


@pytest.fixture
def asked(monkeypatch):
    """Catch what is wished for; nothing is run."""
    result = []

    def stop(wishes, **_):
        result.append(wishes)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", stop)
    return result


def test_options_reach_the_experiments(paper, asked, tmp_path):
    said = paper(
        "all", "--data", tmp_path, "--datasets", "ham10k", "pvd", "--profile", "modern",
        "--splits", "group", "--methods", "adacsl,net-bayes", "--seeds", 3, "--device", "cuda", "--n-jobs", 9,
        "--out", tmp_path / "o",
        "--export", tmp_path / "e", "--skip-done", tmp_path / "a.csv", tmp_path / "b", "--time-limit", 60,
    )  # fmt: skip
    assert said.code == 130
    assert f"kept in {tmp_path / 'o'}" in said.err
    (wishes,) = asked
    assert wishes == Wishes(
        "all", data=tmp_path, datasets=("ham10k", "pvd"),
        profile=("modern",), splits=("group",), methods=("adacsl", "net-bayes"), seeds=3, device="cuda", n_jobs=9,
        out=tmp_path / "o", export=tmp_path / "e", skip_done=(tmp_path / "a.csv", tmp_path / "b"), time_limit=60.0,
    )  # fmt: skip


def test_failed_nets_are_bad_news(paper, monkeypatch, tmp_path):
    lines = tuple(f"fit {i}: RuntimeError: broken" for i in range(7))
    result = Reproduced(tmp_path, (), 3, 10, lines, stopped=True)
    monkeypatch.setattr(command, "run", lambda *_, **__: result)
    said = paper("table2", "--quick", "--out", tmp_path)
    assert said.code == 1
    assert "failed: fit 0: RuntimeError: broken" in said.out
    assert "... and 2 more" in said.out
    assert "the time limit was reached" in said.out


def test_wrong_input_is_one_line(refused, tmp_path):
    assert "say where the paper's data are" in refused("table2")
    assert "there is no folder" in refused("table2", "--data", tmp_path / "absent")
    assert "none of the paper's data sets" in refused("table2", "--data", tmp_path)
    assert "did you mean 'ham10k'" in refused("table2", "--data", tmp_path, "--datasets", "ham")
    assert "there is no RFFD" in refused("table2", "--data", tmp_path, "--datasets", "rffd", "--quick")
    assert "no method 'adaboost'" in refused("table2", "--methods", "adaboost")
    assert "seeds must be at least 1" in refused("table2", "--seeds", 0)
    assert "table3" in refused("table3")
    assert "of earlier results" in refused("table2", "--quick", "--skip-done", tmp_path / "absent.csv")


def test_names_may_have_commas_and_both_stands_for_two(paper, asked):
    paper("table2", "--profile", "both", "--splits", "random,group", "--methods", "adacsl", "net,net-weighted")
    (wishes,) = asked
    assert wishes == Wishes("table2", methods=("adacsl", "net", "net-weighted"))


def test_the_pages_are_made_by_a_command(paper, tmp_path):
    said = paper("publish", tmp_path, "--json")
    assert said.code == 0, said.err
    assert said.json["files"] == [str(tmp_path / "results.md"), str(tmp_path / "table2.md")]
    assert "Not run yet." in (tmp_path / "results.md").read_text()


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "examples", "paper", "scripts"])
def test_no_script_shadows_the_standard_library(folder):
    """``python FOLDER/script.py`` puts the folder first on the path."""
    assert {path.stem for path in (ROOT / folder).iterdir()} & sys.stdlib_module_names == set()


def test_help_shows_every_wish(paper):
    shown = paper("--help")
    assert shown.code == 0, shown.err
    for field in fields(Wishes)[1:]:
        assert f"--{field.name.replace('_', '-')}" in shown.out


@pytest.mark.weekly
def test_as_a_user_starts_it():
    command = [sys.executable, "-m", "paper", "table2", "--seedz", "3"]
    wrong = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "error: Unknown option: --seedz. Did you mean --seeds?\n"


def test_a_missing_package_is_one_line():
    code = "import sys, runpy; sys.modules['cyclopts'] = None; runpy.run_module('paper', run_name='__main__')"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: python -m paper needs 'cyclopts': run  pip install -e '.[cli]'\n"
