"""A made-up comparison with realistic numbers, so that the page can be looked at and tested without any training."""

from __future__ import annotations

import numpy as np
import pandas as pd

from adacsl.costs.matrix import CostMatrix
from adacsl.report.data import Outcome, ReportData
from adacsl.thresholds.search import find_threshold

METHODS = {
    # separation of the two classes, distortion of the logits, rule
    "always-negative": (0.0, 1.0, "negative"),
    "net": (2.0, 1.5, "half"),
    "net-bayes": (2.0, 1.5, "bayes"),
    "net-tuned": (2.0, 1.5, "tuned"),
    "net-smote": (1.75, 1.9, "half"),
    "net-weighted": (1.95, 1.25, "bayes"),
    "gbm-tuned": (2.1, 1.15, "tuned"),
    "adacsl-cv": (2.35, 1.0, "bayes"),
}
TITLES = {
    "always-negative": "never act",
    "net": "cross-entropy, decided at 0.5",
    "net-bayes": "cross-entropy, Bayes threshold",
    "net-tuned": "cross-entropy, threshold tuned on validation data",
    "net-smote": "cross-entropy on SMOTE-balanced data",
    "net-weighted": "cost-weighted cross-entropy",
    "gbm-tuned": "boosted trees, tuned threshold",
    "adacsl-cv": "adaptive cost-sensitive loss, cross-fitted",
}
PRIOR = 0.15


def made_report(
    *,
    data=("breast-cancer",),
    ratios=(2.0, 8.0, 32.0),
    methods=METHODS,
    seeds=5,
    rows=240,
    own_costs=False,
    text=lambda value: value,
    decimals=None,
    **changes,
):
    """Return a report; ``text`` is applied to every string in it, ``decimals`` rounds the scores (ties)."""
    cells, outcomes, histories = [], {}, {}
    for number, name in enumerate(data):
        for ratio in ratios:
            for method in methods:
                key = (text(name), ratio, text(method))
                result = [_cell(number, ratio, method, seed, rows, own_costs, decimals) for seed in range(seeds)]
                for seed, (row, _, history) in enumerate(result):
                    cells.append({"data": key[0], "ratio": ratio, "method": key[2], "seed": seed, **row})
                    if history:
                        histories[(*key, seed)] = history
                outcomes[key] = _pooled([part for _, part, _ in result])
    results = pd.DataFrame(cells)
    summary = _summary(results)
    views = [(text(name), ratio) for name in data for ratio in ratios]
    cheapest = {view: _view(summary, view)["method"].iloc[0] for view in views}
    fields = {
        "title": text("Which method is cheapest?"),
        "recommendations": {view: text(_verdict(_view(summary, view))) for view in views},
        "facts": {text(k): text(v) for k, v in FACTS.items()},
        "results": results,
        "summary": summary,
        "outcomes": outcomes,
        "histories": histories,
        "classes": (text("benign"), text("malignant")),
        "recommended": cheapest,
        "unit": text("EUR"),
        "titles": {text(k): text(v) for k, v in TITLES.items()},
    }
    return ReportData(**{**fields, **changes})


FACTS = {
    "Data": "breast-cancer, 569 rows, 30 columns, 37 % malignant",
    "Costs": "fp = 1, fn = 2, 8, 32",
    "Seeds": "5 (stratified splits, 20 % test)",
    "Methods": "8",
    "Versions": "adacsl 0.1.0, torch 2.13.0, scikit-learn 1.9.0",
    "Device": "cpu, 2 cores",
    "Date": "2026-11-15",
    "Command": "adacsl compare breast-cancer --ratios 2 8 32 --seeds 5",
}


def _cell(number, ratio, method, seed, rows, own_costs, decimals):
    rng = np.random.default_rng([number, seed])  # the same rows for every method and ratio
    labels = (rng.random(rows) < PRIOR).astype(int)
    labels[:2] = 0, 1
    noise, shared = rng.normal(size=rows), rng.normal(size=rows)
    separation, heat, rule = METHODS[method]
    # methods that differ in their rule only share a training, and so their scores
    training = [values[:2] for values in METHODS.values()].index((separation, heat))
    own = np.random.default_rng([number, seed, training, 7]).normal(size=rows)
    signal = (labels - 0.5) * separation + 0.8 * shared + 0.5 * noise + 0.3 * own
    if separation == 0:
        scores = np.full(rows, PRIOR)
    else:
        logit = signal * separation / 0.98 + np.log(PRIOR / (1 - PRIOR))
        scores = 1 / (1 + np.exp(-logit * heat))
    scores = np.round(scores, decimals) if decimals is not None else scores
    scores = scores.astype(np.float32)
    fn = rng.lognormal(np.log(ratio), 0.7, size=rows) if own_costs else ratio
    costs = CostMatrix(fp=1.0, fn=fn)
    threshold = _threshold(rule, scores, labels, costs, own_costs)
    decisions = costs.decide(scores) if threshold is None else (scores.astype(float) > threshold).astype(int)
    tp, fn_count = int((labels & decisions).sum()), int((labels & (1 - decisions)).sum())
    fp = int(((1 - labels) & decisions).sum())
    mean = costs.mean(labels, decisions)
    row = {
        "cost": mean, "total_cost": mean * rows, "normalized_cost": costs.normalized(labels, decisions),
        "savings": costs.savings(labels, decisions), "accuracy": float((labels == decisions).mean()),
        "tp": tp, "fp": fp, "fn": fn_count, "tn": rows - tp - fp - fn_count, "n_train": 4 * rows, "n_test": rows,
        "seconds": 0.4 + 0.1 * seed,
    }  # fmt: skip
    history = _history(rng, mean, method) if separation and not method.startswith("gbm") else []
    if history:
        row |= {"validation_cost": min(step["val_cost"] for step in history), "threshold": threshold}
    part = {"scores": scores, "labels": labels, "decisions": decisions, "seeds": np.full(rows, seed), "fn": fn}
    return row, {**part, "threshold": threshold}, history


