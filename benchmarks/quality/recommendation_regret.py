"""What following the recommendation costs on the suite's blocks (tables x ratios), against the method of lowest mean.

New protocol: the samples (units) of a block fall at random into five parts; the recommendation is made from the row
costs of four of them, and what its pick costs is measured on the fifth. The block's figure is the sum over the parts,
divided by what the method with the lowest mean over all samples costs on the same samples; several random partitions
are added up. Networks and boosters are not trained again: which one to take is decided on other samples than those it
is judged on. Twice: among the methods that are compared by default, and among all. Old protocol: the same, with seeds
in place of parts: the old recommendation from four random splits, its pick on the fifth.

    python -m benchmarks.quality.recommendation_regret --json benchmarks/results/recommendation_regret.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adacsl.comparison.statistics import RowCosts
from adacsl.estimators.registry import METHODS, choose_methods
from benchmarks.harness import metadata
from benchmarks.quality.old_protocol import old_pick
from benchmarks.quality.suite_rows import load_rows, part_of, pick_of

RESULTS = Path(__file__).resolve().parents[1] / "results"
PARTS, TOLERANCE = 5, 0.10


def new_blocks(
    path: Path, partitions: int, methods: Container[str] = METHODS, rivals: Container[str] = METHODS
) -> Iterator[dict[str, Any]]:
    """Yield each block of the suite with what the recommendation and the lowest mean cost on rows they had not seen.

    ``methods`` are those to pick from, ``rivals`` those whose best a pick is held against.
    """
    order = list(METHODS)
    for (data, ratio), every in load_rows(path):
        paired = only(every, methods)
        paid, picks = {"recommendation": 0.0, "lowest": 0.0}, []
        for partition in range(partitions):
            parts = np.random.default_rng(partition).integers(PARTS, size=paired.units.max() + 1)[paired.units]
            for part in range(PARTS):
                taken = picked(part_of(paired, parts != part), order)
                judged = dict(zip(paired.methods, paired.costs[:, parts == part].sum(axis=1), strict=True))
                paid = {name: paid[name] + judged[method] for name, method in taken.items()}
                picks.append(taken["recommendation"])
        others = only(every, rivals)
        whole = dict(zip(others.methods, others.costs.sum(axis=1), strict=True))
        best = min(whole.values()) * partitions
        yield {
            "data": data, "ratio": ratio, "best": min(whole, key=whole.__getitem__),
            "recommendation": round(float(paid["recommendation"] / best), 4),
            "lowest": round(float(paid["lowest"] / best), 4),
            "picks": dict(pd.Series(picks).value_counts().items()),
        }  # fmt: skip


def only(paired: RowCosts, methods: Container[str]) -> RowCosts:
    """Return the row costs of some of the methods."""
    kept = [number for number, name in enumerate(paired.methods) if name in methods]
    return replace(paired, methods=tuple(paired.methods[number] for number in kept), costs=paired.costs[kept])


def picked(paired: RowCosts, order: list[str]) -> dict[str, str]:
    lowest = paired.methods[int(paired.costs.mean(axis=1).argmin())]
    return {"recommendation": pick_of(paired, order, TOLERANCE), "lowest": lowest}


def old_blocks(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the same of the old protocol, from the costs of five random splits."""
    results = pd.read_csv(path)
    order = [name for name in METHODS if name in set(results["method"])]
    for (data, ratio), block in results.groupby(["data", "ratio"]):
        costs = block.pivot_table(index="seed", columns="method", values="cost")[order].to_numpy()
        overlap = float((block["n_test"] / block["n_train"]).mean())
        rest = [np.delete(costs, seed, axis=0) for seed in range(len(costs))]
        recommendations = [order.index(old_pick(own, order, overlap)) for own in rest]
        lowest = [int(own.mean(axis=0).argmin()) for own in rest]
        best = costs.sum(axis=0).min()
        yield {
            "data": data, "ratio": ratio, "best": order[int(costs.mean(axis=0).argmin())],
            "recommendation": round(float(sum(costs[at, pick] for at, pick in enumerate(recommendations)) / best), 4),
            "lowest": round(float(sum(costs[at, pick] for at, pick in enumerate(lowest)) / best), 4),
            "picks": dict(pd.Series([order[pick] for pick in recommendations]).value_counts().items()),
        }  # fmt: skip


def overall(blocks: list[dict[str, Any]]) -> dict[str, float]:
    """Return geometric means over the blocks less 1, in percent, and the worst blocks."""
    result: dict[str, float] = {"blocks": len(blocks)}
    for name in ("recommendation", "lowest"):
        ratios = np.asarray([block[name] for block in blocks])
        result |= {f"{name}, %": round(100 * (float(np.exp(np.log(ratios).mean())) - 1), 1)}
        result |= {
            f"{name}, mean, %": round(100 * (float(ratios.mean()) - 1), 1),
            f"{name}, worst": float(ratios.max()),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, default=RESULTS / "suite.npz")
    parser.add_argument("--old", type=Path, default=RESULTS / "suite_random_splits.csv")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    usual = choose_methods(None)
    result = {
        "new": list(new_blocks(options.suite, options.partitions, usual, usual)),
        "new_against_all": list(new_blocks(options.suite, options.partitions, usual)),
        "all": list(new_blocks(options.suite, options.partitions)),
        "old": list(old_blocks(options.old)),
    }
    for name, blocks in result.items():
        print(pd.DataFrame(blocks).to_string())
        print(name, overall(blocks))
    if options.json is not None:
        about = {
            "title": "What following the recommendation costs",
            **metadata("cpu"),
            "partitions": options.partitions,
        }
        about["command"] = f"python -m benchmarks.quality.recommendation_regret --partitions {options.partitions}"
        about["methods"] = list(usual)
        parts = {name: {"overall": overall(blocks), "blocks": blocks} for name, blocks in result.items()}
        options.json.write_text(json.dumps(about | {"tolerance": TOLERANCE} | parts, indent=2, default=int) + "\n")


if __name__ == "__main__":
    main()
