"""Make the documentation's figures, each in a light and a dark version.

python docs/figures.py                # all of them
python docs/figures.py crossfit       # some
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from scipy import stats
from torch import nn

from adacsl import AdaCSLController, CostMatrix, cost_curve, find_threshold
from adacsl.adaptive import QuantileBins, step_factor
from adacsl.comparison.protocol import Protocol
from adacsl.datasets import load_dataset
from adacsl.metrics import calibration_error
from adacsl.thresholds import brier_curve, decision_curve, optimal_cost_curve
from adacsl.torch import AdaptiveCrossEntropy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.quality.common_practice import linear

FOLDER = Path(__file__).resolve().parent / "_static" / "figures"
LOOKS = {
    "light": {"ink": "#24292f", "faint": "#d0d7de", "colors": ["#0969da", "#bc4c00", "#1a7f37", "#8250df"]},
    "dark": {"ink": "#e6edf3", "faint": "#3d444d", "colors": ["#58a6ff", "#f0883e", "#3fb950", "#bc8cff"]},
}
COSTS = CostMatrix(fp=1, fn=8)


def main() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Callable[[], Callable[[dict[str, Any]], Any]]] = {
        "overview": lambda: overview(train_run()),
        "costs": lambda: expected_costs,
        "thresholds": lambda: tied_intervals,
        "lambda": lambda: update_rules,
        "calibration": lambda: corrected_probabilities(weighted_run()),
        "crossfit": lambda: crossfit,
        "credit": lambda: credit_cost(credit_run()),
        "curves": lambda: credit_curves(credit_run()),
        "which": lambda: which_method,
        "peers": lambda: peers(committed_peers()),
        "scale": lambda: scale_plan(committed_plan()),
        "adacsl": lambda: adaptation(fixed_run(), committed_claims()),
    }
    wanted = [name for name in figures if name in sys.argv] or list(figures)
    drawn = {name: figures[name]() for name in wanted}
    for look, style in LOOKS.items():
        for name, draw in drawn.items():
            with mpl.rc_context(settings(style)):
                figure = draw(style)
                figure.savefig(FOLDER / f"{name}-{look}.svg", metadata={"Date": None}, transparent=True)
                if "--png" in sys.argv:
                    figure.savefig(
                        FOLDER / f"{name}-{look}.png", dpi=110, facecolor="#ffffff" if look == "light" else "#131416"
                    )
                plt.close(figure)


def settings(style: dict[str, Any]) -> dict[str, Any]:
    ink = style["ink"]
    return {
        "svg.hashsalt": "adacsl", "svg.fonttype": "path", "font.size": 10, "font.family": "DejaVu Sans",
        "text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink, "xtick.color": ink, "ytick.color": ink,
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10, "axes.titlelocation": "left",
        "axes.facecolor": "none", "axes.prop_cycle": mpl.cycler(color=style["colors"]), "legend.frameon": False,
        "figure.constrained_layout.use": True,
    }  # fmt: skip


# data: drawn, so that the true probability is known


def draw_data(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 10 features and labels whose true probability is sigmoid(2 x0 + 2 x1 x2 - 2.5)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=generator)
    p = torch.sigmoid(2 * x[:, 0] + 2 * x[:, 1] * x[:, 2] - 2.5)
    return x, (torch.rand(n, generator=generator) < p).float()


def fit(
    epochs: int, n_train: int, seed: int = 0, *, adapted: bool = True
) -> tuple[nn.Module, AdaptiveCrossEntropy, Any, Any]:
    """Train a small network with the adaptive loss; return it, the loss, validation scores and labels."""
    (x, y), (val_x, val_y) = draw_data(n_train, 1), draw_data(2000, 2)
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 1), nn.Flatten(0))
    loss = AdaptiveCrossEntropy(COSTS)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(n_train).split(64):
            optimizer.zero_grad()
            loss(net(x[batch]), y[batch]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            logits = net(val_x)
        if adapted:
            loss.adapt(logits, val_y)
        net.train()
    return net, loss, torch.sigmoid(logits).numpy(), val_y.numpy()


def train_run() -> Any:
    return fit(epochs=30, n_train=4000)


def weighted_run() -> Any:
    return fit(epochs=12, n_train=20000)


def fixed_run() -> Any:
    return fit(epochs=30, n_train=1000, adapted=False)


def credit_run() -> tuple[Any, Any, CostMatrix]:
    """Return probabilities of a logistic regression in the folds of the benchmark (German credit), labels and costs."""
    task, protocol, scores, labels = load_dataset("german-credit"), Protocol(folds=5), [], []
    for number in range(10):
        train, tested = protocol.split(task, number)
        model = linear().fit(task.X.iloc[train], task.y[train])
        scores.append(model.predict_proba(task.X.iloc[tested])[:, 1])
        labels.append(task.y[tested])
    return np.concatenate(scores), np.concatenate(labels), task.costs


# figures


def credit_cost(run: Any) -> Callable[[dict[str, Any]], Any]:
    scores, labels, costs = run
    curve = cost_curve(scores, labels, costs)
    rule = {name: costs.mean(labels, scores > at) for name, at in (("half", 0.5), ("bayes", costs.threshold))}
    refused = costs.mean(labels, np.ones_like(labels))

    def draw(style: dict[str, Any]) -> Any:
        blue, orange, green, _ = style["colors"]
        figure, axis = plt.subplots(figsize=(8.4, 3.2))
        axis.plot(curve.thresholds, curve.costs, lw=1.8, color=blue, drawstyle="steps-post")
        axis.axhline(refused, color=style["ink"], lw=1, ls=":")
        axis.text(0.99, refused - 0.02, "refuse all applicants", ha="right", va="top")
        for at, cost, color, words, to in (
            (0.5, rule["half"], orange, f"predict at threshold 0.5: {rule['half']:.2f}", (-8, 10)),
            (costs.threshold, rule["bayes"], green, f"Bayes threshold 1/6: {rule['bayes']:.2f}", (12, -22)),
        ):
            axis.plot([at], [cost], "o", color=color, ms=8)
            axis.annotate(words, (at, cost), to, textcoords="offset points", color=color, weight="bold",
                          ha="right" if to[0] < 0 else "left")  # fmt: skip
        axis.set(xlabel="refuse above this probability of a bad credit", xlim=(0, 1), ylim=(0.3, 1.55),
                 title="Cost per applicant, the same model, every threshold")  # fmt: skip
        return figure

    return draw


def credit_curves(run: Any) -> Callable[[dict[str, Any]], Any]:
    scores, labels, costs = run
    trusted, best, benefit = (
        brier_curve(scores, labels),
        optimal_cost_curve(scores, labels),
        decision_curve(scores, labels),
    )

    def draw(style: dict[str, Any]) -> Any:
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.3))
        left.plot(trusted.x, trusted.y, lw=1.5, label="the scores, trusted (Brier curve)")
        left.plot(best.x, best.y, lw=1.5, label="best threshold (cost curve)")
        share = labels.mean()
        at = np.linspace(0, 1, 101)
        left.plot(at, 2 * np.minimum(at * (1 - share), (1 - at) * share), color=style["ink"], lw=1, ls=":",
                  label="best constant decision")  # fmt: skip
        left.set(xlabel="Bayes threshold: which prices", title="Loss under every price", xlim=(0, 1), ylim=(0, None))
        left.legend(loc="upper right", fontsize=8)
        right.plot(benefit.thresholds, benefit.net_benefit, lw=1.5, label="the model")
        right.plot(benefit.thresholds, benefit.treat_all, lw=1, ls="--", label="refuse everybody")
        right.axhline(0, color=style["ink"], lw=1, ls=":", label="refuse nobody")
        right.axvline(costs.threshold, color=style["ink"], lw=1, ls=":")
        right.set(xlabel="threshold", title="Net benefit (decision curve)", xlim=(0, 0.8), ylim=(-0.1, 0.32))
        right.legend(loc="upper right", fontsize=8)
        return figure

    return draw


def overview(run: Any) -> Callable[[dict[str, Any]], Any]:
    _, loss, scores, labels = run
    curve, best = cost_curve(scores, labels, COSTS), find_threshold(scores, labels, COSTS)
    steps = loss.controller.history

    def draw(style: dict[str, Any]) -> Any:
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.3))
        left.plot(curve.thresholds, curve.costs, lw=1.5, drawstyle="steps-post")
        left.axvline(0.5, color=style["ink"], lw=1, ls=":")
        left.plot([best.value], [best.cost], "o", color=style["colors"][1], ms=7, clip_on=False)
        left.annotate(
            f"optimal: {best.value:.3f}", (best.value, best.cost), (-4, -19),
            textcoords="offset points", ha="left", color=style["colors"][1],
        )  # fmt: skip
        left.text(0.515, left.get_ylim()[1] * 0.96, "T'", va="top")
        left.set(
            xlabel="threshold",
            xlim=(0, 1),
            ylim=(0, None),
            title="Validation cost per sample, every threshold, last epoch",
        )
        epochs = range(1, len(steps) + 1)
        right.plot(epochs, [s.thresholds[0] for s in steps], "o-", ms=3, lw=1, label="cost-optimal threshold")
        right.plot(epochs, [s.lambda_ for s in steps], "s-", ms=3, lw=1, label="lambda")
        right.axhline(0.5, color=style["ink"], lw=1, ls=":")
        right.text(len(steps) + 1, 0.52, "T'", va="bottom")
        right.set(
            xlabel="epoch", xlim=(0, len(steps) + 2), ylim=(0, None), title="What the controller measured, and did"
        )
        right.legend(loc="upper right")
        return figure

    return draw


COMPARISONS = (
    ("last epoch: Bayes threshold", "adacsl", "net-bayes", "HAM10K; one, last"),
    ("last epoch: fixed weight", "adacsl", "net-weighted", "HAM10K; one, last"),
    (
        "last epoch: fixed weight, both calibrated",
        "adacsl-calibrated",
        "net-weighted-calibrated",
        "HAM10K; one, last",
    ),
    ("best epoch: Bayes threshold", "adacsl", "net-bayes", "HAM10K; one, best"),
    ("best epoch: fixed weight", "adacsl", "net-weighted", "HAM10K; one, best"),
    ("adapted on 2 % of the lesions: fixed weight", "adacsl", "net-weighted",
     "HAM10K; one, best; smaller validation set, 0.02"),
)  # fmt: skip


def committed_claims() -> list[tuple[str, float, float, float]]:
    """Return comparisons of the committed page of claims: excess cost of AdaCSL in percent at k = 3, its interval."""
    root = Path(__file__).resolve().parent.parent
    text = (root / "benchmarks/results/claims.md").read_text(encoding="utf-8")
    result = []
    for words, ours, theirs, where in COMPARISONS:
        row = re.search(rf"^\| \d+ \| {ours} \| {theirs} \| {re.escape(where)} \|[^|]*\|([^|]*)\|", text, re.MULTILINE)
        if row is None:
            raise LookupError(f"no comparison of {ours} with {theirs} for {where}")
        middle, low, high = (float(number) for number in re.findall(r"[-+]?\d+\.\d+", row[1]))
        result.append((words, middle, low, high))
    return result


def adaptation(run: Any, rows: list[tuple[str, float, float, float]]) -> Callable[[dict[str, Any]], Any]:
    """Draw what the controller measures, and how AdaCSL compares with a threshold and a fixed weight."""
    _, _, scores, labels = run
    curve, best = cost_curve(scores, labels, COSTS), find_threshold(scores, labels, COSTS)

    def draw(style: dict[str, Any]) -> Any:
        blue, orange, *_ = style["colors"]
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), width_ratios=(1, 1.05))
        left.plot(curve.thresholds, curve.costs, lw=1.5, drawstyle="steps-post")
        left.axvline(0.5, color=style["ink"], lw=1, ls=":")
        left.text(0.515, 1.17, "target T' = 0.5", va="top")
        left.plot([best.value], [best.cost], "o", color=orange, ms=7)
        left.annotate(f"optimal: {best.value:.2f}", (best.value, best.cost), (0, -17), textcoords="offset points",
                      ha="center", color=orange)  # fmt: skip
        left.annotate("", (0.5, 0.17), (best.value, 0.17), arrowprops={"arrowstyle": "->", "color": orange, "lw": 1.6})
        left.text(0.515, 0.17, f"lambda x {step_factor(best.value):.2f}", color=orange, va="center")
        left.set(xlabel="threshold", xlim=(0, 1), ylim=(0, 1.2), title="1. Validation cost after an epoch")
        places = range(len(rows))[::-1]
        for place, (_, middle, low, high) in zip(places, rows, strict=True):
            color = blue if high < 0 else orange if low > 0 else style["ink"]
            right.plot([low, high], [place, place], "-", color=color, lw=1.6)
            right.plot([middle], [place], "o", color=color, ms=6)
        right.axvline(0, color=style["ink"], lw=1, ls=":")
        right.set_yticks(list(places), [row[0] for row in rows], fontsize=8.5)
        right.set(
            xlabel="cost of AdaCSL against it, %",
            ylim=(-0.6, len(rows) - 0.4),
            title="2. Skin lesions, inverse priors, k = 3",
        )
        return figure

    return draw


def expected_costs(style: dict[str, Any]) -> Any:
    p = np.linspace(0, 1, 101)
    figure, axis = plt.subplots(figsize=(5.6, 3.1))
    axis.plot(p, COSTS.expected(p, np.zeros(101, dtype=int)), label="say negative: 8 p")
    axis.plot(p, COSTS.expected(p, np.ones(101, dtype=int)), label="say positive: 1 (1 - p)")
    axis.plot(p, COSTS.expected(p), color=style["ink"], lw=3, alpha=0.35, label="the cheaper one")
    axis.axvline(COSTS.threshold, color=style["ink"], lw=1, ls=":")
    axis.text(COSTS.threshold + 0.015, 0.08, "T = 1 / 9")
    axis.set(xlabel="probability of the positive class", ylabel="expected cost", xlim=(0, 1), ylim=(0, 2.1))
    axis.legend(loc="upper right")
    return figure


def tied_intervals(style: dict[str, Any]) -> Any:
    scores, labels = np.asarray([0.08, 0.15, 0.3, 0.42, 0.62, 0.7, 0.85]), np.asarray([0, 0, 1, 0, 0, 0, 1])
    costs = CostMatrix(fp=1, fn=3)
    curve = cost_curve(scores, labels, costs)
    best = find_threshold(scores, labels, costs)
    figure, axis = plt.subplots(figsize=(6.2, 3.1))
    edges = np.append(curve.thresholds, 1)
    edges[0] = 0
    for low, high, cost in zip(edges[:-1], edges[1:], curve.total_costs, strict=True):
        color = style["colors"][1] if cost == best.total_cost else style["colors"][0]
        axis.plot([low, high], [cost, cost], lw=3, color=color, solid_capstyle="butt")
    for label, marker in ((0, "o"), (1, "^")):
        axis.plot(scores[labels == label], [0.35] * int((labels == label).sum()), marker, color=style["ink"], ms=6,
                  label=("negative", "positive")[label])  # fmt: skip
    axis.axvline(0.5, color=style["ink"], lw=1, ls=":")
    axis.text(0.51, 6.4, "T'")
    axis.plot([best.value], [best.total_cost], "D", color=style["colors"][1], ms=7)
    axis.annotate(f"selected: {best.value:.3f}", (best.value, best.total_cost), (8, 9), textcoords="offset points",
                  color=style["colors"][1])  # fmt: skip
    axis.set(xlabel="threshold", ylabel="cost", xlim=(0, 1), ylim=(0, 7))
    axis.legend(loc="upper left")
    return figure


def update_rules(style: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.1), sharey=True)
    for axis, target in zip(axes, (0.5, 0.2), strict=True):
        at = np.linspace(0.02, 0.98, 193)
        axis.plot(at, [step_factor(t, target) for t in at], label="exponential (eq. 7, the paper)")
        axis.plot(at, [step_factor(t, target, update="odds") for t in at], ls="--", label="odds (exact)")
        axis.axvline(target, color=style["ink"], lw=1, ls=":")
        axis.axhline(1, color=style["ink"], lw=1, ls=":")
        label = "cost-optimal threshold of the subgroup"
        axis.set(xlabel=label, yscale="log", ylim=(5e-3, 300), title=f"T' = {target}")
    axes[0].set_ylabel("lambda is multiplied by")
    axes[1].legend(loc="lower right")
    return figure


def crossfit(style: dict[str, Any]) -> Any:
    folds, (blue, orange, *_) = 5, style["colors"]
    on_orange = "#ffffff" if style is LOOKS["light"] else "#131416"
    figure, axis = plt.subplots(figsize=(8.4, 3.3))
    for net in range(folds):
        for fold in range(folds):
            adapts = net == fold
            axis.add_patch(box((fold, net), orange if adapts else blue, 0.85 if adapts else 0.25))
            axis.text(fold + 0.47, net + 0.4, "adapts" if adapts else "trains", ha="center", va="center",
                      color=on_orange if adapts else style["ink"], fontsize=9)  # fmt: skip
        axis.text(-0.15, net + 0.4, f"net {net + 1}", ha="right", va="center")
        axis.text(folds + 0.1, net + 0.4, f"logit of net {net + 1}", va="center", fontsize=9)
        axis.text(net + 0.47, -0.2, f"fold {net + 1}", ha="center", va="bottom")
    axis.add_patch(box((0, folds + 0.45), orange, 0.85, width=folds - 0.06))
    axis.text(-0.15, folds + 0.85, "all samples", ha="right", va="center")
    axis.text(2.47, folds + 0.85, "out-of-fold scores: steer lambda, tune, estimate the cost", ha="center", va="center",
              color=on_orange, fontsize=9)  # fmt: skip
    axis.plot([6.15, 6.25, 6.25, 6.15], [0.1, 0.1, folds - 0.3, folds - 0.3], color=style["ink"], lw=1)
    axis.text(6.4, folds / 2 - 0.1, "mean: the score\nof a new row", va="center", fontsize=9)
    axis.set(xlim=(-0.9, 7.7), ylim=(folds + 1.4, -0.7))
    axis.axis("off")
    return figure


def which_method(style: dict[str, Any]) -> Any:
    """Draw where to begin: questions, ways on, and what to take."""
    blue, orange, green, _ = style["colors"]
    figure, axis = plt.subplots(figsize=(8.6, 3.9))
    boxes = {
        "probabilities": (0, 3, "a model that\ngives probabilities?", blue),
        "enough": (1, 3, "costs.decide(p):\ncheap enough?", blue),
        "done": (2, 3, "done", green),
        "calibrate": (2, 2, 'Decision(costs, "calibrated")\non held-out samples', orange),
        "data": (0, 1, "what are your data?", blue),
        "table": (1, 1.5, "adacsl compare\nlogistic, boosting, ensemble, ...", orange),
        "images": (1, 0.75, "pretrained weights,\ncv=5", orange),
        "loop": (1, 0, "AdaptiveCrossEntropy and\nloss.adapt, or costs.decide", orange),
        "fit": (2, 1.1, "found.fit(X, y), save", green),
    }
    for x, y, words, color in boxes.values():
        axis.text(3 * x, y, words, ha="center", va="center", fontsize=9,
                  bbox={"boxstyle": "round,pad=0.45", "fc": "none", "ec": color, "lw": 1.5})  # fmt: skip
    for start, end, words in (
        ("probabilities", "enough", "yes"), ("enough", "done", "yes"), ("enough", "calibrate", "no"),
        ("probabilities", "data", "no"), ("data", "table", "a table"), ("data", "images", "images"),
        ("data", "loop", "your own loop"), ("table", "fit", ""), ("images", "fit", ""),
    ):  # fmt: skip
        (x, y, *_), (to_x, to_y, *_) = boxes[start], boxes[end]
        down = x == to_x
        tail, head = (
            (3 * x + (0 if down else 0.95), y - 0.3 * down),
            (3 * to_x - (0 if down else 1.15), to_y + 0.2 * down),
        )
        axis.annotate("", head, tail, arrowprops={"arrowstyle": "->", "color": style["ink"], "lw": 1})
        middle = (tail[0] + head[0]) / 2, (tail[1] + head[1]) / 2
        if down:
            axis.text(middle[0] + 0.12, middle[1], words, fontsize=8, ha="left", va="center")
        elif tail[1] - head[1] > 0.5:  # below an arrow that falls
            axis.text(middle[0] - 0.1, middle[1] - 0.08, words, fontsize=8, ha="right", va="top")
        else:
            axis.text(middle[0], middle[1] + 0.1, words, fontsize=8, ha="center", va="bottom")
    axis.set(xlim=(-1.1, 7.4), ylim=(-0.4, 3.4))
    axis.axis("off")
    return figure


def committed_plan() -> dict[str, Any]:
    folder = Path(__file__).resolve().parent.parent / "benchmarks/results"
    result = [folder / f"{name}.json" for name in ("cpu_scale_plan", "cpu_busy_scale_plan")]
    return json.loads(next(path for path in result if path.exists()).read_text())


def scale_plan(document: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    """Draw how long a billion rows take by the number of cores; without losses and stragglers, dashed."""

    def draw(style: dict[str, Any]) -> Any:
        figure, axis = plt.subplots(figsize=(6.4, 3.4))
        for name, color in zip(document["parts"]["models"], style["colors"], strict=False):
            plans = [each for each in document["plans"] if each["model"] == name]
            cores = [each["cores"] for each in plans]
            axis.fill_between(
                cores, *([each[end] / 3600 for each in plans] for end in ("low", "high")), color=color, alpha=0.2, lw=0
            )
            axis.plot(cores, [each["seconds"] / 3600 for each in plans], "o-", color=color, ms=4, label=name)
            axis.plot(cores, [each["ideal_seconds"] / 3600 for each in plans], "--", color=color, lw=1)
        axis.set(xscale="log", yscale="log", xlabel="cores", ylabel="hours for a billion rows (simulated)")
        axis.set_xticks(cores, [str(each) for each in cores])
        axis.minorticks_off()
        axis.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
        axis.grid(color=style["faint"], lw=0.6)
        axis.legend()
        return figure

    return draw


def committed_peers() -> Any:
    """Return each method's cost relative to the ensemble: geometric mean over tables and its interval, best first."""
    path = Path(__file__).resolve().parent.parent / "benchmarks/results/arena.csv"
    rows = pd.read_csv(path).assign(total=lambda frame: frame["cost"] * frame["n_test"])
    sums = rows.groupby(["table", "method"])[["total", "n_test"]].sum()
    logs = np.log((sums["total"] / sums["n_test"]).unstack()).drop(columns="constant")
    logs = logs.sub(logs["ensemble"], axis=0)
    n = logs.count()
    about = pd.DataFrame({"mean": logs.mean(), "reach": stats.t.ppf(0.975, n - 1) * logs.std() / np.sqrt(n), "n": n})
    return about.sort_values("mean")


