"""Test costs of the best peers on nine tables, k = 1, 3, 5, five splits: the other half of ensemble.py.

Costs are inverse priors of the training labels with misses k times dearer. Every peer gets what its users would give
it: native categories, early stopping or cross-validated settings, the Bayes threshold of the known costs. empulse and
AutoGluon have environments of their own; this script runs there too, without adacsl, and adds to the same file:

    python -m benchmarks.quality.ensemble_peers --out peers.csv  # scikit-learn and the boosters
    EMPULSE_VENV/bin/python -m benchmarks.quality.ensemble_peers --out peers.csv  # finds empulse, runs its peers
    AUTOGLUON_VENV/bin/python -m benchmarks.quality.ensemble_peers --out peers.csv --seconds 60 --threads 2

AutoGluon's time limit is wall-clock time: run it on a machine that has nothing else to do. ``autogluon`` is its default
models, bagged in five folds, ``autogluon-best`` its preset best_quality. Seconds are those of fit and test predictions.
Rows the file has are skipped; a peer that fails is a row with the reason (--retry runs it again).
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, TunedThresholdClassifierCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.quality.peer_data import Cell, Costs, Decide, Method, arguments, run

ROUNDS, LR, PATIENCE, HELD_OUT = 1000, 0.05, 50, 0.2
MOST_LEVELS = 254  # of scikit-learn's histogram boosting

Options = argparse.Namespace


# features


def with_categories(cell: Cell) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Declare text as categories, with the training levels; others, and the rarest of very many, are missing."""
    train, test = cell.X_train.copy(), cell.X_test.copy()
    for column in text_columns(train):
        kept = train[column].value_counts().index[:MOST_LEVELS].astype(str).sort_values()
        kind = pd.CategoricalDtype(list(kept))
        train[column], test[column] = train[column].astype(kind), test[column].astype(kind)
    return train, test


def text_columns(X: pd.DataFrame) -> list[str]:
    return [column for column in X.columns if X[column].dtype == object]


def numeric(X: pd.DataFrame) -> ColumnTransformer:
    """Return an encoder to standardised numbers (gaps: median and a sign) and one-hot levels."""
    text = text_columns(X)
    numbers = [column for column in X.columns if column not in text]
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    levels = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing", missing_values=None),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return ColumnTransformer([("numbers", scaled, numbers), ("levels", levels, text)])


def held_out(cell: Cell) -> list[NDArray[Any]]:
    rows = np.arange(len(cell.y_train))
    return train_test_split(rows, test_size=HELD_OUT, stratify=cell.y_train, random_state=cell.split)


def bayes(probabilities: NDArray[Any]) -> Decide:
    """Decide by probabilities of the test rows that do not depend on the costs."""
    return lambda costs: costs.decide(probabilities)


def saving(costs: Costs) -> Any:
    """Return a scorer: the mean cost of decisions, negative."""
    return make_scorer(lambda y, decisions: -costs.mean(y, decisions))


def folds(cell: Cell) -> StratifiedKFold:
    return StratifiedKFold(5, shuffle=True, random_state=cell.split)


# scikit-learn


def histogram_boosting(seed: int, **more: Any) -> HistGradientBoostingClassifier:
    # patience (10 rounds) as it comes: rounds after the best one stay in the model, so that more of it costs more
    return HistGradientBoostingClassifier(
        learning_rate=LR, max_iter=ROUNDS, early_stopping=True, random_state=seed, **more
    )


def hgb_bayes(cell: Cell, _: Costs | None, options: Options) -> Decide:
    train, test = with_categories(cell)
    return bayes(histogram_boosting(cell.split).fit(train, cell.y_train).predict_proba(test)[:, 1])


def hgb_isotonic(cell: Cell, _: Costs | None, options: Options) -> Decide:
    train, test = with_categories(cell)
    clf = CalibratedClassifierCV(histogram_boosting(cell.split), method="isotonic", cv=folds(cell))
    return bayes(clf.fit(train, cell.y_train).predict_proba(test)[:, 1])


def hgb_tuned(cell: Cell, costs: Costs | None, options: Options) -> Decide:
    assert costs is not None
    train, test = with_categories(cell)
    clf = TunedThresholdClassifierCV(
        histogram_boosting(cell.split), scoring=saving(costs), cv=folds(cell), thresholds=1000, random_state=cell.split
    )
    decisions = clf.fit(train, cell.y_train).predict(test)
    return lambda _: decisions


