"""What caution is worth on tables: test cost of AdaCSL with caution 0, 1 and 2, relative to caution 0.

python benchmarks/caution.py --csv benchmarks/results/caution.csv
python benchmarks/caution.py --tables breast-cancer --repeats 1                     # does it run?
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from _data import data_folder
from harness import metadata

from adacsl import Method
from adacsl.comparison.compare import compare_tasks
from adacsl.datasets import load_dataset

TABLES = ("breast-cancer", "german-credit", "marketing-campaign", "telco-churn", "ann-thyroid", "churn-tv")
VARIANTS = [
    (f"adacsl{name}{fold}-caution-{caution:g}",
     Method(loss="weighted", controller={"caution": caution}, target=target, cv=cv))
    for name, target in (("", 0.5), ("-target-bayes", "bayes"))
    for fold, cv in (("", None), ("-cv", 5))
    for caution in (0.0, 1.0, 2.0)
]  # fmt: skip


def main() -> None:
    options = parse()
    tasks = [load_dataset(name, folder=data_folder()) for name in options.tables]
    methods = ["ce-bayes", "wce", *VARIANTS]
    found = compare_tasks(
        tasks, ratios=["1x", "3x", "5x"], repeats=options.repeats, methods=methods, workers=options.workers,
        device=options.device,
    )  # fmt: skip
    frame = found.results
    means = frame.groupby(["data", "method"])["cost"].mean().unstack("data")
    relative = means / means.loc["adacsl-caution-0"]
    relative["geometric mean"] = np.exp(np.log(relative.clip(lower=1e-12)).mean(axis=1))
    print(relative.round(3).to_string())
    if options.csv is not None:
        frame[["data", "ratio", "method", "seed", "cost", "normalized_cost"]].round(5).to_csv(options.csv, index=False)
        options.csv.with_suffix(".meta.json").write_text(json.dumps(metadata(options.device), indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--csv", type=Path, help="write one line per cell here, and metadata beside it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
