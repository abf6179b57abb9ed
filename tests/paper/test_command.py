"""python -m paper: the quick run as a user types it, and what goes wrong."""

import csv
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from PIL import Image

from paper import command
from paper.options import Options
from paper.running import Reproduced

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.weekly
def test_table_two_quick_from_the_command_to_the_page(paper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("table2", "--quick", "--device", "cpu", "--n-jobs", 1, "--seeds", 1, "--quiet")
    shown = paper(*words)
    assert shown.code == 0, shown.err
    assert shown.out.startswith("18 of 18 missing results are new\n\n")
    folder = tmp_path / "runs/paper-quick"
    with (folder / "table2.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18
    for row in rows:
        assert 0 <= float(row["accuracy"]) <= 1
        assert float(row["cost"]) >= 0
        assert 0 <= float(row["epoch"]) <= 1
    assert {row["method"] for row in rows} >= {"net", "ta", "net-smote", "net-weighted", "adacsl-cv", "net-bayes"}
    assert r"\toprule" in (folder / "table2.tex").read_text()
    assert "AdaCSL costs least" in (folder / "paper.html").read_text()

    again = paper(*words)
    assert again.code == 0
    assert again.out.startswith("0 of 18 missing results are new\n")
    assert str(folder.relative_to(tmp_path) / "paper.html") in again.out


def networks_of(shown):
    """The numbers of networks in a plan, by data set."""
    assert shown.code == 0, shown.err
    lines = [line.split() for line in shown.out.splitlines()]
    return {line[1]: int(line[-2]) for line in lines[1:-1]}


def test_the_plan_counts_networks(paper):
    assert networks_of(paper("table2", "--quick", "--plan")) == {
        "made-up.paper.random": 16,
        "made-up.modern.random": 14,
    }


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
    """Return a folder of two complete (if small) data sets, and an incomplete one."""
    (tmp_path / "resnet18_imagenet_fp16.safetensors").touch()
    one_colour(*(tmp_path / f"idc/{p}/{c}/{p}_idx5_x{i}_y1_class{c}.png" for p in (1, 2) for c in (0, 1) for i in "ab"))
    one_colour(*(tmp_path / f"pv-d/Apple___{kind}/{i}.jpg" for kind in ("rot", "healthy") for i in range(4)))
    one_colour(tmp_path / "rffd/training_fake/1.jpg")  # and no training_real
    return tmp_path


def test_the_plan_skips_what_is_incomplete_in_one_line(paper, folder):
    shown = paper("table2", "--plan", "--data", folder, "--profile", "modern", "--seeds", 1)
    # without a map of leaves PV-D has no groups
    assert {name.removesuffix(".features") for name in networks_of(shown)} == {
        "idc.modern.random", "idc.modern.group", "pv-d.modern.random"
    }  # fmt: skip
    lines = [line for line in shown.err.splitlines() if "will not compare" not in line]
    assert len(lines) == 2
    assert lines[0].startswith("warning: RFFD is skipped: ")
    assert "has no folder training_real" in lines[0]
    assert lines[1] == "warning: PV-D has no groups here: it is split at random only"


def test_what_was_named_and_is_incomplete_is_an_error(paper, folder):
    for words in (("--datasets", "rffd", "idc"), ("--datasets", "pvd", "--splits", "group")):
        shown = paper("table2", "--plan", "--data", folder, *words)
        assert shown.code == 2
        assert shown.err.splitlines()[-1].startswith("error: ")
    assert "PV-D has no groups here" in shown.err


@pytest.fixture
def asked(monkeypatch):
    """Catch the options; nothing is run."""
    result = []

    def stop(options, **_):
        result.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "reproduce", stop)
    return result


def test_options_reach_the_experiments(paper, asked, tmp_path):
    shown = paper(
        "all", "--data", tmp_path, "--datasets", "ham10k", "pvd", "--profile", "modern",
        "--splits", "group", "--methods", "adacsl,net-bayes", "--seeds", 3, "--device", "cuda", "--n-jobs", 9,
        "--out", tmp_path / "o", "--factors", 1, 5,
        "--export", tmp_path / "e", "--skip-done", tmp_path / "a.csv", tmp_path / "b", "--time-limit", 60,
    )  # fmt: skip
    assert shown.code == 130
    assert f"kept in {tmp_path / 'o'}" in shown.err
    (options,) = asked
    assert options == Options(
        "all", data=tmp_path, datasets=("ham10k", "pvd"), profile=("modern",), splits=("group",),
        methods=("adacsl", "net-bayes"), factors=(1, 5), seeds=3, device="cuda", n_jobs=9,
        out=tmp_path / "o", export=tmp_path / "e", skip_done=(tmp_path / "a.csv", tmp_path / "b"), time_limit=60.0,
    )  # fmt: skip


def test_failed_fits_are_reported(paper, monkeypatch, tmp_path):
    lines = tuple(f"fit {i}: RuntimeError: broken" for i in range(7))
    result = Reproduced(tmp_path, (), 3, 10, lines, stopped=True)
    monkeypatch.setattr(command, "reproduce", lambda *_, **__: result)
    shown = paper("table2", "--quick", "--out", tmp_path)
    assert shown.code == 1
    assert "failed: fit 0: RuntimeError: broken" in shown.out
    assert "... and 2 more" in shown.out
    assert "the time limit was reached" in shown.out


def test_wrong_input_is_one_line(refused, tmp_path):
    (tmp_path / "file").touch()
    for words, message in {
        (): "say where the paper's data are",
        ("--data", tmp_path / "absent"): "there is no folder",
        ("--data", tmp_path): "none of the paper's data sets",
        ("--data", tmp_path, "--datasets", "ham"): "did you mean 'ham10k'",
        ("--data", tmp_path, "--datasets", "rffd", "--quick"): "there is no RFFD",
        ("--methods", "adaboost"): "no method 'adaboost'",
        ("--seeds", 0): "seeds must be at least 1",
        ("--seeds", "x"): "argument --seeds: invalid int value: 'x'",
        ("--seedz", 3): "unrecognized arguments: --seedz",
        ("runs",): "only publish takes a folder; name it --out runs",
        ("--quick", "--skip-done", tmp_path / "absent.csv"): "of earlier results",
        ("--quick", "--out", tmp_path / "file" / "x"): "Not a directory",
    }.items():
        assert message in refused("table2", *words)
    assert "table3" in refused("table3")


def test_names_may_have_commas_and_both_stands_for_two(paper, asked):
    paper("table2", "--profile", "both", "--splits", "random,group", "--methods", "adacsl", "net,net-weighted")
    assert asked == [Options("table2", methods=("adacsl", "net", "net-weighted"))]


def test_the_pages_are_made_by_a_command(paper, tmp_path):
    shown = paper("publish", tmp_path)
    assert shown.code == 0, shown.err
    assert shown.out.split() == [str(tmp_path / "results.md"), str(tmp_path / "table2.md")]
    assert "Not run yet." in (tmp_path / "results.md").read_text()


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "examples", "paper", "scripts"])
def test_no_script_shadows_the_standard_library(folder):
    """``python FOLDER/script.py`` puts the folder first on the path."""
    assert {path.stem for path in (ROOT / folder).iterdir()} & sys.stdlib_module_names == set()


def test_help_shows_every_option():
    shown = command.build_parser().format_help()
    for field in fields(Options)[1:]:
        assert f"--{field.name.replace('_', '-')} " in shown


def test_a_missing_package_is_one_line():
    code = "import sys, runpy; sys.modules['scipy'] = None; runpy.run_module('paper', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: python -m paper needs 'scipy': run  pip install -e '.[cli]'\n"
