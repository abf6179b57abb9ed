"""Record what the package computes, and compare two records exactly: what a move of code must not change.

``python scripts/golden_master.py record OUT`` fits methods, decisions, ensembles, a comparison and commands on small
seeded tables, and writes their float64 scores, decisions, thresholds, cost estimates, recommendation and JSON answers
to the folder OUT. ``python scripts/golden_master.py compare A B`` lists every value that differs, with the largest
difference, and exits with 1 if there is one. Both records must come from the same machine and the same versions of the
libraries; to record another commit, run that commit's package: ``PYTHONPATH=OTHER/src python scripts/golden_master.py
record OUT``. Only public names are used, so that the script runs on either side of a move.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import adacsl
from adacsl import CostMatrix

VOLATILE = re.compile(r"second|time|date|folder|path|file|commit|version|report|model|device|started|finished|memory")
"""Keys of JSON answers that differ from run to run."""

NEURAL = ("adacsl.neural:NeuralLearner", "adacsl.neural.learner:Net", "adacsl.estimators.learners.net:Net")
"""Where the neural learner lives, newest first."""

Case = Callable[[], dict[str, Any]]
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    """Register a case under a name."""

    def register(function: Case) -> Case:
        CASES[name] = function
        return function

    return register


def table(n: int = 360, seed: int = 1) -> tuple[pd.DataFrame, np.ndarray]:
    """Return numbers with missing values, a category, a date, and labels that depend on all of them."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n), rng.exponential(size=n)
    shop = rng.choice(["web", "city", "mail"], n, p=[0.6, 0.3, 0.1])
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, n), unit="D")
    z = 1.5 * a - b + 1.2 * (shop == "mail") - 0.8
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(int)
    frame = pd.DataFrame({"a": np.where(rng.random(n) < 0.1, np.nan, a), "b": b, "shop": shop, "day": day})
    return frame.assign(amount=np.round(10 + 90 * rng.random(n), 2)), y


X, Y = table()
NEW, NEW_Y = table(90, seed=2)
COSTS = CostMatrix(fp=1, fn=6)


def state_of(model: Any, rows: Any = NEW, **known: Any) -> dict[str, Any]:
    """Return what a fitted classifier gives: scores, decisions, its decision rule and its estimate."""
    result = {
        "proba": np.asarray(model.predict_proba(rows), dtype=np.float64),
        "predict": np.asarray(model.predict(rows, **known)),
    }
    for name in ("threshold_", "estimated_cost_", "target_", "target_threshold_", "best_epoch_"):
        with contextlib.suppress(AttributeError, ValueError):
            value = getattr(model, name)
            result[name] = np.asarray(value if np.ndim(value) == 0 else list(value), dtype=np.float64)
    return result


def public(name: str) -> Any:
    """Return a public function, from the top level or from its package."""
    for place in ("adacsl", "adacsl.thresholds", "adacsl.decision", "adacsl.metrics"):
        module = importlib.import_module(place)
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(name)


def neural(**settings: Any) -> Any:
    """Return the neural learner, wherever it lives."""
    for place in NEURAL:
        module, name = place.split(":")
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(module), name)(**settings)
    raise ImportError(f"none of {', '.join(NEURAL)} is there")


def small(name: str) -> dict[str, Any]:
    """Return settings that keep neural networks small."""
    tree_based = ("gbm", "xgboost", "lightgbm", "catboost", "logistic", "always", "metacost", "ensemble", "portfolio")
    return {} if name.startswith(tree_based) else {"learner": neural(epochs=4), "device": "cpu"}


def by_name(name: str) -> Case:
    """Return the case of one method of the registry."""
    return lambda: state_of(adacsl.method(name, COSTS, random_state=0, **small(name)).fit(X, Y))


for each in adacsl.METHODS:
    if each not in {"portfolio", "ensemble"} and not each.endswith(("-rows", "-instance")):
        CASES[f"method {each}"] = by_name(each)


