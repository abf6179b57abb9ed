"""The methods. A method fits a :class:`problem.Problem` and returns a function from test samples to an answer.

To add one, write ``def fit(problem)`` that returns ``predict(X)``, and put a :class:`PeerMethod` into
:data:`PEER_METHODS`, here or in a file of your own that ``run.py --add FILE`` reads. ``predict`` returns probabilities
(samples x classes), which serve all costs at their Bayes thresholds, or a dict with decisions for each of
``problem.costs``. What needs other packages than ours names a virtual environment and is run there; imports belong
inside the function, since this module is read everywhere.
"""

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.quality import peer_data, savings_data, savings_peers
from benchmarks.quality.peers import tuned_boosting
from benchmarks.quality.peers.problem import PER_SAMPLE, Answer, Problem, cheapest_constant, check_answer, paid

TWO, MANY, ROWS = "two classes", "several classes", "per-sample costs"
"""The kinds of tables; see tables.py."""
ALL = (TWO, MANY, ROWS)
Predict = Callable[[pd.DataFrame], Any]
LR, ROUNDS = 0.05, 1000


@dataclass(frozen=True)
class PeerMethod:
    """One method.

    Parameters
    ----------
    fit : callable
        From a problem to a function from test samples to probabilities, or to decisions by the name of the costs.
    about : str
        One line for the page.
    kinds : tuple
        The kinds of tables it can be run on.
    venv : str, optional
        The virtual environment it is run in; None: this Python.
    modules : tuple
        Imported before the clock starts; the versions of their packages are noted.
    ours : bool
        Whether it is adacsl's: the page begins with what these lose.
    longest : float
        About how long a fit takes at most, in time limits: the longest are started first.
    """

    fit: Callable[[Problem], Predict]
    about: str
    kinds: tuple[str, ...] = ALL
    venv: str | None = None
    modules: tuple[str, ...] = ()
    ours: bool = False
    longest: float = 0.2


def attempt(entry: PeerMethod, problem: Problem) -> tuple[Answer | None, dict[str, Any]]:
    """Return a method's answer and the seconds it took; or None, and why."""
    result, error, start = None, "", time.perf_counter()
    cpu, fitted, done = processor_seconds(), start, start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for module in entry.modules:
                importlib.import_module(module)
            start, cpu = time.perf_counter(), processor_seconds()
            with threadpool_limits(problem.threads):
                predict = entry.fit(problem)
                fitted = time.perf_counter()
                given = predict(problem.X_test)
            done = time.perf_counter()
            result = check_answer(given, problem)
        except Exception as failure:  # a method may fail in any way it likes
            error = " ".join(f"{type(failure).__name__}: {failure}".split())[:300]
            done = time.perf_counter()
            fitted = max(fitted, start)
    return result, {
        "fit_seconds": round(fitted - start, 2), "predict_seconds": round(done - fitted, 2),
        "cpu_seconds": round(processor_seconds() - cpu, 2), "error": error,
    }  # fmt: skip