def _threshold(rule, scores, labels, costs, own_costs):
    if rule == "negative":
        return 1.0
    if rule == "half":
        return 0.5
    if rule == "bayes":
        return None if own_costs else costs.threshold
    return find_threshold(scores[::2], labels[::2], costs.rows(slice(None, None, 2))).value


def _history(rng, final, method, epochs=24):
    steps, weight = [], 1.0
    for fold in range(3 if method.endswith("-cv") else 1):
        weight = 1.0
        for epoch in range(1, epochs + 1):
            left = np.exp(-epoch / 6)
            threshold = float(np.clip(0.5 + 0.25 * left * np.cos(epoch / 2) + 0.03 * rng.normal(), 0.02, 0.98))
            weight *= float(np.exp((threshold - 0.5) / 0.25 * 0.3))
            step = {
                "epoch": epoch,
                "fold": fold,
                "val_cost": float(final * (0.93 + 1.6 * left + 0.05 * rng.random())),
                "train_cost": float(final * (0.55 + 1.9 * left + 0.02 * rng.random())),
            }
            if method.startswith("adacsl"):
                step |= {"lambda": weight, "threshold": threshold}
            steps.append(step)
    return steps


def _pooled(parts):
    columns = {
        name: np.concatenate([part[name] for part in parts]) for name in ("scores", "labels", "decisions", "seeds")
    }
    thresholds = {part["threshold"] for part in parts}
    fn = parts[0]["fn"] if isinstance(parts[0]["fn"], float) else np.concatenate([part["fn"] for part in parts])
    return Outcome(**columns, fp=1.0, fn=fn, threshold=thresholds.pop() if len(thresholds) == 1 else None)


def _summary(results):
    groups = results.groupby(["data", "ratio", "method"], sort=False)
    frame = groups.agg(
        n=("cost", "size"), cost=("cost", "mean"), spread=("cost", "std"),
        normalized_cost=("normalized_cost", "mean"), savings=("savings", "mean"),
    ).reset_index()  # fmt: skip
    half = 2.1 * frame.pop("spread").fillna(0.0) / np.sqrt(frame["n"])
    frame["low"], frame["high"] = (frame["cost"] - half).clip(0), frame["cost"] + half
    best = frame.groupby(["data", "ratio"])["cost"].transform("min")
    frame["rank"] = frame.groupby(["data", "ratio"])["cost"].rank()
    frame["difference"] = frame["cost"] - best
    frame["difference_low"], frame["difference_high"] = frame["difference"] - half, frame["difference"] + half
    for name in ("", "_low", "_high"):
        frame[f"percent{name}"] = 100 * frame[f"difference{name}"] / best
    frame["p"] = np.where(
        frame["difference"] == 0, 1.0, np.exp(-3 * frame["difference"] / half.clip(1e-9)).clip(1e-6, 1)
    )
    frame["significance"] = np.where(
        frame["difference"] == 0,
        "lowest cost",
        np.where(frame["p"] < 0.05, "significantly higher", "no significant difference"),
    )
    return frame


def _view(summary, view):
    rows = summary[(summary["data"] == view[0]) & (summary["ratio"] == view[1])]
    return rows.sort_values("cost", kind="stable")


def _verdict(rows):
    first, second = rows.iloc[0], rows.iloc[1]
    worse = rows.loc[rows["significance"] == "significantly higher", "method"].tolist()
    share = 1 - first["cost"] / second["cost"]
    tail = f"; {' and '.join(worse[-2:])} are clearly worse" if len(worse) > 1 else ""
    return f"{first['method']} is cheapest: {100 * share:.0f} % below the next, {second['method']}{tail}."