@case("thresholds")
def thresholds() -> dict[str, Any]:
    """Exact search, curve, multipliers, streaming, intervals, priors."""
    rng = np.random.default_rng(0)
    scores, labels = np.round(rng.random(500), 3), (rng.random(500) < 0.3).astype(int)
    best = adacsl.find_threshold(scores, labels, COSTS)
    curve = adacsl.cost_curve(scores, labels, COSTS)
    many = rng.dirichlet(np.ones(3), 300)
    actual = rng.integers(0, 3, 300)
    costs = CostMatrix.from_array([[0, 2, 9], [1, 0, 4], [3, 1, 0]], rows="predicted")
    result = public("find_multipliers")(many, actual, costs)
    histogram = adacsl.CostHistogram()
    for part in range(5):
        histogram.update(scores[part::5], labels[part::5])
    return {
        "threshold": np.asarray([best.value, best.total_cost]),
        "curve": [
            np.asarray(part, dtype=np.float64)
            for part in (curve.thresholds, curve.total_costs, curve.false_negatives, curve.false_positives)
        ],
        "multipliers": np.asarray(result.values, dtype=np.float64),
        "histogram": histogram.edges(COSTS)[:5],
        "interval": np.asarray(adacsl.cost_interval(COSTS, labels, scores > best.value)[:3], dtype=np.float64),
        "shifted": np.asarray(public("shift_prior")(scores, 0.3, 0.1)),
        "brier": np.asarray(public("brier_curve")(scores, labels).y),
        "calibration": public("calibration_error")(scores, labels).error,
    }


@case("controller")
def controller() -> dict[str, Any]:
    """Twelve steps of the controller on drifting scores."""
    rng = np.random.default_rng(3)
    labels = (rng.random(400) < 0.2).astype(int)
    made = getattr(adacsl, "AdaCSLController", None) or adacsl.AdaptiveWeight
    loop = made(COSTS)
    weights = []
    for step in range(12):
        z = 1.5 * labels - 1 + rng.normal(size=400) - 0.1 * step
        weights.append(loop.step(1 / (1 + np.exp(-z)), labels).weight)
    return {"weights": np.asarray(weights, dtype=np.float64)}


@case("three classes")
def three_classes() -> dict[str, Any]:
    """Methods of K classes."""
    wine = load_wine()
    costs = CostMatrix.from_array([[0, 2, 9], [1, 0, 4], [3, 1, 0]], rows="predicted")
    rows = pd.DataFrame(wine.data, columns=[f"x{i}" for i in range(13)])
    result: dict[str, Any] = {}
    for name in ("logistic", "gbm-bayes", "xgboost"):
        model = adacsl.method(name, costs, random_state=0).fit(rows[::2], wine.target[::2])
        result[name] = state_of(model, rows[1::2])
    for name in ("adacsl", "ce-tuned", "net-tuned"):
        if name in adacsl.METHODS:
            model = adacsl.method(name, costs, random_state=0, **small(name)).fit(rows[::2], wine.target[::2])
            result[name.replace("ce-", "net-")] = state_of(model, rows[1::2])
    return result


@case("per-sample costs")
def instance_costs() -> dict[str, Any]:
    """Costs of each sample, from a column and as an array."""
    column = CostMatrix(fp=1, fn="0.1 * amount")
    result = {}
    for name in ("logistic", "gbm-bayes"):
        result[name] = state_of(adacsl.method(name, column, random_state=0).fit(X, Y))
    for name in ("gbm-rows", "adacsl-rows", "gbm-instance", "adacsl-instance"):
        if name in adacsl.METHODS:
            model = adacsl.method(name, column, random_state=0, **small(name)).fit(X, Y)
            result[name.replace("-rows", "-instance")] = state_of(model)
    given = adacsl.method("logistic", CostMatrix(fp=1, fn=5), random_state=0)
    given.fit(X.drop(columns="amount"), Y, fn=0.1 * X["amount"].to_numpy())
    rows = NEW.drop(columns="amount")
    result["array"] = state_of(given, rows, fn=0.1 * NEW["amount"].to_numpy())
    return result


@case("scikit-learn learners")
def learners() -> dict[str, Any]:
    """Estimators of scikit-learn as learners, adapted and not."""
    numbers, new = X[["b", "amount"]], NEW[["b", "amount"]]
    result = {}
    kind = getattr(adacsl, "CostSensitiveClassifier", None) or adacsl.Method
    for name, estimator in {
        "linear": LogisticRegression(),
        "forest": RandomForestClassifier(30, random_state=0),
    }.items():
        for decide in ("bayes", "tuned", "calibrated"):
            model = kind(COSTS, learner=estimator, decide=decide, random_state=0).fit(numbers, Y)
            result[f"{name} {decide}"] = state_of(model, new)
    return result