def processor_seconds() -> float:
    """Return what this process has used of the processor, and those that it started and that have ended."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


def versions_of(entry: PeerMethod) -> dict[str, str]:
    return peer_data.versions_of(entry.modules)


# features


def with_categories(problem: Problem) -> tuple[pd.DataFrame, Callable[[pd.DataFrame], pd.DataFrame]]:
    """Return training samples with text as categories, and what gives others the same; rare levels are missing."""
    kinds = {}
    for column in text_columns(problem.X_train):
        kept = problem.X_train[column].value_counts().index[: peer_data.MOST_LEVELS].astype(str).sort_values()
        kinds[column] = pd.CategoricalDtype(list(kept))

    def convert(X: pd.DataFrame) -> pd.DataFrame:
        result = X.copy()
        for column, kind in kinds.items():
            result[column] = X[column].astype(kind)
        return result

    return convert(problem.X_train), convert


def text_columns(X: pd.DataFrame) -> list[str]:
    return [column for column in X.columns if not pd.api.types.is_numeric_dtype(X[column])]


def numeric(X: pd.DataFrame) -> ColumnTransformer:
    """Return an encoder to standardised numbers (missing values: median and an indicator) and one-hot levels."""
    text = text_columns(X)
    numbers = [column for column in X.columns if column not in text]
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    levels = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing", missing_values=None),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return ColumnTransformer([("numbers", scaled, numbers), ("levels", levels, text)])


def folds(problem: Problem) -> StratifiedKFold:
    return StratifiedKFold(5, shuffle=True, random_state=problem.seed)


def scorer(costs: NDArray[np.float64]) -> Any:
    """Return a scorer: the mean cost of decisions, negative."""
    return make_scorer(lambda y, decisions: -float(paid(np.asarray(y), np.asarray(decisions, np.int64), costs).mean()))


def for_each_cost(problem: Problem, fit: Callable[[NDArray[np.float64]], Predict]) -> Predict:
    """Fit once for each of the costs; return a function to the decisions under each."""
    fitted = {name: fit(costs) for name, costs in problem.costs.items()}
    return lambda X: {name: predict(X) for name, predict in fitted.items()}


# scikit-learn


def constant(problem: Problem) -> Predict:
    costs = problem.costs if problem.train_prices is None else {PER_SAMPLE: problem.train_prices}
    said = {name: cheapest_constant(problem.y_train, own, problem.n_classes) for name, own in costs.items()}
    return lambda X: {name: np.full(len(X), one) for name, one in said.items()}


def logistic(problem: Problem) -> Predict:
    model = make_pipeline(
        numeric(problem.X_train),
        GridSearchCV(LogisticRegression(max_iter=3000), {"C": [0.01, 0.1, 1.0, 10.0]}, scoring="neg_log_loss",
                     cv=folds(problem)),
    )  # fmt: skip
    return model.fit(problem.X_train, problem.y_train).predict_proba


def histogram_boosting(seed: int, **more: Any) -> HistGradientBoostingClassifier:
    # patience (10 rounds) as it comes: rounds after the best one stay in the model, so that more of it costs more
    return HistGradientBoostingClassifier(
        learning_rate=LR, max_iter=ROUNDS, early_stopping=True, random_state=seed, **more
    )


def hgb_bayes(problem: Problem) -> Predict:
    train, convert = with_categories(problem)
    model = histogram_boosting(problem.seed).fit(train, problem.y_train)
    return lambda X: model.predict_proba(convert(X))


def hgb_tuned(problem: Problem) -> Predict:
    train, convert = with_categories(problem)
    booster = histogram_boosting(problem.seed)
    settings = {"thresholds": 1000, "cv": folds(problem), "random_state": problem.seed}
    if problem.train_prices is not None:
        return _tuned_per_sample(problem, train, convert, booster, settings)

    def fit(costs: NDArray[np.float64]) -> Predict:
        model = TunedThresholdClassifierCV(booster, scoring=scorer(costs), **settings).fit(train, problem.y_train)
        return lambda X: model.predict(convert(X))

    return for_each_cost(problem, fit)


def _tuned_per_sample(problem: Problem, train: Any, convert: Any, booster: Any, settings: dict[str, Any]) -> Predict:
    from sklearn import config_context  # noqa: PLC0415

    assert problem.train_prices is not None
    prices = problem.train_prices._asdict()
    with config_context(enable_metadata_routing=True):
        saving = make_scorer(lambda y, decisions, **own: -savings_data.Prices(**own).mean(np.asarray(y), decisions))
        model = TunedThresholdClassifierCV(
            booster.set_fit_request(sample_weight=False),
            scoring=saving.set_score_request(**dict.fromkeys(prices, True)), **settings,
        ).fit(train, problem.y_train, **prices)  # fmt: skip
    return lambda X: {PER_SAMPLE: model.predict(convert(X))}


# boosters as they come; tuned ones: tuned_boosting.py


def lightgbm(problem: Problem) -> Predict:
    from lightgbm import LGBMClassifier  # noqa: PLC0415

    train, convert = with_categories(problem)
    model = LGBMClassifier(n_jobs=problem.threads, random_state=problem.seed, verbose=-1).fit(train, problem.y_train)
    return lambda X: model.predict_proba(convert(X))


def catboost(problem: Problem) -> Predict:
    from catboost import CatBoostClassifier  # noqa: PLC0415

    text = text_columns(problem.X_train)
    model = CatBoostClassifier(
        cat_features=text, thread_count=problem.threads, random_seed=problem.seed, verbose=False,
        allow_writing_files=False,
    )  # fmt: skip
    model.fit(problem.X_train.fillna(dict.fromkeys(text, "missing")), problem.y_train)
    return lambda X: model.predict_proba(X.fillna(dict.fromkeys(text, "missing")))


def tuned(library: str) -> Callable[[Problem], Predict]:
    """Return a booster tuned by 20 random draws."""

    def fit(problem: Problem) -> Predict:
        if library == "catboost":
            text = text_columns(problem.X_train)

            def convert(X: pd.DataFrame) -> pd.DataFrame:
                return X.fillna(dict.fromkeys(text, "missing"))

            train = convert(problem.X_train)
        else:
            train, convert = with_categories(problem)
        model = tuned_boosting.search(
            library, train, problem.y_train, folds(problem), seed=problem.seed, seconds=problem.seconds,
            threads=problem.threads,
        )  # fmt: skip
        return lambda X: model(convert(X))

    return fit


# empulse


def empulse_threshold(problem: Problem) -> Predict:
    if problem.train_prices is not None:
        return per_sample("empulse-threshold")(problem)
    from empulse.models import CSThresholdClassifier  # noqa: PLC0415

    train, convert = with_categories(problem)
    # it takes no missing values, whatever its estimator does
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(codes(train))
    levels = problem.X_train.columns.get_indexer(pd.Index(text_columns(problem.X_train)))
    booster = histogram_boosting(problem.seed, categorical_features=levels)
    # fitted without costs, it takes them when it predicts; calibration (sigmoid, three folds) is its default
    model = CSThresholdClassifier(booster, random_state=problem.seed)
    model.fit(imputer.transform(codes(train)), problem.y_train, fp_cost=1.0, fn_cost=1.0)

    def predict(X: pd.DataFrame) -> dict[str, Any]:
        matrix = imputer.transform(codes(convert(X)))
        return {
            name: model.predict(matrix, fp_cost=costs[0, 1], fn_cost=costs[1, 0])
            for name, costs in problem.costs.items()
        }

    return predict


def codes(X: pd.DataFrame) -> NDArray[np.float64]:
    """Return a float matrix, categories as codes; missing ones are negative, as scikit-learn's boosting has it."""
    kinds = {column: isinstance(X[column].dtype, pd.CategoricalDtype) for column in X.columns}
    return np.column_stack([X[c].cat.codes if kinds[c] else X[c] for c in X.columns]).astype(np.float64)


