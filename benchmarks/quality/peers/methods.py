"""Who takes part. A method is a function from a :class:`problem.Problem` to decisions or probabilities.

To add one, write ``def fit_predict(problem) -> array`` and put a :class:`PeerMethod` into :data:`PEER_METHODS`, here or
in a file of your own that ``run.py --add FILE`` reads. It gives one decision (a class number) for each test row, or
probabilities, test rows x classes, which are then decided at the least expected cost: each row's own where rows have
prices. What needs other packages than ours names a virtual environment and is run there; imports belong inside the
function, since this module is read everywhere.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks.quality import ensemble_peers, peer_data, savings_data, savings_peers
from benchmarks.quality.peers.problem import Problem, cheapest_constant, check_found

TWO, MANY, ROWS = "two classes", "several classes", "per-sample costs"
"""The kinds of tables; see tables.py."""
ALL = (TWO, MANY, ROWS)


@dataclass(frozen=True)
class PeerMethod:
    """One method.

    Parameters
    ----------
    fit_predict : callable
        From a problem to decisions or probabilities about its test rows.
    about : str
        One line for the page.
    kinds : tuple
        Which tables it can take part in.
    blind : bool
        Whether it never looks at the costs: one fit then serves all costs of a table.
    venv : str, optional
        The virtual environment it is run in; None: this Python.
    modules : tuple
        Imported before the clock starts; the versions of their packages are noted.
    ours : bool
        Whether it is adacsl's: the page begins with what these lose.
    """

    fit_predict: Callable[[Problem], Any]
    about: str
    kinds: tuple[str, ...] = ALL
    blind: bool = False
    venv: str | None = None
    modules: tuple[str, ...] = ()
    ours: bool = False


def attempt(entry: PeerMethod, problem: Problem) -> tuple[NDArray[Any] | None, dict[str, Any]]:
    """Return what a method found and the seconds it took; or nothing, and why."""
    result, error, start, cpu = None, "", time.perf_counter(), processor_seconds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for module in entry.modules:
                importlib.import_module(module)
            start, cpu = time.perf_counter(), processor_seconds()
            with threadpool_limits(problem.threads), processor_clock():
                given = entry.fit_predict(problem)
            result = check_found(given, len(problem.X_test), problem.n_classes)
        except Exception as failure:  # a method may fail in any way it likes
            error = " ".join(f"{type(failure).__name__}: {failure}".split())[:300]
    seconds, cpu = time.perf_counter() - start, processor_seconds() - cpu
    return result, {"seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "error": error}


def processor_seconds() -> float:
    """Return what this process has used of the processor, and those that it started and that have ended."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


@contextmanager
def processor_clock() -> Iterator[None]:
    """Make the clocks of the module time count processor seconds: a busy machine then takes none from anybody.

    Time limits are kept by these clocks, so that what a method finds does not depend on who else is at work.
    """
    kept = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}
    begun = processor_seconds()

    def since(start: float) -> Callable[[], float]:
        return lambda: start + processor_seconds() - begun

    for name, clock in kept.items():
        setattr(time, name, since(clock()))
    try:
        yield
    finally:
        for name, clock in kept.items():
            setattr(time, name, clock)


def versions_of(entry: PeerMethod) -> dict[str, str]:
    return peer_data.versions_of(entry.modules)


# the forms in which the other benchmarks' peers take a problem; none of them looks at test labels, and there are none


def cell_of(problem: Problem) -> peer_data.Cell:
    nobody = np.zeros(0, np.int64)
    return peer_data.Cell("", problem.seed, problem.X_train, problem.y_train, problem.X_test, nobody, "")


def priced_cell_of(problem: Problem) -> savings_data.Cell:
    assert problem.train_prices is not None
    assert problem.test_prices is not None
    return savings_data.Cell(
        "", problem.seed, problem.X_train, problem.y_train, problem.train_prices, problem.X_test,
        np.zeros(0, np.int64), problem.test_prices, "",
    )  # fmt: skip


def options_of(problem: Problem) -> argparse.Namespace:
    return argparse.Namespace(threads=problem.threads, seconds=problem.seconds)


def peer(name: str, priced: str | None = None) -> Callable[[Problem], Any]:
    """Return a peer of ensemble_peers.py, and for rows with prices one of savings_peers.py, as a method."""

    def fit_predict(problem: Problem) -> Any:
        if problem.test_prices is not None:
            return savings_peers.PEERS[priced or name](priced_cell_of(problem), options_of(problem))
        assert problem.costs is not None
        costs = peer_data.Costs(fp=problem.costs[0, 1], fn=problem.costs[1, 0])
        return ensemble_peers.PEERS[name].fit(cell_of(problem), costs, options_of(problem))(costs)

    return fit_predict


# this Python


def constant(problem: Problem) -> Any:
    costs = problem.costs if problem.train_prices is None else problem.train_prices
    assert costs is not None
    return np.full(len(problem.X_test), cheapest_constant(problem.y_train, costs, problem.n_classes))


def logistic(problem: Problem) -> Any:
    model = make_pipeline(ensemble_peers.numeric(problem.X_train), LogisticRegression(max_iter=3000))
    return model.fit(problem.X_train, problem.y_train).predict_proba(problem.X_test)


def hgb_bayes(problem: Problem) -> Any:
    train, test = ensemble_peers.with_categories(cell_of(problem))
    return ensemble_peers.histogram_boosting(problem.seed).fit(train, problem.y_train).predict_proba(test)


