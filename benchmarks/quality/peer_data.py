"""Tables, splits, costs and result files of the ensemble benchmark, for Pythons with and without adacsl.

Peers live in environments of their own, so this module needs numpy, pandas and scikit-learn only (joblib and
threadpoolctl come with the last). Every result carries a digest of the rows it was measured on: results compare only
where these agree.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import functools
import hashlib
import importlib
import importlib.metadata
import itertools
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks import harness
from benchmarks.image_data import data_folder

LEFT_OUT = {
    "marketing_campaign": ["ID", "Z_CostContact", "Z_Revenue"],
    "churn_tv_subscriptions": ["id", "C_FP", "C_FN", "C_TP", "C_TN"],
    "bank_marketing": ["duration"],  # known only after the call
    "ann_thyroid": ["class3", "original_split"],
    "adult": ["original_split"],
}
TABLES = (
    "german_credit", "marketing_campaign", "telco_churn", "ann_thyroid", "churn_tv_subscriptions", "bank_marketing",
    "adult", "give_me_some_credit", "creditcard_fraud",
)  # fmt: skip
# here, not in LEFT_OUT: figures published earlier were made with them
IDENTIFIERS = {"telco_churn": ["customerID"], "give_me_some_credit": ["id"]}
ROWS = {"creditcard_fraud": 50_000}  # 10,000 would hold 17 frauds, 50,000 hold 86
COLUMNS = ("table", "k", "split", "method", "normalized_cost", "cost", "fit_seconds", "digest", "error")
FIRST_STATE = 10_000
MOST_LEVELS = 254  # of scikit-learn's histogram boosting


class Table(NamedTuple):
    """Features and 0/1 labels."""

    features: pd.DataFrame
    labels: NDArray[np.int64]


def load_table(name: str, folder: Path, max_rows: int) -> Table:
    """Read a table without the columns that give the answer away; a large one is cut, stratified."""
    if name == "creditcard_fraud":
        with np.load(folder / "creditcard_fraud.npz") as file:
            frame = pd.DataFrame(file["V"] * float(file["scale"])).add_prefix("V")
            frame["amount"], frame["time"] = file["amount_cents"] / 100.0, file["time"]
            labels = file["target"].astype(np.int64)
    else:
        frame = pd.read_csv(folder / f"{name}.csv.gz")
        labels = frame.pop("target").to_numpy(np.int64)
        frame = frame.drop(columns=LEFT_OUT.get(name, []))
    frame.columns = [str(column) for column in frame.columns]
    if len(frame) > max_rows:
        kept = cut(labels, max_rows)
        frame, labels = frame.iloc[kept].reset_index(drop=True), labels[kept]
    return Table(frame, labels)


def cut(labels: NDArray[Any], max_rows: int) -> NDArray[np.int64]:
    """Return which rows to take of a table: all, or so many, stratified, the same each time."""
    if len(labels) <= max_rows:
        return np.arange(len(labels))
    return np.asarray(train_test_split(np.arange(len(labels)), train_size=max_rows, stratify=labels, random_state=0)[0])


class Costs(NamedTuple):
    """What a false alarm and a miss cost, as plain numbers."""

    fp: float
    fn: float

    @property
    def threshold(self) -> float:
        """The probability above which positive is cheaper."""
        return self.fp / (self.fp + self.fn)

    def decide(self, probabilities: NDArray[Any]) -> NDArray[np.int64]:
        """Return 1 where the probability is above the Bayes threshold."""
        return (np.asarray(probabilities, float) > self.threshold).astype(np.int64)

    def mean(self, y: NDArray[Any], decisions: NDArray[Any]) -> float:
        """Return what decisions cost, per row."""
        y, decisions = np.asarray(y), np.asarray(decisions)
        return float(np.mean(self.fp * ((y == 0) & (decisions == 1)) + self.fn * ((y == 1) & (decisions == 0))))

    def normalized(self, y: NDArray[Any], decisions: NDArray[Any]) -> float:
        """Return the mean cost relative to the cheaper constant decision on the same rows."""
        return self.mean(y, decisions) / min(self.mean(y, np.zeros_like(y)), self.mean(y, np.ones_like(y)))


class Cell(NamedTuple):
    """One split of one table."""

    name: str
    split: int
    X_train: pd.DataFrame
    y_train: NDArray[np.int64]
    X_test: pd.DataFrame
    y_test: NDArray[np.int64]
    digest: str

    def costs(self, k: float) -> Costs:
        """Return inverse priors of the training labels, misses ``k`` times dearer."""
        n, positives = len(self.y_train), int(self.y_train.sum())
        return Costs(n / (n - positives), k * n / positives)


Decide = Callable[[Costs], NDArray[Any]]
"""Costs to decisions on the test rows."""


class Method(NamedTuple):
    """How to fit; ``costs`` is None where the fit does not depend on them, so that it serves every k.

    ``modules`` are imported before the clock starts, and their versions are noted.
    """

    fit: Callable[[Cell, Costs | None, argparse.Namespace], Decide]
    per_k: bool = True
    modules: tuple[str, ...] = ()


def load_cell(name: str, split: int, max_rows: int | None = None) -> Cell:
    """Cut a table and split it; 25 % test, stratified."""
    table = load_table(name, data_folder(), max_rows or ROWS.get(name, 10_000))
    X, y = tidy(table.features.drop(columns=IDENTIFIERS.get(name, []), errors="ignore")), table.labels
    # states of their own: with the plain seeds 100 to 102 (70/30 splits of these tables) the default net was chosen
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=FIRST_STATE + split)
    parts = [part.reset_index(drop=True) for part in (X.iloc[train], X.iloc[test])]
    return Cell(name, split, parts[0], y[train], parts[1], y[test], digest_of(X, y, train, test))


def tidy(X: pd.DataFrame) -> pd.DataFrame:
    """Turn text that is all numbers into numbers and ISO dates into days, which nobody would leave as levels."""
    X = X.copy()
    for column in X.columns:
        if pd.api.types.is_numeric_dtype(X[column]):
            X[column] = X[column].astype(np.float64)
            continue
        text = X[column].astype(object).where(X[column].notna(), "").astype(str).str.strip()
        given = text != ""
        numbers = pd.to_numeric(text.where(given), errors="coerce")
        if numbers[given].notna().all():
            X[column] = numbers.astype(np.float64)
        elif text[given].str.fullmatch(r"\d{4}-\d\d-\d\d").all():
            dates = pd.to_datetime(text.where(given), format="%Y-%m-%d")
            X[column] = (dates - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)
        else:
            X[column] = text.where(given, None).astype(object)
    return X


def digest_of(X: pd.DataFrame, y: NDArray[Any], train: NDArray[Any], test: NDArray[Any]) -> str:
    """Return a digest of contents and split that no version of pandas changes."""
    result = hashlib.sha256()
    for rows in (y, train, test):
        result.update(np.ascontiguousarray(rows, dtype="<i8").tobytes())
    for column in X.columns:
        result.update(column.encode())
        if X[column].dtype == np.float64:
            result.update(np.ascontiguousarray(X[column].to_numpy(), dtype="<f8").tobytes())
        else:
            result.update("\x1f".join("" if value is None else str(value) for value in X[column]).encode())
    return result.hexdigest()[:16]


# running


def arguments(description: str | None, methods: Iterable[str], word: str) -> argparse.ArgumentParser:
    """Return a parser with the options both sides have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{word}", dest="methods", nargs="+", choices=list(methods))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--k", type=float, nargs="+", default=[1, 3, 5])
    parser.add_argument("--splits", type=int, nargs="+", default=[100, 101, 102, 103, 104])
    parser.add_argument("--max-rows", type=int, help="default: 10,000 (card fraud 50,000), stratified")
    parser.add_argument("--n-jobs", type=int, default=1, help="splits at a time")
    parser.add_argument("--threads", type=int, default=1, help="threads of each fit")
    parser.add_argument("--retry", action="store_true", help="run failed rows again")
    parser.add_argument("--out", type=Path, help="CSV file; rows it has are skipped")
    return parser