def empulse_boost(problem: Problem) -> Predict:
    if problem.train_prices is not None:
        return per_sample("empulse-boost-xgboost")(problem)
    from empulse.models import CSBoostClassifier  # noqa: PLC0415
    from xgboost import XGBClassifier  # noqa: PLC0415

    # its gradients vanish where it is sure, and with them the hessians that XGBoost's default wants in a leaf
    booster = XGBClassifier(
        learning_rate=LR, min_child_weight=0, n_jobs=problem.threads, random_state=problem.seed
    )  # fmt: skip
    settings = {"estimator__n_estimators": [100, 300], "estimator__max_depth": [3, 6]}
    return _searched(problem, lambda fp, fn: CSBoostClassifier(booster, fp_cost=fp, fn_cost=fn), settings)


def empulse_logit(problem: Problem) -> Predict:
    if problem.train_prices is not None:
        return per_sample("empulse-logit")(problem)
    from empulse.models import CSLogitClassifier  # noqa: PLC0415

    settings = {"C": [0.1, 1.0, 10.0, 100.0], "l1_ratio": [0.0, 1.0]}
    return _searched(
        problem, lambda fp, fn: CSLogitClassifier(fp_cost=fp, fn_cost=fn, n_jobs=problem.threads), settings
    )


def _searched(problem: Problem, model: Callable[[float, float], Any], settings: dict[str, list[Any]]) -> Predict:
    """Choose settings by the cost of five folds, for each of the costs."""
    encoder = numeric(problem.X_train)
    train = encoder.fit_transform(problem.X_train)

    def fit(costs: NDArray[np.float64]) -> Predict:
        made = model(costs[0, 1], costs[1, 0])
        search = GridSearchCV(made, settings, scoring=scorer(costs), cv=folds(problem)).fit(train, problem.y_train)
        return lambda X: search.predict(encoder.transform(X))

    return for_each_cost(problem, fit)


