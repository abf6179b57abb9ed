"""Boosters tuned as their users tune them: random draws of the settings, early stopping, cross-validated log loss.

Each of 20 draws is fitted on five folds, stopped by the log loss of the fold held out. A draw whose mean loss after any
fold is 3 % above that of the best draw on the same folds is dropped, and no fold is begun that would end after the time
limit. The booster is the mean of the five models of the best draw. The first draw has the usual settings of the
library with learning rate 0.05: the search is never worse informed than a user without one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

DRAWS, ROUNDS, PATIENCE = 20, 1000, 50
DROPPED = 1.03
LR = 0.05
Settings = dict[str, Any]


def search(
    library: str, X: Any, y: NDArray[Any], folds: Any, *, seed: int, seconds: float, threads: int
) -> Callable[[Any], NDArray[np.float64]]:
    """Return the mean of the probabilities of the models of the best draw."""
    draw, fit = LIBRARIES[library]
    end, rng = time.monotonic() + seconds, np.random.default_rng(seed)
    n_classes = int(y.max()) + 1
    parts = list(folds.split(X, y))
    best: tuple[list[float], list[Any]] | None = None
    longest = 0.0
    for number in range(DRAWS):
        settings = {"learning_rate": LR} if number == 0 else draw(rng)
        losses: list[float] = []
        models: list[Any] = []
        for train, held in parts:
            start = time.monotonic()
            if best is not None and start + longest > end:
                break
            model = fit(settings, X, y, train, held, seed, threads, n_classes)
            longest = max(longest, time.monotonic() - start)
            losses.append(log_loss(y[held], model.predict_proba(X.iloc[held]), labels=range(n_classes)))
            models.append(model)
            if best is not None and np.mean(losses) > DROPPED * np.mean(best[0][: len(losses)]):
                break
        if len(losses) == len(parts) and (best is None or np.mean(losses) < np.mean(best[0])):
            best = losses, models
        if time.monotonic() + longest > end:
            break
    assert best is not None
    chosen = best[1]
    return lambda new: np.mean([model.predict_proba(new) for model in chosen], axis=0)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_lightgbm(rng: np.random.Generator) -> Settings:
    return {
        "learning_rate": log_uniform(rng, 0.01, 0.2), "num_leaves": round(log_uniform(rng, 4, 128)),
        "min_child_samples": round(log_uniform(rng, 5, 100)), "colsample_bytree": rng.uniform(0.4, 1.0),
        "subsample": rng.uniform(0.5, 1.0), "subsample_freq": 1, "reg_lambda": log_uniform(rng, 1e-3, 10.0),
        "reg_alpha": log_uniform(rng, 1e-3, 10.0), "min_split_gain": float(rng.choice([0.0, 0.01])),
    }  # fmt: skip


def fit_lightgbm(settings: Settings, X: Any, y: Any, train: Any, held: Any, seed: int, threads: int, k: int) -> Any:
    from lightgbm import LGBMClassifier, early_stopping  # noqa: PLC0415

    model = LGBMClassifier(n_estimators=ROUNDS, n_jobs=threads, random_state=seed, verbose=-1, **settings)
    return model.fit(
        X.iloc[train], y[train], eval_X=X.iloc[held], eval_y=y[held],
        eval_metric="binary_logloss" if k == 2 else "multi_logloss",
        callbacks=[early_stopping(PATIENCE, verbose=False)],
    )  # fmt: skip


def draw_xgboost(rng: np.random.Generator) -> Settings:
    return {
        "learning_rate": log_uniform(rng, 0.01, 0.2), "max_depth": int(rng.integers(2, 10)),
        "min_child_weight": log_uniform(rng, 0.5, 30.0), "colsample_bytree": rng.uniform(0.4, 1.0),
        "subsample": rng.uniform(0.5, 1.0), "reg_lambda": log_uniform(rng, 1e-2, 30.0),
        "reg_alpha": log_uniform(rng, 1e-3, 10.0), "gamma": float(rng.choice([0.0, log_uniform(rng, 0.01, 5.0)])),
    }  # fmt: skip


def fit_xgboost(settings: Settings, X: Any, y: Any, train: Any, held: Any, seed: int, threads: int, k: int) -> Any:
    from xgboost import XGBClassifier  # noqa: PLC0415

    model = XGBClassifier(
        n_estimators=ROUNDS, early_stopping_rounds=PATIENCE, eval_metric="logloss" if k == 2 else "mlogloss",
        tree_method="hist", enable_categorical=True, n_jobs=threads, random_state=seed, **settings,
    )  # fmt: skip
    return model.fit(X.iloc[train], y[train], eval_set=[(X.iloc[held], y[held])], verbose=False)


def draw_catboost(rng: np.random.Generator) -> Settings:
    return {
        "learning_rate": log_uniform(rng, 0.02, 0.2), "depth": int(rng.integers(3, 9)),
        "l2_leaf_reg": log_uniform(rng, 0.5, 30.0), "random_strength": log_uniform(rng, 0.1, 10.0),
        "bagging_temperature": rng.uniform(0.0, 1.0), "rsm": rng.uniform(0.5, 1.0),
    }  # fmt: skip


def fit_catboost(settings: Settings, X: Any, y: Any, train: Any, held: Any, seed: int, threads: int, k: int) -> Any:
    from catboost import CatBoostClassifier  # noqa: PLC0415

    model = CatBoostClassifier(
        iterations=ROUNDS, early_stopping_rounds=PATIENCE, eval_metric="Logloss" if k == 2 else "MultiClass",
        cat_features=[c for c in X.columns if X[c].dtype == object or str(X[c].dtype) == "str"],
        thread_count=threads, random_seed=seed, verbose=False, allow_writing_files=False, **settings,
    )  # fmt: skip
    return model.fit(X.iloc[train], y[train], eval_set=(X.iloc[held], y[held]))


LIBRARIES = {
    "lightgbm": (draw_lightgbm, fit_lightgbm),
    "xgboost": (draw_xgboost, fit_xgboost),
    "catboost": (draw_catboost, fit_catboost),
}