def peers(about: Any) -> Callable[[dict[str, Any]], Any]:
    """Draw what other methods cost relative to the ensemble."""

    def draw(style: dict[str, Any]) -> Any:
        figure, axis = plt.subplots(figsize=(6.4, 3.9))
        for place, (name, row) in enumerate(about.iterrows()):
            color = style["colors"][1 if name in ("ensemble", "adacsl", "adacsl-cv") else 0]
            low, middle, high = (math.exp(row["mean"] + sign * row["reach"]) for sign in (-1, 0, 1))
            axis.plot([low, high], [place, place], color=color, lw=2)
            axis.plot(middle, place, "o", color=color, ms=5)
        axis.axvline(1, color=style["ink"], lw=1, ls=":")
        axis.set(xscale="log", xlabel="cost relative to the ensemble (left: less); tables in brackets")
        axis.set_yticks(range(len(about)), [f"{name} ({row['n']:.0f})" for name, row in about.iterrows()])
        axis.set_xticks([0.75, 1, 1.5, 2, 3], ["0.75", "1", "1.5", "2", "3"])
        axis.minorticks_off()
        axis.invert_yaxis()
        axis.grid(axis="x", color=style["faint"], lw=0.6)
        return figure

    return draw


def box(corner: tuple[float, float], color: str, alpha: float, width: float = 0.94) -> Any:
    return mpl.patches.Rectangle(corner, width, 0.8, color=color, alpha=alpha, lw=0)


def corrected_probabilities(run: Any) -> Callable[[dict[str, Any]], Any]:
    _, loss, scores, labels = run
    controller: AdaCSLController = loss.controller
    raw = calibration_error(scores, labels, partition=QuantileBins(12))
    fixed = calibration_error(controller.correct(scores), labels, partition=QuantileBins(12))

    def draw(style: dict[str, Any]) -> Any:
        figure, axis = plt.subplots(figsize=(4.6, 3.9))
        axis.plot([0, 1], [0, 1], color=style["ink"], lw=1, ls=":")
        axis.plot(raw.mean_score, raw.positive_share, "o-", ms=4, lw=1, label=f"raw scores, error {raw.error:.3f}")
        axis.plot(fixed.mean_score, fixed.positive_share, "s-", ms=4, lw=1, label=f"correct(), error {fixed.error:.3f}")
        axis.set(xlabel="mean score of the bin", ylabel="share of positives", xlim=(0, 1), ylim=(0, 1))
        axis.legend(loc="upper left")
        return figure

    return draw


if __name__ == "__main__":
    main()