@case("policy")
def policy() -> dict[str, Any]:
    """Reject option, capacity, another prior."""
    result = {}
    for settings in ({"refer": 0.4}, {"capacity": 9}, {"refer": 0.4, "capacity": 9}, {"prior": 0.1}):
        model = adacsl.method("logistic", COSTS, random_state=0, policy=adacsl.Policy(**settings)).fit(X, Y)
        decided = model.decisions(NEW)
        result[str(settings)] = {
            name: np.asarray(getattr(decided, name)) for name in ("labels", "probabilities", "expected")
        }
    return result


@case("time")
def by_time() -> dict[str, Any]:
    """Fit with splits in the order of time."""
    result = {}
    for name in ("logistic", "gbm-bayes", "adacsl"):
        made = adacsl.method(name, COSTS, random_state=0, **small(name))
        result[name] = state_of(made.fit(X, Y, time=X["day"]))
    return result


@case("ensemble")
def ensemble() -> dict[str, Any]:
    """Stack three base estimators."""
    if hasattr(adacsl, "EnsembleClassifier"):
        made = adacsl.EnsembleClassifier(
            COSTS, estimators=["logistic", "lightgbm", "gbm-bayes"], random_state=0, n_jobs=1
        )
    else:
        made = adacsl.PortfolioClassifier(
            COSTS, members=["logistic", "lightgbm", "gbm-bayes"], random_state=0, n_jobs=1
        )
    return state_of(made.fit(X, Y))


@case("predicted costs")
def predicted_costs() -> dict[str, Any]:
    """Predict a cost that is unknown at prediction time."""
    costs = CostMatrix(fp=1, fn=adacsl.CostModel("amount"))
    return state_of(adacsl.method("logistic", costs, random_state=0).fit(X, Y))


@case("saved")
def saved() -> dict[str, Any]:
    """Models that are saved and loaded."""
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("logistic", "xgboost", "lightgbm", "gbm-bayes", "adacsl", "metacost"):
            adacsl.method(name, COSTS, random_state=0, **small(name)).fit(X, Y).save(Path(folder) / name)
            result[name] = state_of(adacsl.load(Path(folder) / name))
    return result


@case("monitor")
def monitoring() -> dict[str, Any]:
    """Monitor later samples."""
    model = adacsl.method("logistic", COSTS, random_state=0).fit(X, Y)
    report = adacsl.monitor(model, NEW, NEW_Y)
    return {"document": without_volatile(json.loads(json.dumps(report.to_dict(), default=str)))}


@case("comparison")
def comparison() -> dict[str, Any]:
    """Four methods, three folds: the table and the recommendation."""
    with contextlib.redirect_stderr(io.StringIO()):
        result = adacsl.compare(
            X, Y, COSTS, methods=["always-positive", "logistic", "gbm-bayes", "lightgbm"], repeats=1, folds=3
        )
    recommendation = getattr(result, "recommendation", None) or result.verdict
    frame = result.table() if callable(result.table) else result.table
    numbers = frame.select_dtypes("number")
    return {
        "numbers": {str(c): numbers[c].to_numpy(np.float64) for c in numbers.columns if not VOLATILE.search(str(c))},
        "recommended": str(recommendation).splitlines()[0],
    }


def without_volatile(value: Any) -> Any:
    """Return a JSON value without what differs from run to run."""
    if isinstance(value, dict):
        return {k: without_volatile(v) for k, v in value.items() if not VOLATILE.search(k)}
    return [without_volatile(v) for v in value] if isinstance(value, list) else value


