"""Costs of every sample under every method in one small file: decisions as bits, from which intervals are computed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adacsl import CostMatrix
from adacsl.comparison.fits import scale_fn
from adacsl.comparison.recommendation import recommendation
from adacsl.comparison.result import Comparison
from adacsl.comparison.statistics import RowCosts, summarise

OUTCOMES = ("fp", "fn", "tp", "tn")


def save_rows(result: list[Comparison], path: Path, folds: int) -> None:
    """Keep the decisions of comparisons by cross-validation, with labels, costs, folds and units of the samples.

    Methods that lack a split are left out.
    """
    arrays: dict[str, Any] = {}
    about: dict[str, Any] = {}
    for one in result:
        for data in one.facts["data"]:
            own = {seed: split for (name, seed), split in one.splits.items() if name == data}
            repeats = max(own) // folds + 1
            ratios = sorted({cell.ratio for cell in one.fits if cell.data == data})
            methods = _complete(one, data, len(own) * len(ratios))
            n = sum(len(split.labels) for seed, split in own.items() if seed < folds)
            fold = np.zeros((repeats, n), dtype=np.uint8)
            decided = np.zeros((len(ratios), len(methods), repeats, n), dtype=bool)
            labels, units, amounts = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64), np.zeros((4, n))
            for seed, split in own.items():
                at, repeat = split.test_rows, seed // folds
                fold[repeat, at], labels[at], units[at] = seed % folds, split.labels == 1, split.units
                amounts[:, at] = [np.broadcast_to(getattr(split.costs, name), len(at)) for name in OUTCOMES]
                for cell in (cell for cell in one.fits if (cell.data, cell.seed) == (data, seed)):
                    if cell.method in methods:
                        place = ratios.index(cell.ratio), methods.index(cell.method), repeat, at
                        decided[place] = one.fits[cell].decisions
            if (amounts == amounts[:, :1]).all():
                amounts = amounts[:, :1]
            arrays |= {
                f"{data}/decided": np.packbits(decided, axis=-1), f"{data}/fold": fold,
                f"{data}/labels": np.packbits(labels), f"{data}/units": (units - np.arange(n)).astype(np.int32),
                f"{data}/costs": amounts.astype(np.float32 if amounts.shape[1] > 1 else np.float64),
            }  # fmt: skip
            about[data] = {"ratio": one.facts["data"][data]["ratio"], "ratios": ratios, "methods": methods}
    arrays["about"] = np.frombuffer(json.dumps({"folds": folds, "data": about}).encode(), dtype=np.uint8)
    np.savez_compressed(path, **arrays)


def _complete(one: Comparison, data: str, cells: int) -> list[str]:
    counts = one.results.loc[one.results["data"] == data, "method"].value_counts(sort=False)
    return [str(name) for name, count in counts.items() if count == cells]


def load_rows(path: Path) -> Iterator[tuple[tuple[str, float], RowCosts]]:
    """Go through what a file of :func:`save_rows` holds: data set and ratio, and the costs of its rows."""
    with np.load(path) as file:
        about = json.loads(file["about"].tobytes())
        for data, own in about["data"].items():
            fold = file[f"{data}/fold"].astype(np.int64)
            n = fold.shape[1]
            labels = np.unpackbits(file[f"{data}/labels"], count=n).astype(np.int64)
            units = file[f"{data}/units"] + np.arange(n)
            amounts = file[f"{data}/costs"].astype(np.float64)
            costs = CostMatrix(**{
                name: float(each[0]) if len(each) == 1 else each for name, each in zip(OUTCOMES, amounts, strict=True)
            })  # fmt: skip
            fits = fold + np.arange(len(fold))[:, None] * about["folds"]
            for ratio, bits in zip(own["ratios"], file[f"{data}/decided"], strict=True):
                decided = np.unpackbits(bits, axis=-1, count=n).astype(np.int64)
                priced = scale_fn(costs, ratio / own["ratio"])
                paid = [np.concatenate([priced.incurred(labels, repeat) for repeat in method]) for method in decided]
                rows = np.tile(np.arange(n), len(fold))
                yield (data, ratio), RowCosts(tuple(own["methods"]), np.stack(paid), rows, fits.ravel(), units[rows])


def part_of(paired: RowCosts, entries: Any) -> RowCosts:
    """Return some entries."""
    return replace(
        paired, costs=paired.costs[:, entries], rows=paired.rows[entries], fits=paired.fits[entries],
        units=paired.units[entries],
    )  # fmt: skip


def pick_of(paired: RowCosts, simplest_first: Sequence[str], tolerance: float) -> str:
    """Return the method that the recommendation takes, from what the samples of one data set cost at one ratio."""
    summary = summarise(pd.DataFrame(columns=["data", "ratio", "method"]), {("data", 1.0): paired})
    shown = recommendation(summary, simplest_first=simplest_first, tolerance=tolerance, costs=paired)
    return str(shown.recommended or shown.cheapest)
