"""The results frame by data set and ratio, checked: one row for each finished cell, by seed and method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adacsl.extras import requires

with requires("compare"):
    import pandas as pd

CELL = ["data", "ratio", "method", "seed"]

MORE_IS_BETTER = ("savings", "accuracy", "tp", "tn")


class Block(NamedTuple):
    """The costs of one data set and ratio."""

    data: str
    ratio: float
    methods: list[str]
    costs: NDArray[np.float64]  # seeds x methods, NaN where there is no such cell
    overlap: NDArray[np.float64]  # n_test / n_train of each seed


def blocks_of(results: pd.DataFrame, measure: str) -> Iterator[Block]:
    """Go through the data sets and ratios of checked results."""
    for (data, ratio), frame in cast("Any", results.groupby(["data", "ratio"])):
        methods, column = np.unique(frame["method"].to_numpy(dtype=str), return_inverse=True)
        seeds, row = np.unique(frame["seed"].to_numpy(), return_inverse=True)
        costs, tested, overlap = (np.full((len(seeds), len(methods)), np.nan) for _ in range(3))
        costs[row, column] = frame[measure]
        tested[row, column] = frame["n_test"]
        overlap[row, column] = frame["n_test"] / frame["n_train"]
        low, high = np.nanmin(tested, axis=1), np.nanmax(tested, axis=1)
        if (low != high).any():
            at = int(np.argmax(low != high))
            raise ValueError(
                f"methods of {data}, seed {seeds[at]} were tested on {low[at]:g} and on {high[at]:g} rows: "
                "only methods on the same splits can be compared; repeat the older ones"
            )
        yield Block(data, ratio, methods.tolist(), costs, np.nanmean(overlap, axis=1))


def checked(results: pd.DataFrame, measure: str, confidence: float) -> pd.DataFrame:
    """Return results in which every cell stands once, with a finite measure and its sizes; or raise."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    if measure in MORE_IS_BETTER:
        raise ValueError(f"measure must be a column where less is better, such as 'cost'; got {measure!r}")
    missing = [name for name in dict.fromkeys([*CELL, "n_train", "n_test", measure]) if name not in results.columns]
    if missing:
        raise ValueError(f"results lack the columns {missing}; got {list(results.columns)}")
    if results[CELL].isna().any(axis=None):
        raise ValueError(f"every row of results must name its {', '.join(CELL)}; some are missing")
    _check_rows(results, results.duplicated(CELL), "twice: keep one row for each cell")
    finite = np.isfinite(results[measure].to_numpy(dtype=float))
    _check_rows(results, ~finite, f"with a {measure} that is no finite number: drop or repeat that cell")
    _check_rows(results, ~((results["n_train"] > 0) & (results["n_test"] > 0)), "without n_train and n_test above 0")
    return results.astype({"data": str, "ratio": float, "method": str})


def _check_rows(results: pd.DataFrame, wrong: Any, what: str) -> None:
    if np.any(wrong):
        data, ratio, method, seed = results.loc[np.asarray(wrong), CELL].iloc[0]
        raise ValueError(f"results hold {data}, ratio {ratio:g}, {method}, seed {seed} {what}")


def enough_splits(splits: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a method has enough splits to be called the cheapest: half of them, and two where there are two."""
    most = int(splits.max())
    return np.asarray(splits >= max(min(2, most), most / 2))


def mean_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the columns over what is there; NaN where nothing is."""
    n = (~np.isnan(values)).sum(axis=0)
    return np.asarray(np.nansum(values, axis=0) / np.where(n > 0, n, np.nan))
