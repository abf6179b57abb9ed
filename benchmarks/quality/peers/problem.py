"""What a method is given, what it gives back, and how both travel to another Python: npz and JSON, no pickle.

Needs numpy, pandas and scikit-learn only, so that it runs in the environment of any peer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.quality.savings_data import Prices

Floats = NDArray[np.float64]
Costs = NDArray[np.float64] | Prices
"""What decisions cost: K x K with a row for each true class and a column for each decision, or prices of each row."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One split of one table, as a method sees it: the labels of the test rows are not in it.

    Numeric columns are float64 (NaN where missing), the others hold text (None where missing).
    """

    X_train: pd.DataFrame
    y_train: NDArray[np.int64]  # 0 to K - 1
    X_test: pd.DataFrame
    n_classes: int
    costs: NDArray[np.float64] | None  # K x K, rows true, columns decided; none for the blind and with prices
    train_prices: Prices | None  # where each row has its own
    test_prices: Prices | None
    seed: int
    seconds: float  # what a fit may take, of the processor: for those who can be told
    threads: int = 1


def decide(result: NDArray[Any], costs: Costs) -> NDArray[np.uint8]:
    """Return decisions: what is given as such, or those of least expected cost where probabilities are given."""
    if result.ndim == 1:
        return result.astype(np.uint8)
    if isinstance(costs, Prices):
        return costs.decide(result[:, 1]).astype(np.uint8)
    return np.argmin(result @ costs, axis=1).astype(np.uint8)


def paid(y: NDArray[Any], decisions: NDArray[Any], costs: Costs) -> Floats:
    """Return what the decision about each row costs."""
    if isinstance(costs, Prices):
        return costs.paid(y, decisions)
    return np.asarray(costs[y, decisions], dtype=np.float64)


def cheapest_constant(y: NDArray[Any], costs: Costs, n_classes: int) -> int:
    """Return the class that is cheapest for everybody."""
    means = [paid(y, np.full(len(y), said), costs).mean() for said in range(n_classes)]
    return int(np.argmin(means))


def check_found(result: Any, rows: int, n_classes: int) -> NDArray[Any]:
    """Return a method's answer as an array, or raise where it is neither decisions nor probabilities."""
    answer = np.asarray(result)
    if answer.shape not in {(rows,), (rows, n_classes)}:
        raise ValueError(f"expected {rows} decisions or {rows} x {n_classes} probabilities, got {answer.shape}")
    if answer.ndim == 2:
        answer = answer.astype(np.float64)
        if not np.isfinite(answer).all() or answer.min() < -1e-6 or np.abs(answer.sum(axis=1) - 1).max() > 1e-3:
            raise ValueError("expected probabilities: from 0 to 1, each row adds up to 1")
        return answer
    if not np.isin(answer, np.arange(n_classes)).all():
        raise ValueError(f"expected decisions 0 to {n_classes - 1}, got {np.unique(answer)[:5].tolist()}")
    return answer.astype(np.int64)


# files


def write_problem(problem: Problem, folder: Path) -> None:
    """Write a problem as ``problem.json`` (names and numbers) and ``problem.npz`` (arrays)."""
    arrays: dict[str, Any] = {"y_train": problem.y_train}
    if problem.costs is not None:
        arrays["costs"] = problem.costs
    for part in ("train", "test"):
        prices: Prices | None = getattr(problem, f"{part}_prices")
        arrays |= {f"{part}_{kind}": price for kind, price in (prices._asdict() if prices else {}).items()}
        features = getattr(problem, f"X_{part}")
        for number, column in enumerate(features.columns):
            arrays |= _packed(f"{part}_{number}", features[column])
    np.savez(folder / "problem.npz", **arrays)
    about = {name: getattr(problem, name) for name in ("n_classes", "seed", "seconds", "threads")}
    (folder / "problem.json").write_text(json.dumps({**about, "columns": list(problem.X_train.columns)}))


def _packed(name: str, column: pd.Series[Any]) -> dict[str, Any]:
    if pd.api.types.is_numeric_dtype(column):
        return {name: column.to_numpy(np.float64)}
    missing = column.isna().to_numpy()
    return {name: np.asarray(column.where(~missing, "").astype(str), dtype=np.str_), f"{name}_missing": missing}


def read_problem(folder: Path) -> Problem:
    """Read what :func:`write_problem` wrote."""
    about = json.loads((folder / "problem.json").read_text())
    columns = about.pop("columns")
    with np.load(folder / "problem.npz", allow_pickle=False) as file:
        arrays = dict(file)
    parts: dict[str, Any] = {}
    for part in ("train", "test"):
        features = {column: _unpacked(f"{part}_{number}", arrays) for number, column in enumerate(columns)}
        parts[f"X_{part}"] = pd.DataFrame(features, columns=columns)
        priced = f"{part}_fp" in arrays
        parts[f"{part}_prices"] = Prices(*(arrays[f"{part}_{k}"] for k in Prices._fields)) if priced else None
    return Problem(y_train=arrays["y_train"], costs=arrays.get("costs"), **parts, **about)


def _unpacked(name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    values = arrays[name]
    if values.dtype.kind != "U":
        return values
    text = values.astype(object)
    text[arrays[f"{name}_missing"]] = None
    return pd.Series(text, dtype=object)