def hgb_tuned(problem: Problem) -> Any:
    if problem.train_prices is None:
        return peer("hgb-tuned")(problem)
    from sklearn import config_context  # noqa: PLC0415

    cell, prices = cell_of(problem), problem.train_prices._asdict()
    train, test = ensemble_peers.with_categories(cell)
    with config_context(enable_metadata_routing=True):
        saving = make_scorer(lambda y, decisions, **own: -savings_data.Prices(**own).mean(np.asarray(y), decisions))
        booster = ensemble_peers.histogram_boosting(problem.seed).set_fit_request(sample_weight=False)
        model = TunedThresholdClassifierCV(
            booster, scoring=saving.set_score_request(**dict.fromkeys(prices, True)), thresholds=1000,
            cv=ensemble_peers.folds(cell), random_state=problem.seed,
        )  # fmt: skip
        return model.fit(train, problem.y_train, **prices).predict(test)


def ensemble(problem: Problem) -> Any:
    from adacsl import EnsembleClassifier  # noqa: PLC0415
    from adacsl.ensemble.classifier import EnsembleSettings  # noqa: PLC0415

    settings = {"random_state": problem.seed, "device": "cpu", "n_jobs": 1, "budget": problem.seconds}
    # with a budget it would fit in a process that it can end, whose seconds this one's clock does not count
    with patch.object(EnsembleSettings, "workers_for", lambda self, rows: 0):
        return _fitted(EnsembleClassifier(_matrix(problem), **settings), problem)


def adacsl(cv: int | None) -> Callable[[Problem], Any]:
    """Return AdaCSL as a method: one net, or cross-fitted; rows weighted by their prices where they have such."""

    def fit_predict(problem: Problem) -> Any:
        from adacsl import method  # noqa: PLC0415

        name = "adacsl" if problem.train_prices is None else "adacsl-instance"
        return _fitted(method(name, _matrix(problem), random_state=problem.seed, device="cpu", cv=cv), problem)

    return fit_predict


def _matrix(problem: Problem) -> Any:
    from adacsl import CostMatrix  # noqa: PLC0415

    if problem.train_prices is not None:
        return CostMatrix(**{kind: float(price.mean()) for kind, price in problem.train_prices._asdict().items()})
    assert problem.costs is not None
    if problem.n_classes == 2:
        (tn, fp), (fn, tp) = problem.costs.tolist()
        return CostMatrix(fp=fp, fn=fn, tp=tp, tn=tn)
    return CostMatrix.from_array(problem.costs, rows="actual")


def _fitted(model: Any, problem: Problem) -> Any:
    import torch  # noqa: PLC0415

    torch.set_num_threads(problem.threads)
    given, asked = (prices._asdict() if prices else {} for prices in (problem.train_prices, problem.test_prices))
    return model.fit(problem.X_train, problem.y_train, **given).predict(problem.X_test, **asked)


# environments of their own


def autogluon(problem: Problem) -> Any:
    return ensemble_peers.gluon_probabilities(cell_of(problem), options_of(problem), num_bag_folds=5)


def flaml(problem: Problem) -> Any:
    from flaml import AutoML  # noqa: PLC0415

    train, test = ensemble_peers.with_categories(cell_of(problem))
    model = AutoML()
    model.fit(
        train, problem.y_train, task="classification", metric="log_loss", time_budget=problem.seconds,
        n_jobs=problem.threads, seed=problem.seed, verbose=0,
    )  # fmt: skip
    return model.predict_proba(test)


OURS = ("adacsl", "torch", "lightgbm", "xgboost", "catboost")
PEER_METHODS: dict[str, PeerMethod] = {
    "constant": PeerMethod(constant, "the constant of lowest cost on the training samples"),
    "logistic": PeerMethod(logistic, "scikit-learn's logistic regression, Bayes decision", blind=True),
    "hgb-bayes": PeerMethod(hgb_bayes, "scikit-learn's histogram boosting, stopped early, Bayes decision", blind=True),
    "hgb-tuned": PeerMethod(hgb_tuned, "the same in TunedThresholdClassifierCV: one threshold by cost", (TWO, ROWS)),
    "empulse-threshold": PeerMethod(
        peer("empulse-threshold"), "CSThresholdClassifier over the same boosting", (TWO, ROWS),
        venv="empulse", modules=("empulse.models",),
    ),
    "empulse-logit": PeerMethod(
        peer("empulse-logit"), "CSLogitClassifier; penalties by five-fold cost, per-sample costs: its default",
        (TWO, ROWS), venv="empulse", modules=("empulse.models",),
    ),
    "empulse-boost": PeerMethod(
        peer("empulse-boost", "empulse-boost-xgboost"), "CSBoostClassifier over XGBoost; depth and rounds by "
        "five-fold cost, per-sample costs: depth 4, 200 rounds", (TWO, ROWS),
        venv="empulse", modules=("empulse.models", "xgboost"),
    ),
    "flaml": PeerMethod(
        flaml, "FLAML's AutoML, log loss, Bayes decision", blind=True, venv="flaml",
        modules=("flaml", "lightgbm", "xgboost"),
    ),
    "autogluon": PeerMethod(
        autogluon, "AutoGluon's default models, bagged in five folds, log loss, Bayes decision", blind=True,
        venv="autogluon", modules=ensemble_peers.GLUON,
    ),
    "adacsl": PeerMethod(adacsl(None), "AdaCSL, one net", modules=("adacsl", "torch"), ours=True),
    "adacsl-cv": PeerMethod(adacsl(5), "AdaCSL, five cross-fitted networks", modules=("adacsl", "torch"), ours=True),
    "ensemble": PeerMethod(ensemble, "EnsembleClassifier with this budget", modules=OURS, ours=True),
}  # fmt: skip
"""Everybody who takes part, in the order of the page."""
