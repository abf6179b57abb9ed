"""benchmarks/publish.py: figures are computed rightly, and what is missing is stated to be missing."""

import csv
import json
import math
import shutil
from pathlib import Path

import pytest

from benchmarks import publish

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "benchmarks/results").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    return tmp_path


def write(checkout, name, rows):
    with (checkout / "benchmarks/results" / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def image_rows(costs, mode="single", k=1):
    return [
        {"split_by": "image", "mode": mode, "k": k, "split": i, "relative_cost": 0.33, "accuracy": 0.8,
         "mean_test_cost": cost, "estimated_cost": 0.25, "calibration_error": 0.04, "seconds": 10}
        for i, cost in enumerate(costs)
    ]  # fmt: skip


def table_rows(costs):
    """Rows from {(table, mode): costs of splits 0, 1, ...}."""
    return [
        {"table": table, "k": 1.0, "split": i, "mode": mode, "normalized_cost": cost, "cost": cost, "seconds": 1.5}
        for (table, mode), series in costs.items()
        for i, cost in enumerate(series)
    ]


def run(checkout):
    publish.main(checkout)
    costs, images, speed = (
        (checkout / f"benchmarks/results/{name}.md").read_text() for name in ("tables", "images", "speed")
    )
    return costs + images, speed


def test_nothing_measured_is_reported(checkout):
    page, speed = run(checkout)
    assert page.count("Not measured yet with this version.") == 9
    assert "Not measured yet with this version." in speed
    assert (checkout / "benchmarks/results/statistics.md").read_text().count("Not measured yet with this version.") == 2


def test_the_committed_pages_are_what_the_files_say(checkout):
    shutil.copytree(ROOT / "benchmarks/results", checkout / "benchmarks/results", dirs_exist_ok=True)
    shutil.copytree(ROOT / "docs/paper/results", checkout / "docs/paper/results")
    publish.main(checkout)
    for page in ("speed.md", "tables.md", "images.md", "statistics.md"):
        made, committed = (root / "benchmarks/results" / page for root in (checkout, ROOT))
        assert made.read_text() == committed.read_text(), f"run python -m benchmarks.publish: {page} is older"


def test_image_costs_with_interval_and_bars(checkout):
    write(checkout, "ham10k_image.csv", image_rows([0.30, 0.34, 0.38]) + image_rows([0.4, 0.5, 0.6], "cv=5"))
    meta = {"date": "2031-01-02", "device": "a device", "command": "python made_up.py"}
    (checkout / "benchmarks/results/ham10k_image.meta.json").write_text(json.dumps(meta))
    page, _ = run(checkout)
    reach = 4.303 * 0.04 * math.sqrt(1 / 3 + 0.25)  # Nadeau and Bengio: 20 % test, 80 % training rows
    assert f"| one split | 1 | 3 | **0.340** | 0.040 | {0.34 - reach:.3f} to {0.34 + reach:.3f} | 0.36, met |" in page
    assert "| 0.31, **missed** |" in page
    assert "`python made_up.py`\n\n2031-01-02; a device; splits (seeds) 0, 1, 2;" in page
    assert "| one split | 1 | 0.800 | 0.330 | 0.250 | 1.36 | 0.040 | 10 |" in page
    assert "cv=5, T' = 0.5, k = 1 | 0.500 | 0.31 | **missed** |" in page
    assert "k = 5 | - | 0.56 | not measured yet |" in page


def test_too_few_splits_are_reported(checkout):
    write(checkout, "ham10k_image.csv", image_rows([0.30]))
    page, _ = run(checkout)
    assert "| 0.300 | 0.36 | met, but only 1 of 3 splits |" in page
    assert "| one split | 1 | 1 | **0.300** | - | - |" in page
    assert "date not recorded; device not recorded" in page


def test_table_ratios_are_geometric_means_and_losses_are_named(checkout):
    costs = {
        ("a", "net-weighted-single"): [1.0, 3.0],
        ("a", "adacsl-cv"): [0.5, 1.5],  # half
        ("b", "net-weighted-single"): [1.0, 1.0],
        ("b", "adacsl-cv"): [2.0, 2.0],  # twice
        ("b", "hgb-bayes"): [0.9, 0.9],
    }
    write(checkout, "tables.csv", table_rows(costs))
    page, _ = run(checkout)
    assert "| a | 0.500 | - |" in page
    assert "| b | 2.000 | 0.900 |" in page
    assert "| **all** | 1.000 | 0.900 |" in page
    assert "- AdaCSL, cv=5 costs more than weighted cross-entropy, one split on: b." in page
    assert "- gradient boosting + Bayes threshold is cheaper than AdaCSL, cv=5 on: b." in page
    assert "1.000 | 0.95 | **missed**, but only 2 of 5 splits |" in page


def test_the_table_with_the_largest_ratios_is_excluded_too(checkout):
    thyroid = {("ann_thyroid", "net-weighted-single"): [1.0, 1.0], ("ann_thyroid", "adacsl-cv"): [0.25, 0.25]}
    costs = {("b", "net-weighted-single"): [1.0, 1.2], ("b", "adacsl-cv"): [1.0, 0.98]}
    write(checkout, "tables.csv", table_rows(thyroid | costs))
    page, _ = run(checkout)
    assert f"| **all** | {math.sqrt(0.25 * 0.9):.3f} |" in page
    assert "| **all but ann_thyroid** | 0.900 |" in page
    assert (
        "tables, without ann_thyroid, cost relative to weighted cross-entropy, one split: AdaCSL, cv=5 | 0.900" in page
    )
    # leaving out a split in turn: variance of the two logarithms, corrected for overlapping training rows
    logs = [math.log(0.98 / 1.2), 0.0]
    variance = 1 / 2 * sum((x - sum(logs) / 2) ** 2 for x in logs) * (1 + 2 * 0.25)
    low, high = (math.exp(math.log(0.9) + sign * 12.706 * math.sqrt(variance)) for sign in (-1, 1))
    assert page.count(f"| 95 %, jackknife | {low:.3f} to {high:.3f} |") == 1


def test_a_rival_of_the_paper_is_compared_split_by_split(checkout):
    (checkout / "docs/paper/results").mkdir(parents=True)
    costs = {"adacsl": [0.2, 0.3, 0.4], "net-weighted": [0.2, 0.36, 0.49]}
    rows = [
        {"dataset": "HAM10K", "profile": "modern", "split": "random", "k": k, "method": name, "seed": seed,
         "normalized_cost": cost * k}
        for name, series in costs.items() for seed, cost in enumerate(series) for k in (1, 3, 5)
    ]  # fmt: skip
    write(checkout, "../../docs/paper/results/table2.csv", rows)
    page, _ = run(checkout)
    extra = [0.0, 20.0, 30.0]  # percent of .3, whatever k
    reach = 4.303 * math.sqrt((1 / 3 + 0.25) * sum((x - 50 / 3) ** 2 for x in extra) / 2)
    assert f"| one net | net-weighted | 17 % | {50 / 3 - reach:.0f} to {50 / 3 + reach:.0f} % |" in page


def test_regret_stands_beside_the_old_protocols(checkout):
    over = {"blocks": 1, "recommendation, %": 5.0, "recommendation, worst": 1.3, "lowest, %": 4.0, "lowest, worst": 1.2}
    block = {"data": "german-credit", "ratio": 5.0, "best": "net-weighted", "recommendation": 1.05, "lowest": 1.04,
             "picks": {"logistic": 20}}  # fmt: skip
    part = {"overall": over, "blocks": [block]}
    made = {
        "command": "python x.py",
        "date": "today",
        "device": "here",
        "partitions": 4,
        "new": part,
        "methods": ["logistic", "net-weighted"],
        "new_against_all": {"overall": over | {"recommendation, %": 6.6}, "blocks": [block]},
        "all": {"overall": over | {"recommendation, %": 9.9}, "blocks": [block]},
        "old": {"overall": over | {"recommendation, %": 27.2}, "blocks": [block | {"recommendation": 1.5}]},
    }
    (checkout / "benchmarks/results/recommendation_regret.json").write_text(json.dumps(made))
    publish.main(checkout)
    page = (checkout / "benchmarks/results/statistics.md").read_text()
    for line in (
        "| 5 random splits, 20 methods, simplest without significant difference "
        "| 1 | 27.2 % | 1.30 x | 4.0 % | 1.20 x |",
        "| row costs, methods by default, excess at most 10 % | 1 | 5.0 % | 1.30 x | 4.0 % | 1.20 x |",
        "| the same, against the best of all methods | 1 | 6.6 % | 1.30 x | 4.0 % | 1.20 x |",
        "| row costs, all methods, excess at most 10 % | 1 | 9.9 % | 1.30 x | 4.0 % | 1.20 x |",
    ):
        assert line in page
    assert "| german-credit | 5 | net-weighted | 1.050 | 1.040 | logistic (20) | 1.500 |" in page


def test_a_cost_of_zero_in_one_split_is_no_problem(checkout):
    costs = {("a", "net-weighted-single"): [1.0, 1.0, 1.0], ("a", "adacsl-cv"): [0.0, 1.0, 1.0]}
    write(checkout, "tables.csv", table_rows(costs))
    assert "| a | 0.667 |" in run(checkout)[0]


def test_costs_of_zero_throughout_give_no_ratio(checkout):
    costs = {("a", "net-weighted-single"): [1.0, 1.0], ("a", "adacsl-cv"): [0.0, 0.0]}
    write(checkout, "tables.csv", table_rows(costs))
    page, _ = run(checkout)
    assert "| a | - |" in page
    assert "not defined: a method costs 0 on some table" in page


def test_time_bars_name_the_machine(checkout):
    part = {"median_s": 2.0, "q1_s": 1.9, "q3_s": 2.1, "min_s": 1.8, "repeats": 3}
    row = {"name": "ours", "against": "theirs", "ours": part, "theirs": part, "ratio": 1.0, "ratio_of_minimums": 1.0}
    run_ = {"title": "A fit", "date": "2031-01-02", "command": "python made_up.py", "versions": {}, "note": "a note",
            "load_average_1min": 0.1}  # fmt: skip
    for name, device, bar in (("cpu", "a CPU", 2.5), ("gpu", "a GPU", 0.5)):
        made = run_ | {"device": device, "results": [row | {"bar": bar, "met": bar >= 1.0}]}
        (checkout / f"benchmarks/results/{name}_crossfit_time.json").write_text(json.dumps(made))
    page, speed = run(checkout)
    assert "| ours | theirs | a GPU | 1.000 (missed) | 0.5 |" in speed
    assert "| A fit: ours against theirs, a CPU | 1.000 | 2.5 | met |" in page
    assert "| A fit: ours against theirs, a GPU | 1.000 | 0.5 | **missed** |" in page


def test_missed_targets_of_policies_stay_in_the_table(checkout):
    case = {"case": "capacity", "classes": 2, "ours": 1.1, "against": 1.0, "worst": 0.2}
    cases = [
        case | {"learner": "this", "excess": 0.1, "bar": 0.01, "met": False},
        case | {"learner": "that", "excess": 0.001, "bar": 0.01, "met": True},
        case | {"learner": "none", "excess": 0.5, "bar": None, "met": None},
    ]
    about = {"command": "python x.py", "date": "today", "device": "here", "draws": 5, "rows": 10, "fresh": 20}
    (checkout / "benchmarks/results/cpu_policies.json").write_text(json.dumps(about | {"cases": cases}))
    page, _ = run(checkout)
    assert "1 of 2 bars are missed" in page
    assert "| capacity | 2 | this | 1.1 | 1 | +10.0% | +20.0% | 1% (missed) |" in page
    assert "| capacity | 2 | none | 1.1 | 1 | +50.0% | +20.0% | - |" in page
