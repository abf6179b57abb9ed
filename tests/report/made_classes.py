"""A made-up comparison on more than two classes, so that its page can be looked at and tested without any training."""

from __future__ import annotations

import numpy as np
import pandas as pd

from adacsl.costs.matrix import CostMatrix
from adacsl.report.data import Outcome, ReportData

METHODS = {
    # how sharp, how distorted, rule
    "net": (1.6, 1.6, "half"),
    "net-bayes": (1.6, 1.6, "bayes"),
    "net-calibrated": (1.6, 1.0, "calibrated"),
    "net-weighted": (1.5, 1.2, "bayes"),
    "gbm-bayes": (1.7, 1.1, "bayes"),
    "adacsl-cv": (1.9, 1.0, "bayes"),
    "metacost": (1.6, 1.3, "kept"),
}
TITLES = {
    "net": "cross-entropy, the likeliest class",
    "net-bayes": "cross-entropy, cheapest class",
    "net-calibrated": "cross-entropy, calibrated, cheapest class",
    "net-weighted": "cross-entropy weighted by the costs",
    "gbm-bayes": "gradient boosting, cheapest class",
    "adacsl-cv": "AdaCSL, five cross-fitted nets",
    "metacost": "relabelled, learned again",
}
DIAGNOSES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")


def made_prices(k, seed=0):
    """Heavy-tailed costs with a free diagonal."""
    table = np.random.default_rng(seed).lognormal(0.0, 1.2, (k, k)).round(2) + 0.05
    np.fill_diagonal(table, 0.0)
    return table


def made_scores(labels, k, sharp, heat, rng):
    """Probabilities of k classes that lean to the label."""
    logits = rng.normal(size=(len(labels), k))
    logits[np.arange(len(labels)), labels] += sharp
    logits[np.arange(len(labels)), (labels + 1) % k] += 0.5 * sharp  # some classes look alike
    powers = np.exp(heat * (logits - logits.max(axis=1, keepdims=True)))
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)


def made_class_report(
    *,
    names=DIAGNOSES,
    rows=200,
    seeds=3,
    repeats=1,
    methods=METHODS,
    text=lambda value: value,
    matrix=None,
    data="lesions",
    **changes,
):
    """Return a report about one data set of several classes; ``text`` is applied to every string in it."""
    k = len(names)
    costs = CostMatrix.from_array(
        made_prices(k) if matrix is None else matrix, rows="predicted", classes=[text(name) for name in names]
    )
    prior = np.random.default_rng(k).dirichlet(np.full(k, 2.0))
    cells, outcomes, histories = [], {}, {}
    for number, (method, (sharp, heat, rule)) in enumerate(methods.items()):
        parts = []
        for seed in range(seeds):
            rng = np.random.default_rng([seed, 1])
            labels = np.concatenate((np.arange(k), rng.choice(k, rows - k, p=prior)))
            scores = made_scores(labels, k, sharp, heat, np.random.default_rng([seed, sum(map(ord, method[:2])), 2]))
            decided = costs.decide(scores.astype(float)) if rule != "half" else scores.argmax(axis=1)
            decided = np.roll(decided, 1) if rule == "kept" else decided
            parts.append((scores, labels, decided, np.full(rows, seed)))
            mean = costs.mean(labels, decided)
            about = {"data": text(data), "ratio": 1.0, "method": text(method), "seed": seed}
            normal = costs.normalized(labels, decided)
            cells.append(about | {"cost": mean, "normalized_cost": normal, "savings": 0.5, "n_test": rows})
            if method.startswith(("net", "adacsl")):
                histories[text(data), 1.0, text(method), seed] = made_history(k, mean, method, number + seed)
        columns = dict(
            zip(("scores", "labels", "decisions", "seeds"), map(np.concatenate, zip(*parts, strict=True)), strict=True)
        )
        outcomes[text(data), 1.0, text(method)] = Outcome(**columns, matrix=costs, rule=rule, repeats=repeats)
    results = pd.DataFrame(cells)
    groups = results.groupby(["data", "ratio", "method"], sort=False)
    summary = groups.agg(
        n=("cost", "size"),
        cost=("cost", "mean"),
        normalized_cost=("normalized_cost", "mean"),
        savings=("savings", "mean"),
    ).reset_index()
    summary["low"], summary["high"] = summary["cost"] * 0.95, summary["cost"] * 1.05
    cheapest = summary.sort_values("cost")["method"].iloc[0]
    view = (text(data), 1.0)
    fields = {
        "title": text(f"Which method is cheapest on {data}?"),
        "recommendations": {view: text(f"{cheapest} is cheapest.")},
        "facts": {text("Data"): text(f"{rows} rows of {k} classes")},
        "results": results,
        "summary": summary,
        "outcomes": outcomes,
        "histories": histories,
        "recommended": {view: cheapest},
        "unit": text("EUR"),
        "titles": {text(name): text(title) for name, title in TITLES.items()},
    }
    return ReportData(**{**fields, **changes})


def made_history(k, final, method, seed, epochs=12):
    """Epochs with a lambda for each class where the method adapts."""
    rng = np.random.default_rng(seed)
    logs, steps = np.zeros(k), []
    for epoch in range(1, epochs + 1):
        left = np.exp(-epoch / 4)
        costs = {"val_cost": float(final * (0.9 + left)), "train_cost": float(final * (0.6 + left))}
        step = {"epoch": epoch, "fold": 0, **costs}
        if method.startswith("adacsl"):
            logs = logs + left * np.random.default_rng(k).normal(size=k) * 0.5 + rng.normal(size=k) * 0.03
            step |= {"lambdas": np.exp(logs - logs.mean()).tolist(), "weights": [1.0] * k}
        steps.append(step)
    return steps
