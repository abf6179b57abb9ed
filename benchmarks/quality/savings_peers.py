"""Savings of the peers on four public tables with costs of each sample: the other half of savings.py.

empulse has an environment of its own; this script runs there too, without adacsl, and adds to the same file:

    python -m benchmarks.quality.savings_peers --data FOLDER --out peers.csv         # scikit-learn's
    EMPULSE_VENV/bin/python -m benchmarks.quality.savings_peers --out peers.csv      # finds empulse, runs its five
"""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.quality.savings_data import Cell, arguments, run

Options = argparse.Namespace
Decisions = NDArray[Any]


def bayes(model: Any, cell: Cell) -> Decisions:
    """Fit without costs; decide each test row by its own."""
    return cell.test.decide(model.fit(cell.X_train, cell.y_train).predict_proba(cell.X_test)[:, 1])


def boosting(cell: Cell) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(random_state=cell.split)


def stopped(cell: Cell) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=500, early_stopping=True, random_state=cell.split
    )


def logistic(cell: Cell, options: Options) -> Decisions:
    return bayes(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), cell)


def forest(cell: Cell, options: Options) -> Decisions:
    return bayes(RandomForestClassifier(100, min_samples_leaf=20, random_state=cell.split), cell)


def hgb(cell: Cell, options: Options) -> Decisions:
    return bayes(boosting(cell), cell)


def hgb_isotonic(cell: Cell, options: Options) -> Decisions:
    return bayes(CalibratedClassifierCV(boosting(cell), method="isotonic", cv=5), cell)


def hgb_stopped_isotonic(cell: Cell, options: Options) -> Decisions:
    return bayes(CalibratedClassifierCV(stopped(cell), method="isotonic", cv=5), cell)


def hgb_weighted(cell: Cell, options: Options) -> Decisions:
    return weighted(boosting(cell), cell)


def hgb_stopped_weighted(cell: Cell, options: Options) -> Decisions:
    return weighted(stopped(cell), cell)


def weighted(model: Any, cell: Cell) -> Decisions:
    """Weigh each training row by what being wrong about it costs; decide at 0.5."""
    stakes = cell.train.stakes(cell.y_train)
    return np.asarray(model.fit(cell.X_train, cell.y_train, sample_weight=stakes / stakes.mean()).predict(cell.X_test))


# empulse


def named(costs: Any) -> dict[str, Any]:
    return {"fp_cost": costs.fp, "fn_cost": costs.fn, "tp_cost": costs.tp, "tn_cost": costs.tn}


def fitted(model: Any, cell: Cell) -> Decisions:
    """Fit with the samples' costs; its scores are made to be cut at 0.5."""
    scale = StandardScaler().fit(cell.X_train)
    model.fit(scale.transform(cell.X_train), cell.y_train, **named(cell.train))
    return np.asarray(model.predict(scale.transform(cell.X_test)))


def empulse_boost_lightgbm(cell: Cell, options: Options) -> Decisions:
    from empulse.models import CSBoostClassifier  # noqa: PLC0415
    from lightgbm import LGBMClassifier  # noqa: PLC0415

    return fitted(
        CSBoostClassifier(LGBMClassifier(n_estimators=200, n_jobs=1, random_state=cell.split, verbose=-1)), cell
    )


def empulse_boost_xgboost(cell: Cell, options: Options) -> Decisions:
    from empulse.models import CSBoostClassifier  # noqa: PLC0415
    from xgboost import XGBClassifier  # noqa: PLC0415

    booster = XGBClassifier(n_estimators=200, max_depth=4, n_jobs=1, random_state=cell.split)
    return fitted(CSBoostClassifier(booster), cell)


def empulse_logit(cell: Cell, options: Options) -> Decisions:
    from empulse.models import CSLogitClassifier  # noqa: PLC0415

    return fitted(CSLogitClassifier(), cell)


def empulse_forest(cell: Cell, options: Options) -> Decisions:
    from empulse.models import CSForestClassifier  # noqa: PLC0415

    return fitted(CSForestClassifier(100, max_depth=10, random_state=cell.split), cell)


def empulse_threshold(cell: Cell, options: Options) -> Decisions:
    from empulse.models import CSThresholdClassifier  # noqa: PLC0415

    model = CSThresholdClassifier(stopped(cell), calibrator="isotonic", random_state=cell.split)
    # fitted without any costs it would not calibrate; those that decide are given later
    model.fit(cell.X_train.to_numpy(), cell.y_train, fp_cost=1.0, fn_cost=1.0)
    return np.asarray(model.predict(cell.X_test.to_numpy(), **named(cell.test)))


PEERS = {
    "logistic": logistic, "forest": forest, "hgb": hgb, "hgb-isotonic": hgb_isotonic,
    "hgb-stopped-isotonic": hgb_stopped_isotonic, "hgb-weighted": hgb_weighted,
    "hgb-stopped-weighted": hgb_stopped_weighted, "empulse-boost-lightgbm": empulse_boost_lightgbm,
    "empulse-boost-xgboost": empulse_boost_xgboost, "empulse-logit": empulse_logit, "empulse-forest": empulse_forest,
    "empulse-threshold": empulse_threshold,
}  # fmt: skip


def main() -> None:
    options = arguments(__doc__, PEERS).parse_args()
    has_empulse = importlib.util.find_spec("empulse") is not None
    options.methods = options.methods or [name for name in PEERS if name.startswith("empulse") == has_empulse]
    run(PEERS, options, ("empulse", "lightgbm", "xgboost") if has_empulse else ())


if __name__ == "__main__":
    main()
