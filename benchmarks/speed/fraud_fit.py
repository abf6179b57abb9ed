"""Fit all 284,807 rows of the credit-card fraud data with default settings: seconds, memory, and what it costs.

    python -m benchmarks.speed.fraud_fit --json result.json
    python -m benchmarks.speed.fraud_fit --rows 20000            # does it run?

A missed fraud costs its amount, checking a transaction 5 (each row has its own costs). 25 % of the rows, stratified,
are the test; the classifier decides each row by its own Bayes threshold.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from adacsl import AdaCSLClassifier, CostMatrix
from benchmarks.harness import arguments, metadata
from benchmarks.image_data import data_folder
from benchmarks.quality.peer_data import load_table

CHECK = 5.0


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10**9)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = load_table("creditcard_fraud", data_folder(), options.rows)
    # a fraud of a few cents is still worth a note: no amount below 1
    amounts = table.features["amount"].clip(lower=1.0).to_numpy()
    train, test = train_test_split(np.arange(len(table.labels)), test_size=0.25, stratify=table.labels, random_state=0)
    costs, truth = CostMatrix(fp=CHECK, fn=amounts[test]), table.labels[test]
    before = peak_gigabytes()
    results = []
    for cv in (None, 5):
        start = time.perf_counter()
        clf = AdaCSLClassifier(
            CostMatrix(fp=CHECK, fn=float(amounts.mean())), cv=cv, target_threshold="bayes", random_state=0
        )
        clf.fit(table.features.iloc[train], table.labels[train], fn=amounts[train])
        seconds = time.perf_counter() - start
        decided = clf.predict(table.features.iloc[test], fn=amounts[test])
        one_threshold = clf.predict(table.features.iloc[test])
        results.append({
            "fit": "one net" if cv is None else "cv=5",
            "rows": len(train),
            "seconds": round(seconds, 1),
            "peak_gigabytes": round(peak_gigabytes(), 2),
            "savings": round(costs.savings(truth, decided), 4),
            "savings_with_one_threshold": round(costs.savings(truth, one_threshold), 4),
        })  # fmt: skip
        print(results[-1])
    print(f"peak memory before the first fit (data loaded): {before:.2f} GB; threads: {torch.get_num_threads()}")
    if options.json is not None:
        document = {"title": "Credit-card fraud, default settings", **metadata("cpu"), "fits": results}
        options.json.write_text(json.dumps(document | {"gigabytes_before": round(before, 2)}, indent=2) + "\n")
    return 0


def peak_gigabytes() -> float:
    """Return the largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    sys.exit(main())