def run(methods: dict[str, Method], options: argparse.Namespace, *, note: str = "") -> None:
    """Run what the CSV file does not have yet; every finished row is written at once."""
    if options.out is not None:
        _start_file(options.out, options)
        modules = {module for name in options.methods for module in methods[name].modules}
        _write_meta(options.out, options, sorted(modules), note)
    cells = [(name, split) for name in options.tables for split in options.splits]
    jobs = (joblib.delayed(_run_cell)(methods, *cell, options) for cell in cells)
    joblib.Parallel(options.n_jobs)(jobs)


def _run_cell(methods: dict[str, Method], name: str, split: int, options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    done = _done(options.out)
    missing = {
        method: [k for k in options.k if (name, float(k), split, method) not in done] for method in options.methods
    }
    if not any(missing.values()):
        return
    cell = load_cell(name, split, options.max_rows)
    for method, ks in missing.items():
        about = methods[method]
        for part in [[k] for k in ks] if about.per_k else [ks] if ks else []:
            with threadpool_limits(options.threads):
                _write(options.out, _rows(about, method, cell, part, options))


def _rows(
    about: Method, name: str, cell: Cell, ks: list[float], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Fit once, decide for each k; what fails is a row that says why."""
    keys = {"table": cell.name, "split": cell.split, "method": name, "digest": cell.digest}
    try:
        for module in about.modules:
            importlib.import_module(module)
        start = time.perf_counter()
        decide = about.fit(cell, cell.costs(ks[0]) if about.per_k else None, options)
        seconds = time.perf_counter() - start
        result = {k: np.asarray(decide(cell.costs(k))).reshape(-1).astype(np.int64) for k in ks}
    except Exception as error:  # a peer may fail in any way it likes
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        yield from (keys | {"k": float(k), "error": reason} for k in ks)
        return
    for k, decisions in result.items():
        costs = cell.costs(k)
        yield keys | {
            "k": float(k),
            "normalized_cost": round(costs.normalized(cell.y_test, decisions), 6),
            "cost": round(costs.mean(cell.y_test, decisions), 6),
            "fit_seconds": round(seconds, 2),
            "error": "",
        }


# files


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return [row | {"k": float(row["k"]), "split": int(row["split"])} for row in csv.DictReader(file)]


def _start_file(path: Path, options: argparse.Namespace) -> None:
    """Make the file if need be; with --retry, failed rows that are to be run again leave it."""
    old = read(path) if path.exists() else []
    chosen = set(itertools.product(options.tables, map(float, options.k), options.splits, options.methods))
    kept = [row for row in old if not (options.retry and row["error"] and _key(row) in chosen)]
    if old and len(kept) == len(old):
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(kept)


def _done(path: Path | None) -> set[tuple[str, float, int, str]]:
    return {_key(row) for row in (read(path) if path else [])}


def _key(row: dict[str, Any]) -> tuple[str, float, int, str]:
    return row["table"], row["k"], row["split"], row["method"]


def _write(path: Path | None, rows: Iterable[dict[str, Any]]) -> None:
    """Add rows in one write, so that several processes may share a file."""
    rows = list(rows)
    for row in rows:
        shown = row["error"] or f"{row['normalized_cost']:.4f} {row['fit_seconds']:7.1f} s"
        print(f"{row['table']:24} {row['k']:g} {row['split']} {row['method']:18} {shown}", flush=True)
    if path is not None:
        with path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, restval="").writerows(rows)


def _write_meta(path: Path, options: argparse.Namespace, modules: list[str], note: str) -> None:
    """Note who was run, with which versions, how; runs of other environments into the same file stay noted."""
    meta = path.with_suffix(".meta.json")
    about = json.loads(meta.read_text()) if meta.exists() else {"runs": {}}
    about["runs"][", ".join(options.methods)] = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "device": harness.metadata()["device"],
        "threads": options.threads,
        "load_at_start": harness.LOAD_AT_START,
        "versions": versions_of(modules),
        **({"note": note} if note else {}),
    }
    meta.write_text(json.dumps(about, indent=2) + "\n")


def versions_of(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python, of what all need, and of the packages these modules come from."""
    versions = {"python": platform.python_version()}
    for module in ("numpy", "pandas", "sklearn", *modules):
        # xgboost may come as xgboost-cpu, and parts of AutoGluon are distributions of their own
        for package in _distributions().get(module.split(".")[0], []):
            versions[package] = importlib.metadata.version(package)
    return versions


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()