def weighted_logistic(cell: Cell, costs: Costs | None, options: Options) -> Decide:
    assert costs is not None
    weights = {0: costs.fp, 1: costs.fn}

    def score(model: Any, X: Any, y: NDArray[Any]) -> float:
        # judged by what it is trained for; the mean cost of so few errors would choose by chance
        return -log_loss(y, model.predict_proba(X)[:, 1], sample_weight=np.where(y == 1, costs.fn, costs.fp))

    encoder = numeric(cell.X_train)
    X = encoder.fit_transform(cell.X_train)
    clf = LogisticRegression(class_weight=weights, max_iter=3000)
    search = GridSearchCV(clf, {"C": [0.001, 0.01, 0.1, 1.0]}, scoring=score, cv=folds(cell)).fit(X, cell.y_train)
    decisions = search.predict(encoder.transform(cell.X_test))
    return lambda _: decisions


# boosters


def lightgbm(cell: Cell, _: Costs | None, options: Options) -> Decide:
    from lightgbm import LGBMClassifier, early_stopping  # noqa: PLC0415

    train, test = with_categories(cell)
    fit, held = held_out(cell)
    clf = LGBMClassifier(
        n_estimators=ROUNDS, learning_rate=LR, n_jobs=options.threads, random_state=cell.split, verbose=-1
    )
    clf.fit(
        train.iloc[fit], cell.y_train[fit], eval_set=[(train.iloc[held], cell.y_train[held])],
        eval_metric="binary_logloss", callbacks=[early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip
    return bayes(clf.predict_proba(test)[:, 1])


def xgboost(cell: Cell, _: Costs | None, options: Options) -> Decide:
    from xgboost import XGBClassifier  # noqa: PLC0415

    train, test = with_categories(cell)
    fit, held = held_out(cell)
    clf = XGBClassifier(
        n_estimators=ROUNDS, learning_rate=LR, early_stopping_rounds=PATIENCE, eval_metric="logloss",
        enable_categorical=True, n_jobs=options.threads, random_state=cell.split,
    )  # fmt: skip
    clf.fit(train.iloc[fit], cell.y_train[fit], eval_set=[(train.iloc[held], cell.y_train[held])], verbose=False)
    return bayes(clf.predict_proba(test)[:, 1])


def catboost(cell: Cell, _: Costs | None, options: Options) -> Decide:
    from catboost import CatBoostClassifier  # noqa: PLC0415

    text = text_columns(cell.X_train)
    train, test = (X.fillna(dict.fromkeys(text, "missing")) for X in (cell.X_train, cell.X_test))
    fit, held = held_out(cell)
    clf = CatBoostClassifier(
        iterations=ROUNDS, learning_rate=LR, early_stopping_rounds=PATIENCE, eval_metric="Logloss", cat_features=text,
        thread_count=options.threads, random_seed=cell.split, verbose=False, allow_writing_files=False,
    )  # fmt: skip
    clf.fit(train.iloc[fit], cell.y_train[fit], eval_set=(train.iloc[held], cell.y_train[held]))
    return bayes(clf.predict_proba(test)[:, 1])


# empulse


def empulse_threshold(cell: Cell, _: Costs | None, options: Options) -> Decide:
    from empulse.models import CSThresholdClassifier  # noqa: PLC0415

    train, test = (codes(X) for X in with_categories(cell))
    # it takes no gaps, whatever its estimator does
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(train)
    train, test = imputer.transform(train), imputer.transform(test)
    levels = cell.X_train.columns.get_indexer(text_columns(cell.X_train))
    booster = histogram_boosting(cell.split, categorical_features=levels)
    # fitted without costs, it takes them when it predicts; calibration (sigmoid, three folds) is its default
    clf = CSThresholdClassifier(booster, random_state=cell.split)
    clf.fit(train, cell.y_train, fp_cost=1.0, fn_cost=1.0)
    return lambda costs: clf.predict(test, fp_cost=costs.fp, fn_cost=costs.fn)


def codes(X: pd.DataFrame) -> NDArray[np.float64]:
    """Return a float matrix, categories as codes; missing ones are negative, as scikit-learn's boosting has it."""
    kinds = {column: isinstance(X[column].dtype, pd.CategoricalDtype) for column in X.columns}
    return np.column_stack([X[c].cat.codes if kinds[c] else X[c] for c in X.columns]).astype(np.float64)


def empulse_boost(cell: Cell, costs: Costs | None, options: Options) -> Decide:
    from empulse.models import CSBoostClassifier  # noqa: PLC0415
    from xgboost import XGBClassifier  # noqa: PLC0415

    assert costs is not None
    encoder = numeric(cell.X_train)
    X = encoder.fit_transform(cell.X_train)
    # its gradients vanish where it is sure, and with them the hessians that XGBoost's default wants in a leaf
    booster = XGBClassifier(learning_rate=LR, min_child_weight=0, n_jobs=options.threads, random_state=cell.split)
    settings = {"estimator__n_estimators": [100, 300], "estimator__max_depth": [3, 6]}
    clf = CSBoostClassifier(booster, fp_cost=costs.fp, fn_cost=costs.fn)
    search = GridSearchCV(clf, settings, scoring=saving(costs), cv=folds(cell)).fit(X, cell.y_train)
    decisions = search.predict(encoder.transform(cell.X_test))
    return lambda _: decisions


def empulse_logit(cell: Cell, costs: Costs | None, options: Options) -> Decide:
    from empulse.models import CSLogitClassifier  # noqa: PLC0415

    assert costs is not None
    encoder = numeric(cell.X_train)
    X = encoder.fit_transform(cell.X_train)
    clf = CSLogitClassifier(fp_cost=costs.fp, fn_cost=costs.fn, n_jobs=options.threads)
    settings = {"C": [0.1, 1.0, 10.0, 100.0], "l1_ratio": [0.0, 1.0]}
    search = GridSearchCV(clf, settings, scoring=saving(costs), cv=folds(cell)).fit(X, cell.y_train)
    decisions = search.predict(encoder.transform(cell.X_test))
    return lambda _: decisions


# AutoGluon


def autogluon(cell: Cell, _: Costs | None, options: Options) -> Decide:
    # of best_quality's hundred models a minute on one core sees two: fewer of them, each sooner, come out cheaper
    return gluon(cell, options, num_bag_folds=5)


def autogluon_best(cell: Cell, _: Costs | None, options: Options) -> Decide:
    return gluon(cell, options, presets="best_quality")


def gluon(cell: Cell, options: Options, **more: Any) -> Decide:
    return bayes(gluon_probabilities(cell, options, **more)[:, 1])


def gluon_probabilities(cell: Cell, options: Options, **more: Any) -> NDArray[Any]:
    """Return AutoGluon's probabilities of the test rows, a column for each class."""
    from autogluon.tabular import TabularPredictor  # noqa: PLC0415

    train = cell.X_train.assign(**{"the label": cell.y_train})
    kind = "binary" if cell.y_train.max() == 1 else "multiclass"
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor("the label", problem_type=kind, eval_metric="log_loss", path=folder, verbosity=0)
        predictor.fit(train, time_limit=options.seconds, num_cpus=options.threads, num_gpus=0, **more)
        result = predictor.predict_proba(cell.X_test)
        return np.asarray(result[sorted(result.columns)])


GLUON = ("autogluon.tabular", "lightgbm", "xgboost", "catboost", "torch", "fastai")
PEERS = {
    "hgb-bayes": Method(hgb_bayes, per_k=False),
    "hgb-isotonic": Method(hgb_isotonic, per_k=False),
    "hgb-tuned": Method(hgb_tuned),
    "lightgbm": Method(lightgbm, per_k=False, modules=("lightgbm",)),
    "xgboost": Method(xgboost, per_k=False, modules=("xgboost",)),
    "catboost": Method(catboost, per_k=False, modules=("catboost",)),
    "weighted-logistic": Method(weighted_logistic),
    "empulse-threshold": Method(empulse_threshold, per_k=False, modules=("empulse.models",)),
    "empulse-boost": Method(empulse_boost, modules=("empulse.models", "xgboost")),
    "empulse-logit": Method(empulse_logit, modules=("empulse.models",)),
    "autogluon": Method(autogluon, per_k=False, modules=GLUON),
    "autogluon-best": Method(autogluon_best, per_k=False, modules=GLUON),
}


def here() -> list[str]:
    """Return the peers this Python is for: those of empulse or AutoGluon where these are installed, or the others."""
    for family in ("empulse", "autogluon"):
        if importlib.util.find_spec(family) is not None:
            return [name for name in PEERS if name.startswith(family)]
    return [name for name in PEERS if not name.startswith(("empulse", "autogluon"))]


def main() -> None:
    parser = arguments(__doc__, PEERS, "peers")
    parser.add_argument("--seconds", type=float, default=60, help="time limit of one AutoGluon fit")
    options = parser.parse_args()
    options.methods = options.methods or here()
    note = ""
    if any(name.startswith("autogluon") for name in options.methods):
        lacking = [p for p in ("torch", "fastai", "ray") if importlib.util.find_spec(p) is None]
        note = f"AutoGluon: {options.seconds:g} s a fit"
        if lacking:
            note += f", without {' and '.join(lacking)}"
    run(PEERS, options, note=note)


if __name__ == "__main__":
    main()