def per_sample(name: str) -> Callable[[Problem], Predict]:
    """Return a method of savings_peers.py, for per-sample costs; it fits when it predicts."""

    def fit(problem: Problem) -> Predict:
        assert problem.train_prices is not None
        assert problem.test_prices is not None
        nobody = np.zeros(0, np.int64)
        cell = savings_data.Cell(
            "", problem.seed, problem.X_train, problem.y_train, problem.train_prices, problem.X_test, nobody,
            problem.test_prices, "",
        )  # fmt: skip
        options = argparse.Namespace(threads=problem.threads, seconds=problem.seconds)
        decisions = savings_peers.PEERS[name](cell, options)
        return lambda X: {PER_SAMPLE: np.asarray(decisions).reshape(-1).astype(np.int64)}

    return fit


# automated machine learning


def autogluon(*, limited: bool = True, **more: Any) -> Callable[[Problem], Predict]:
    """Return AutoGluon, selected by log loss; without a limit it takes what it needs."""

    def fit(problem: Problem) -> Predict:
        from autogluon.tabular import TabularPredictor  # noqa: PLC0415

        train = problem.X_train.assign(**{"the label": problem.y_train})
        kind = "binary" if problem.n_classes == 2 else "multiclass"
        folder = tempfile.mkdtemp(prefix="autogluon")  # in the folder of the job, which is removed
        predictor = TabularPredictor("the label", problem_type=kind, eval_metric="log_loss", path=folder, verbosity=0)
        limit = {"time_limit": problem.seconds} if limited else {}
        predictor.fit(train, num_cpus=problem.threads, num_gpus=0, **limit, **more)

        def predict(X: pd.DataFrame) -> NDArray[Any]:
            result = predictor.predict_proba(X)
            return np.asarray(result[sorted(result.columns)])

        return predict

    return fit


def flaml(problem: Problem) -> Predict:
    from flaml import AutoML  # noqa: PLC0415

    train, convert = with_categories(problem)
    model = AutoML()
    model.fit(
        train, problem.y_train, task="classification", metric="log_loss", time_budget=problem.seconds,
        n_jobs=problem.threads, seed=problem.seed, verbose=0,
    )  # fmt: skip
    return lambda X: model.predict_proba(convert(X))


# adacsl


def ensemble(*, limited: bool) -> Callable[[Problem], Predict]:
    """Return the ensemble; its base estimators do not depend on the costs and are fitted once for all of them."""

    def fit(problem: Problem) -> Predict:
        from adacsl import EnsembleClassifier  # noqa: PLC0415

        settings = {"random_state": problem.seed, "device": "cpu"}
        settings |= {"time_limit": problem.seconds} if limited else {}
        if problem.train_prices is not None:
            return _per_sample(EnsembleClassifier(_mean_costs(problem), **settings), problem)
        return _fitted_together(
            {name: EnsembleClassifier(_matrix(costs), **settings) for name, costs in problem.costs.items()}, problem
        )

    return fit


def adacsl(cv: int | None) -> Callable[[Problem], Predict]:
    """Return AdaCSL: one network, or cross-fitted; samples weighted by their costs where they have such."""

    def fit(problem: Problem) -> Predict:
        from adacsl import method  # noqa: PLC0415

        settings = {"random_state": problem.seed, "device": "cpu", "cv": cv}
        if problem.train_prices is not None:
            return _per_sample(method("adacsl-instance", _mean_costs(problem), **settings), problem)
        return _fitted_together(
            {name: method("adacsl", _matrix(costs), **settings) for name, costs in problem.costs.items()}, problem
        )

    return fit


def _mean_costs(problem: Problem) -> Any:
    from adacsl import CostMatrix  # noqa: PLC0415

    assert problem.train_prices is not None
    return CostMatrix(**{kind: float(price.mean()) for kind, price in problem.train_prices._asdict().items()})


def _matrix(costs: NDArray[np.float64]) -> Any:
    from adacsl import CostMatrix  # noqa: PLC0415

    return CostMatrix.from_array(costs, rows="actual")


def _per_sample(model: Any, problem: Problem) -> Predict:
    assert problem.train_prices is not None
    model.fit(problem.X_train, problem.y_train, **problem.train_prices._asdict())
    asked = {} if problem.test_prices is None else problem.test_prices._asdict()
    return lambda X: {PER_SAMPLE: model.predict(X, **asked)}


def _fitted_together(models: dict[str, Any], problem: Problem) -> Predict:
    """Fit classifiers that differ in their costs, what they share once: as a comparison does it."""
    from adacsl.estimators.fit import fit_methods  # noqa: PLC0415
    from adacsl.fitting.rows import read_rows, resolve_costs  # noqa: PLC0415

    for model in models.values():
        rows = read_rows(model, model.check_settings(), problem.X_train, problem.y_train, None, None, model.costs)
        rows = resolve_costs(model, rows, problem.X_train)
        model.sample_costs_, model.left_out_, model.times_ = (), (), ""
    for _ in fit_methods([(model, model.costs) for model in models.values()], rows):
        pass
    return lambda X: {name: model.predict(X) for name, model in models.items()}


