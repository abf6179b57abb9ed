"""Tables and digests of the benchmarks, for Pythons with and without adacsl.

Peers live in environments of their own, so this module needs numpy, pandas and scikit-learn only. Every result carries
a digest of the rows it was measured on: results compare only where these agree.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

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