@case("command line")
def command_line() -> dict[str, Any]:
    """JSON answers of the commands."""
    result: dict[str, Any] = {}
    place = ["--fn", "6", "--fp", "1"]
    with tempfile.TemporaryDirectory() as folder:
        X.assign(y=Y).to_csv(f"{folder}/train.csv", index=False)
        NEW.assign(y=NEW_Y, score=0.5).to_csv(f"{folder}/new.csv", index=False)
        label = ["--target", "y", "--pos-label" if "pos_label" in str(adacsl.check.__doc__) else "--positive", "1"]
        commands = {
            "train": ["train", "train.csv", *label, *place, "--method", "logistic", "--out", "model"],
            "evaluate": ["evaluate", "model", "new.csv"],
            "predict": ["predict", "model", "new.csv", "--out", "predicted.csv"],
            "threshold": ["threshold", "new.csv", *label, *place, "--score", "b"],
            "check": ["check", "train.csv", *label],
        }
        for name, words in commands.items():
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-m", "adacsl.cli", *words, "--json"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            result[name] = {"code": done.returncode}
            with contextlib.suppress(json.JSONDecodeError):
                result[name]["answer"] = without_volatile(json.loads(done.stdout))
        with contextlib.suppress(FileNotFoundError):
            result["predicted.csv"] = Path(folder, "predicted.csv").read_text()
    return result


def flat(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield arrays and plain values with their places."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{where}/{key}")
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from flat(inner, f"{where}[{i}]")
    else:
        yield where, value


def record(out: Path, only: str) -> int:
    """Run every case and write its values; a case that fails is recorded as its error."""
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, function in CASES.items():
        if only and only not in name:
            continue
        try:
            values = dict(flat(function(), name))
        except Exception as error:
            values = {f"{name}/error": f"{type(error).__name__}: {error}"}
        document = {k: v.tolist() if isinstance(v, np.ndarray | np.generic) else v for k, v in values.items()}
        text = json.dumps(document, indent=0, default=str)  # repr of a float64 gives all of its digits
        (out / f"{name.replace(' ', '-')}.json").write_text(text)
        failed = next((v for k, v in document.items() if k.endswith("/error")), None)
        sys.stderr.write(f"{name}: {failed or f'{len(document)} values'}\n")
    return 0


def difference(a: Any, b: Any) -> str | None:
    """Return how two values differ, or None."""
    if a == b:
        return None
    with contextlib.suppress(ValueError, TypeError):
        x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
        if x.shape == y.shape:
            gap = np.nanmax(np.abs(x - y), initial=0.0)
            return None if np.array_equal(x, y, equal_nan=True) else f"largest difference {gap:.3g}"
    return f"{str(a)[:120]!r} against {str(b)[:120]!r}"


NEWER = (
    (r"^(method[ -])wce", r"\1net-weighted"),
    (r"^(method[ -])ce(?![a-z])", r"\1net"),
    (r"^(method[ -])(smote|focal)(?=[/.]|$)", r"\1net-\2"),
    (r"/target_$", "/target_threshold_"),
    (r"/positive$", "/pos_label"),
    (r"/verdict$", "/recommendation"),
)
"""What names were called in older records, and what they are called."""


def newer(name: str) -> str:
    """Return the newest name of a case or value."""
    for old, new in NEWER:
        name = re.sub(old, new, name)
    return name


def read_record(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the values of every case."""
    return {
        newer(path.name): {newer(key): value for key, value in json.loads(path.read_text()).items()}
        for path in folder.glob("*.json")
    }


def compare(one: Path, other: Path) -> int:
    """Print what differs between two records."""
    records = [read_record(folder) for folder in (one, other)]
    names = sorted({*records[0], *records[1]})
    result, values = 0, 0
    for name in names:
        pair = [record.get(name, {}) for record in records]
        for key in sorted({*pair[0], *pair[1]}):
            values += 1
            if key not in pair[0] or key not in pair[1]:
                reason: str | None = f"only in {one if key in pair[0] else other}"
            else:
                reason = difference(pair[0][key], pair[1][key])
            if reason:
                result += 1
                sys.stdout.write(f"{key}: {reason}\n")
    sys.stdout.write(f"{values} values in {len(names)} cases compared, {result} differ\n")
    return int(bool(result))


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("--only", default="", help="cases whose name contains this")
    comparing = commands.add_parser("compare")
    comparing.add_argument("one", type=Path)
    comparing.add_argument("other", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.command == "record":
        return record(options.out, options.only)
    return compare(options.one, options.other)


if __name__ == "__main__":
    sys.exit(main())