EMPULSE = "empulse.models"
GLUON = ("autogluon.tabular", "lightgbm", "xgboost", "catboost", "torch", "fastai")
OURS = ("adacsl", "torch", "lightgbm", "xgboost", "catboost")
PEER_METHODS: dict[str, PeerMethod] = {
    "constant": PeerMethod(constant, "the constant of lowest cost on the training samples"),
    "logistic": PeerMethod(logistic, "scikit-learn's logistic regression, C by five-fold log loss; Bayes threshold"),
    "hgb-bayes": PeerMethod(hgb_bayes, "scikit-learn's histogram boosting, stopped early; Bayes threshold"),
    "hgb-tuned": PeerMethod(hgb_tuned, "the same in TunedThresholdClassifierCV: one threshold by cost", (TWO, ROWS)),
    "lightgbm": PeerMethod(lightgbm, "LightGBM's defaults; Bayes threshold", modules=("lightgbm",)),
    "catboost": PeerMethod(catboost, "CatBoost's defaults; Bayes threshold", modules=("catboost",), longest=0.5),
    "lightgbm-tuned": PeerMethod(
        tuned("lightgbm"), "LightGBM, the best of 20 random draws by five-fold log loss, within the time limit",
        modules=("lightgbm",), longest=1.1,
    ),
    "xgboost-tuned": PeerMethod(tuned("xgboost"), "XGBoost, likewise", modules=("xgboost",), longest=1.1),
    "catboost-tuned": PeerMethod(tuned("catboost"), "CatBoost, likewise", modules=("catboost",), longest=1.2),
    "empulse-threshold": PeerMethod(
        empulse_threshold, "CSThresholdClassifier over histogram boosting", (TWO, ROWS), venv="empulse",
        modules=(EMPULSE,),
    ),
    "empulse-logit": PeerMethod(
        empulse_logit, "CSLogitClassifier; penalties by five-fold cost, per-sample costs: its default",
        (TWO, ROWS), venv="empulse", modules=(EMPULSE,), longest=1.5,
    ),
    "empulse-boost": PeerMethod(
        empulse_boost, "CSBoostClassifier over XGBoost; depth and rounds by five-fold cost, per-sample costs: depth 4, "
        "200 rounds", (TWO, ROWS), venv="empulse", modules=(EMPULSE, "xgboost"), longest=1.0,
    ),
    "flaml": PeerMethod(
        flaml, "FLAML's AutoML with the time limit, log loss; Bayes threshold", venv="flaml",
        modules=("flaml", "lightgbm", "xgboost"), longest=1.1,
    ),
    "autogluon": PeerMethod(
        autogluon(), "AutoGluon's defaults with the time limit, log loss; Bayes threshold", venv="autogluon",
        modules=GLUON, longest=1.1,
    ),
    "autogluon-bagged": PeerMethod(
        autogluon(num_bag_folds=5), "the same, bagged in five folds", venv="autogluon", modules=GLUON, longest=1.1,
    ),
    "autogluon-best": PeerMethod(
        autogluon(presets="best_quality"), "its preset best_quality with the time limit", venv="autogluon",
        modules=GLUON, longest=1.2,
    ),
    "autogluon-full": PeerMethod(
        autogluon(limited=False), "AutoGluon's defaults without a time limit", venv="autogluon", modules=GLUON,
        longest=4.0,
    ),
    "adacsl": PeerMethod(adacsl(None), "AdaCSL, one network", modules=("adacsl", "torch"), ours=True, longest=0.5),
    "adacsl-cv": PeerMethod(
        adacsl(5), "AdaCSL, five cross-fitted networks", modules=("adacsl", "torch"), ours=True, longest=0.8,
    ),
    "ensemble-limited": PeerMethod(
        ensemble(limited=True), "EnsembleClassifier with the time limit", modules=OURS, ours=True, longest=1.15,
    ),
    "ensemble": PeerMethod(ensemble(limited=False), "EnsembleClassifier", modules=OURS, ours=True, longest=2.0),
}  # fmt: skip
"""All methods, in the order of the page."""
