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
"""What decisions cost: K x K with a row for each true class and a column for each decision, or costs of each sample."""
PER_SAMPLE = "rows"
"""The name of costs of each sample; a table with such costs has no others."""
Answer = NDArray[Any] | dict[str, NDArray[Any]]
"""Probabilities (samples x classes), which serve all costs, or the decisions under each of the costs by name."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One split of one table, as a method sees it: the labels of the test samples are not in it.

    Numeric columns are float64 (NaN where missing), the others hold text (None where missing).
    """

    X_train: pd.DataFrame
    y_train: NDArray[np.int64]  # 0 to K - 1
    X_test: pd.DataFrame
    n_classes: int
    costs: dict[str, NDArray[np.float64]]  # by name, K x K, rows true, columns decided; empty with per-sample costs
    train_prices: Prices | None  # where each sample has its own
    test_prices: Prices | None
    seed: int
    seconds: float  # what a fit may take, for methods with a time limit
    threads: int = 1


def decide(answer: Answer, costs: Costs, name: str) -> NDArray[np.uint8]:
    """Return decisions: those given, or those of lowest expected cost where probabilities are given."""
    if isinstance(answer, dict):
        return answer[name].astype(np.uint8)
    if isinstance(costs, Prices):
        return costs.decide(answer[:, 1]).astype(np.uint8)
    return np.argmin(answer @ costs, axis=1).astype(np.uint8)


def paid(y: NDArray[Any], decisions: NDArray[Any], costs: Costs) -> Floats:
    """Return what the decision about each sample costs."""
    if isinstance(costs, Prices):
        return costs.paid(y, decisions)
    return np.asarray(costs[y, decisions], dtype=np.float64)


def cheapest_constant(y: NDArray[Any], costs: Costs, n_classes: int) -> int:
    """Return the class of lowest mean cost."""
    means = [paid(y, np.full(len(y), said), costs).mean() for said in range(n_classes)]
    return int(np.argmin(means))


def check_answer(answer: Any, problem: Problem) -> Answer:
    """Return a method's answer as arrays, or raise where it is neither decisions nor probabilities."""
    rows, n_classes = len(problem.X_test), problem.n_classes
    names = list(problem.costs) or [PER_SAMPLE]
    if isinstance(answer, dict):
        if set(answer) != set(names):
            raise ValueError(f"expected decisions for the costs {', '.join(names)}, got {', '.join(answer)}")
        return {name: _check_decisions(np.asarray(answer[name]), rows, n_classes) for name in names}
    result = np.asarray(answer)
    if result.shape != (rows, n_classes):
        raise ValueError(
            f"expected {rows} x {n_classes} probabilities, or decisions by name of the costs, got shape {result.shape}"
        )
    result = result.astype(np.float64)
    if not np.isfinite(result).all() or result.min() < -1e-6 or np.abs(result.sum(axis=1) - 1).max() > 1e-3:
        raise ValueError("expected probabilities: from 0 to 1, each row adds up to 1")
    return result


def _check_decisions(decisions: NDArray[Any], rows: int, n_classes: int) -> NDArray[np.int64]:
    if decisions.shape != (rows,):
        raise ValueError(f"expected {rows} decisions, got shape {decisions.shape}")
    if not np.isin(decisions, np.arange(n_classes)).all():
        raise ValueError(f"expected decisions 0 to {n_classes - 1}, got {np.unique(decisions)[:5].tolist()}")
    return decisions.astype(np.int64)


# files


def write_problem(problem: Problem, folder: Path) -> None:
    """Write a problem as ``problem.json`` (names and numbers) and ``problem.npz`` (arrays)."""
    arrays: dict[str, Any] = {"y_train": problem.y_train}
    arrays |= {f"costs_{number}": costs for number, costs in enumerate(problem.costs.values())}
    for part in ("train", "test"):
        prices: Prices | None = getattr(problem, f"{part}_prices")
        arrays |= {f"{part}_{kind}": price for kind, price in (prices._asdict() if prices else {}).items()}
        features = getattr(problem, f"X_{part}")
        for number, column in enumerate(features.columns):
            arrays |= _packed(f"{part}_{number}", features[column])
    np.savez(folder / "problem.npz", **arrays)
    about = {name: getattr(problem, name) for name in ("n_classes", "seed", "seconds", "threads")}
    about |= {"costs": list(problem.costs), "columns": list(problem.X_train.columns)}
    (folder / "problem.json").write_text(json.dumps(about))


def _packed(name: str, column: pd.Series[Any]) -> dict[str, Any]:
    if pd.api.types.is_numeric_dtype(column):
        return {name: column.to_numpy(np.float64)}
    missing = column.isna().to_numpy()
    return {name: np.asarray(column.where(~missing, "").astype(str), dtype=np.str_), f"{name}_missing": missing}


def read_problem(folder: Path) -> Problem:
    """Read what :func:`write_problem` wrote."""
    about = json.loads((folder / "problem.json").read_text())
    columns, names = about.pop("columns"), about.pop("costs")
    with np.load(folder / "problem.npz", allow_pickle=False) as file:
        arrays = dict(file)
    parts: dict[str, Any] = {"costs": {name: arrays[f"costs_{number}"] for number, name in enumerate(names)}}
    for part in ("train", "test"):
        features = {column: _unpacked(f"{part}_{number}", arrays) for number, column in enumerate(columns)}
        parts[f"X_{part}"] = pd.DataFrame(features, columns=columns)
        priced = f"{part}_fp" in arrays
        parts[f"{part}_prices"] = Prices(*(arrays[f"{part}_{k}"] for k in Prices._fields)) if priced else None
    return Problem(y_train=arrays["y_train"], **parts, **about)


def _unpacked(name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    values = arrays[name]
    if values.dtype.kind != "U":
        return values
    text = values.astype(object)
    text[arrays[f"{name}_missing"]] = None
    return pd.Series(text, dtype=object)


def write_answer(answer: Answer, path: Path) -> None:
    """Write an answer: ``probabilities``, or decisions by the name of the costs."""
    if isinstance(answer, dict):
        np.savez(path, **{f"decisions {name}": decisions for name, decisions in answer.items()})
    else:
        np.savez(path, probabilities=answer)


def read_answer(path: Path) -> Answer:
    """Read what :func:`write_answer` wrote."""
    with np.load(path, allow_pickle=False) as file:
        if "probabilities" in file.files:
            return np.asarray(file["probabilities"])
        return {name.removeprefix("decisions "): file[name] for name in file.files}
