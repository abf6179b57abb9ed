"""Seconds of a cross-fit (cv=5) of the default table network against one fit: the five networks train together.

    python -m benchmarks.speed.crossfit_time --json result.json
    python -m benchmarks.speed.crossfit_time --rows 1000 --repeats 1             # does it run?

Both train all their epochs (no early stopping, which would end them at different times). Bank marketing data.
"""

from __future__ import annotations

import sys
import warnings

import torch

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.neural import NeuralLearner
from benchmarks.harness import arguments, interleave, publish, ratio_row
from benchmarks.image_data import data_folder
from benchmarks.quality.peer_data import load_table

BARS = {"cpu": 2.5, "cuda": 1.5}


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = load_table("bank_marketing", data_folder(), options.rows)
    costs = CostMatrix.balanced(table.labels, factor=3)

    def fit(cv: int | None) -> None:
        clf = AdaCSLClassifier(
            costs, cv=cv, learner=NeuralLearner(patience=None), device=options.device, random_state=0
        )
        clf.fit(table.features, table.labels)

    works = {"one": lambda: fit(None), "five": lambda: fit(5)}
    # wall-clock time on a GPU too: a fit ends on the host
    seconds = interleave(works, repeats=options.repeats or 3, warmup=1)
    row = ratio_row("cv=5", seconds["five"], seconds["one"], bar=BARS[options.device], against="one fit, same epochs")
    return publish(
        f"Cross-fit of the table net, {options.rows:,} rows", [row], options, threads=torch.get_num_threads()
    )


if __name__ == "__main__":
    sys.exit(main())
