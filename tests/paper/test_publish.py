"""The page of results: made from the CSV files, and honest about what is not there."""

import json
import re
from pathlib import Path

import pytest

from paper import plots
from paper.publish import CLAIMS, fill, publish_pages
from paper.sheets import EPOCH_COLUMNS, SHEET_KEYS, SHEETS, Sheet

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_page_is_made_from_the_committed_results(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "_draw_methods", lambda *_: None)
    monkeypatch.setattr(plots, "_draw_figure", lambda views, path, **_: path)
    (tmp_path / "results").mkdir()
    for path in (ROOT / "docs/paper/results").glob("*"):
        if path.suffix in (".csv", ".json"):
            (tmp_path / "results" / path.name).write_bytes(path.read_bytes())
    (tmp_path / CLAIMS).write_text((ROOT / "docs/paper" / CLAIMS).read_text(encoding="utf-8"), encoding="utf-8")
    publish_pages(tmp_path)
    for page in ("results.md", "table2.md", CLAIMS):
        committed = (ROOT / "docs/paper" / page).read_text(encoding="utf-8")
        assert (tmp_path / page).read_text(encoding="utf-8") == committed, "run python -m paper publish"


def test_what_was_not_run_is_marked(tmp_path):
    publish_pages(tmp_path)
    page = (tmp_path / "results.md").read_text()
    assert page.count("Not run yet.") == 5
    assert "Not run yet." in (tmp_path / "table2.md").read_text()


def test_runs_become_tables_figures_and_commands(tmp_path):
    rows = [
        {"dataset": "HAM10K", "profile": "paper", "split": "random", "k": 1, "method": method, "seed": seed,
         "cost": 700, "normalized_cost": cost + 0.01 * seed, "accuracy": 0.8, "epoch": 3, "seconds": 2}
        for method, cost in (("adacsl", 0.33), ("net-weighted", 0.41)) for seed in range(3)
    ]  # fmt: skip
    steps = [
        dict(zip(EPOCH_COLUMNS, ("HAM10K", "paper", "random", 1, "adacsl", 0, e, 0, 1.0, 0.4, 0.5, 0.6), strict=True))
        for e in range(3)
    ]
    for name, content in (("table2", rows), ("figure1", steps)):
        Sheet(tmp_path / "results" / f"{name}.csv", SHEETS[name], key=SHEET_KEYS[name]).start(content)
    call = {"command": "python -m paper table2", "date": "2026-01-02", "device": "H200", "seconds": 9.6, "commit": None}
    (tmp_path / "results/about.json").write_text(json.dumps([call]))
    publish_pages(tmp_path)
    page = (tmp_path / "results.md").read_text()
    assert "| HAM10K | 1 | 0.329 | 0.340 (" in page
    assert "| HAM10K | paper | random | one net | 1 | confirmed | net-weighted | 24 %" in page
    assert "](results/figure1a.png)" in page
    assert (tmp_path / "results/figure1b.png").exists()
    assert "| 2026-01-02 | H200 | 10 | - | `python -m paper table2` |" in page
    assert page.count("Not run yet.") == 2
    assert "| 0.340 (0.307-0.373) | 0.329 |" in (tmp_path / "table2.md").read_text()


def runs(dataset, split, method, cost):
    return [
        {"dataset": dataset, "profile": "modern", "split": split, "k": k, "method": method, "seed": seed, "cost": 100,
         "normalized_cost": cost + 0.01 * seed, "accuracy": 0.8, "epoch": 3, "seconds": 2}
        for k in (1, 3) for seed in range(3)
    ]  # fmt: skip


def test_tables_of_single_data_sets_are_filled_in_and_a_part_of_the_data_is_called_so(tmp_path):
    marks = "\n".join(
        f"<!-- {name}: begin (python -m paper publish) -->\n<!-- {name}: end -->" for name in ("rffd", "idc")
    )
    (tmp_path / CLAIMS).write_text(f"# By hand\n\n{marks}\n\nThe end.\n")
    rows = [
        *runs("RFFD", "random", "adacsl", 0.7),
        *runs("RFFD", "random", "net-weighted-last", 0.9),  # not of the short table
        *runs("IDC", "patient", "adacsl", 0.5),
        *runs("IDC", "random", "adacsl", 0.2),
    ]
    Sheet(tmp_path / "results/table2.csv", SHEETS["table2"], key=SHEET_KEYS["table2"]).start(rows)
    made = publish_pages(tmp_path)
    page = (tmp_path / CLAIMS).read_text()
    rffd, idc = page.split("<!-- rffd: end -->")
    assert "| modern, random split | adacsl | 0.710 (" in rffd
    assert "| 0.729 |" in rffd  # the paper's 210 of 288
    assert "net-weighted-last" not in page
    assert "**IDC (3 % of the data, not a reproduction)**" in idc
    assert "| modern, one patient left out | adacsl | 0.510 (" in idc
    assert idc.rstrip().endswith("The end.")
    every = (tmp_path / "results.md").read_text() + (tmp_path / "table2.md").read_text()
    assert not re.findall(r"IDC(?! \(3 % of the data, not a reproduction\))", every)
    assert {"table2-idc-modern.png", "table2-idc-modern-patient.png"} <= {path.name for path in made}


def test_a_page_without_its_block_is_an_error():
    with pytest.raises(ValueError, match="no block 'idc': it needs the lines"):
        fill("# A page\n", "idc", "a table")
