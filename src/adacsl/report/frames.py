"""Data frames behind the figures of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.base.scores import likeliest
from adacsl.costs.matrix import CostMatrix, or_nan, scale_misses
from adacsl.metrics.bins import EqualWidth
from adacsl.metrics.calibration import calibration_error
from adacsl.report.data import Outcome
from adacsl.thresholds.curves import brier_curve, decision_curve, optimal_cost_curve
from adacsl.thresholds.search import cost_curve, find_threshold, subgroup_thresholds

with requires("compare"):
    import pandas as pd


EDGE = 1e-6
"""How near 0 or 1 a target may come: the tie rule of the core wants it strictly between them."""


def with_ratio(outcome: Outcome, ratio: float) -> CostMatrix:
    """Return the costs with another ratio of the two errors: fn moves, fp stays.

    With prices of each row ``ratio`` is the factor by which a miss gets dearer (1: as it was).
    """
    costs = outcome.costs
    if outcome.own_costs:
        return scale_misses(costs, ratio)
    return CostMatrix(fp=costs.fp, fn=costs.tp + ratio * (costs.fp - costs.tn), tp=costs.tp, tn=costs.tn)


def threshold_curve(outcome: Outcome) -> pd.DataFrame:
    """Return what every threshold costs: threshold, cost (per row), total_cost, and its two avoidable parts.

    As everywhere here, totals and numbers of cases are those of one repeat.
    """
    curve = cost_curve(outcome.scores, outcome.labels, outcome.costs)
    return pd.DataFrame(
        {
            "threshold": np.asarray(curve.thresholds, dtype=float).clip(0.0),
            "cost": curve.costs / outcome.n,
            "total_cost": outcome.per_repeat(curve.costs),
            "missed": curve.false_negatives / outcome.n,
            "alarmed": curve.false_positives / outcome.n,
        }
    )


def threshold_points(outcome: Outcome) -> pd.DataFrame:
    """Return the thresholds worth a mark on the curve: the chosen one, the cheapest with hindsight, and Bayes'."""
    points = []
    if outcome.threshold is not None:
        points.append(("chosen", float(outcome.threshold), _cost_at(outcome, outcome.threshold)))
    best = find_threshold(outcome.scores, outcome.labels, outcome.costs)
    points.append(("cheapest", max(best.value, 0.0), best.cost))
    if not outcome.own_costs:
        bayes = float(outcome.costs.threshold)
        points.append(("Bayes", bayes, _cost_at(outcome, bayes)))
    frame = pd.DataFrame(points, columns=["point", "threshold", "total_cost"])
    frame["cost"] = frame["total_cost"] / outcome.n
    return frame.assign(total_cost=outcome.per_repeat(frame["total_cost"]))


def thinned(curve: pd.DataFrame, points: int = 400) -> pd.DataFrame:
    """Return at most about ``points`` rows of a curve, ends and minimum among them: as many as a screen can show."""
    if len(curve) <= points:
        return curve
    along = np.searchsorted(curve["threshold"].to_numpy(), np.linspace(0.0, 1.0, points // 2), side="right") - 1
    evenly = np.linspace(0, len(curve) - 1, points // 2).round().astype(int)
    keep = np.unique(np.concatenate((along.clip(0), evenly, [int(curve["cost"].to_numpy().argmin())])))
    return curve.iloc[keep].reset_index(drop=True)


def subgroup_table(outcome: Outcome, *, bins: int = 10) -> pd.DataFrame:
    """Return the paper's Table 1: rows of similar score, and the threshold that is cheapest for each such subgroup.

    Among equally cheap thresholds T_m is the one nearest the chosen (else the Bayes) threshold: where T_m equals it,
    nothing is lost in that subgroup. ``cost`` is what the method's decisions cost there, ``cheapest_cost`` what T_m
    would have cost.
    """
    numbers = np.asarray(EqualWidth(bins)(outcome.scores))
    edges = np.arange(bins + 1) / bins
    best, _ = subgroup_thresholds(outcome.scores, outcome.labels, outcome.costs, numbers, target=_target(outcome))
    present = np.unique(numbers)
    paid = as_host(outcome.costs.incurred(outcome.labels, outcome.decisions))
    return pd.DataFrame(
        {
            "low": edges[present],
            "high": edges[present + 1],
            "n": outcome.per_repeat(np.bincount(numbers, minlength=bins)[present]),
            "positives": outcome.per_repeat(np.bincount(numbers[outcome.labels == 1], minlength=bins)[present]),
            "threshold": [found.value for found in best],
            "cheapest_cost": outcome.per_repeat(np.array([found.cost for found in best])),
            "cost": outcome.per_repeat(np.bincount(numbers, weights=paid, minlength=bins)[present]),
        }
    )


def confusion_table(outcome: Outcome) -> pd.DataFrame:
    """Return the confusion matrix in rows and in money: outcome, actual, decided, count, price (mean), total_cost."""
    paid = as_host(outcome.costs.incurred(outcome.labels, outcome.decisions))
    rows = []
    for name, actual, decided in (("tp", 1, 1), ("fn", 1, 0), ("fp", 0, 1), ("tn", 0, 0)):
        here = (outcome.labels == actual) & (outcome.decisions == decided)
        count, total = int(here.sum()), float(paid[here].sum())
        price = float(np.mean(as_host(getattr(outcome.costs, name)))) if count == 0 else total / count
        rows.append((name, actual, decided, outcome.per_repeat(count), price, outcome.per_repeat(total)))
    return pd.DataFrame(rows, columns=["outcome", "actual", "decided", "count", "price", "total_cost"])


def calibration_table(outcomes: Mapping[str, Outcome], *, bins: int = 10) -> pd.DataFrame:
    """Return, in bins of similar score, the mean score and the share of positives: equal where scores can be trusted.

    Of more than two classes: the probability of the likeliest one, and how often it was true.

    ``error`` is the expected calibration error of the method, the same in all its rows.
    """
    parts = []
    for name, outcome in outcomes.items():
        found = calibration_error(*likeliest(outcome.scores, outcome.labels), partition=EqualWidth(bins))
        columns = {"mean_score": found.mean_score, "positive_share": found.positive_share}
        columns["n"] = outcome.per_repeat(found.sizes)
        parts.append(pd.DataFrame({"method": name, **columns, "error": found.error}))
    return _stacked(parts, ["method", "mean_score", "positive_share", "n", "error"])


def brier_table(outcomes: Mapping[str, Outcome], *, points: int = 101) -> pd.DataFrame:
    """Return the Brier curve at evenly spaced cost proportions.

    Columns: method, proportion, loss, best_loss, area, positive_share.
    ``best_loss`` is what the best threshold would have reached: the gap is what better calibration could save. ``area``
    is the Brier score.
    """
    at = np.linspace(0.0, 1.0, points)
    parts = []
    for name, outcome in outcomes.items():
        curve, best = brier_curve(outcome.scores, outcome.labels), optimal_cost_curve(outcome.scores, outcome.labels)
        columns: dict[str, Any] = {"method": name, "proportion": at, "loss": _on_steps(curve.x, curve.y, at)}
        columns |= {"best_loss": np.interp(at, best.x, best.y), "area": curve.area}
        parts.append(pd.DataFrame({**columns, "positive_share": float(outcome.labels.mean())}))
    return _stacked(parts, ["method", "proportion", "loss", "best_loss", "area", "positive_share"])


def decision_table(outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
    """Return the net benefit at thresholds 0.01 .. 0.99: method, threshold, net_benefit, treat_all."""
    parts = []
    for name, outcome in outcomes.items():
        curve = decision_curve(outcome.scores, outcome.labels)
        columns = {"threshold": curve.thresholds, "net_benefit": curve.net_benefit, "treat_all": curve.treat_all}
        parts.append(pd.DataFrame({"method": name, **columns}))
    return _stacked(parts, ["method", "threshold", "net_benefit", "treat_all"])


def ratio_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return what each method cost at each ratio that ran: method, ratio, n, cost, normalized_cost (means of cells)."""
    if results.empty:
        return pd.DataFrame(columns=["method", "ratio", "n", "cost", "normalized_cost"])
    if "normalized_cost" not in results.columns:
        results = results.assign(normalized_cost=np.nan)
    groups = results.groupby(["method", "ratio"], sort=False)
    frame = groups.agg(n=("cost", "size"), cost=("cost", "mean"), normalized_cost=("normalized_cost", "mean"))
    return frame.reset_index()


def redecided_table(outcomes: Mapping[str, Outcome], ratios: Iterable[float]) -> pd.DataFrame:
    """Return what the same probabilities cost when they are decided anew for other ratios: no new training.

    Every row is decided at the Bayes threshold of the ratio (for prices of each row: of the factor on its misses).
    """
    rows = []
    for name, outcome in outcomes.items():
        for ratio in ratios:
            costs = with_ratio(outcome, float(ratio))
            decided = outcome.labels, costs.decide(outcome.scores)
            rows.append((name, float(ratio), costs.mean(*decided), or_nan(costs.normalized, *decided)))
    return pd.DataFrame(rows, columns=["method", "ratio", "cost", "normalized_cost"])


def epoch_table(histories: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
    """Return each method's lambda, T_actual and costs by epoch: means over splits and folds, with lowest and highest.

    Rounds of boosters are no epochs, and left out.
    """
    found = [{**step, "method": name, "split": split} for (name, split), own in histories.items() for step in own]
    steps = [step for step in found if "epoch" in step]
    names = [name for name in ("lambda", "threshold", "val_cost", "train_cost") if any(name in s for s in steps)]
    if not steps or not names:
        return pd.DataFrame(columns=["method", "epoch", "n"])
    frame = pd.DataFrame(steps)
    frame[names] = frame[names].astype(float)
    parts = {"n": ("split", "size")}
    for name in names:
        parts |= {name: (name, "mean"), f"{name}_low": (name, "min"), f"{name}_high": (name, "max")}
    return frame.groupby(["method", "epoch"], sort=False).agg(**parts).reset_index()


def optimism_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return how much dearer the test rows were than the validation rows that epoch and threshold were chosen on.

    Columns: method, n, validation_cost, cost, gap (cost - validation_cost), gap_share (of the test cost).
    """
    columns = ["method", "n", "validation_cost", "cost", "gap", "gap_share"]
    known = rows_with(results, "validation_cost")
    if known.empty:
        return pd.DataFrame(columns=columns)
    groups = known.groupby("method", sort=False)
    frame = groups.agg(n=("cost", "size"), validation_cost=("validation_cost", "mean"), cost=("cost", "mean"))
    frame["gap"] = frame["cost"] - frame["validation_cost"]
    frame["gap_share"] = frame["gap"] / frame["cost"].where(frame["cost"] != 0)
    return frame.reset_index().sort_values("cost", kind="stable", ignore_index=True)[columns]


def rows_with(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows that have a value in a column; none where there is no such column."""
    return table.dropna(subset=[column]) if column in table.columns else table.iloc[:0]


def _cost_at(outcome: Outcome, threshold: float) -> float:
    # in float64, as the page does it: numpy would round the threshold to the scores' own float32
    return outcome.costs.total(outcome.labels, (outcome.scores.astype(float) > threshold).astype(int))


def _target(outcome: Outcome) -> float:
    target = outcome.threshold if outcome.threshold is not None else float(outcome.costs.averaged().threshold)
    return min(max(float(target), EDGE), 1.0 - EDGE)


def _on_steps(x: NDArray[Any], y: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Read a curve of straight pieces that jumps between them (x holds each border twice) at some points."""
    left, right, start, end = x[0::2], x[1::2], y[0::2], y[1::2]
    piece = np.searchsorted(left, at, side="right") - 1
    width = right[piece] - left[piece]
    along = np.divide(at - left[piece], width, out=np.zeros_like(at), where=width > 0)
    return np.asarray(start[piece] + along * (end[piece] - start[piece]))


def _stacked(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def confusion_cells(outcome: Outcome) -> pd.DataFrame:
    """Return the confusion matrix in rows and in money, a row for each pair of classes; of one repeat.

    Columns: actual and decided (class numbers), count, price (the mean), total_cost, share (of all that was paid).
    """
    k = outcome.n_classes
    cell = outcome.decisions * k + outcome.labels
    count = np.bincount(cell, minlength=k * k).reshape(k, k)
    total = outcome.costs.confusion(outcome.labels, outcome.decisions)
    listed = outcome.costs.averaged().to_array()
    price = np.where(count > 0, total / np.maximum(count, 1), listed)
    paid = float(total.sum())
    decided, actual = np.indices((k, k)).reshape(2, -1)
    columns = {"actual": actual, "decided": decided, "count": outcome.per_repeat(count.ravel())}
    columns |= {"price": price.ravel(), "total_cost": outcome.per_repeat(total.ravel())}
    columns["share"] = total.ravel() / paid if paid else np.zeros(k * k)
    return pd.DataFrame(columns).sort_values(["actual", "decided"], ignore_index=True)


def class_costs(outcome: Outcome) -> pd.DataFrame:
    """Return what each class costs, a row for each true class; numbers and totals are of one repeat.

    Columns: class (its number), n, called (how many rows were called it), found (the share of its rows that were),
    cost (per row of it), total_cost, share (of all that was paid), worst (the class its dearest errors go to, -1 where
    there are none), worst_cost.
    """
    k = outcome.n_classes
    table = outcome.costs.reduced().confusion(outcome.labels, outcome.decisions)
    np.fill_diagonal(table, 0.0)
    total = outcome.costs.confusion(outcome.labels, outcome.decisions).sum(axis=0)
    n = np.bincount(outcome.labels, minlength=k)
    right = np.bincount(outcome.labels[outcome.labels == outcome.decisions], minlength=k)
    paid = float(total.sum())
    return pd.DataFrame(
        {
            "class": np.arange(k),
            "n": outcome.per_repeat(n),
            "called": outcome.per_repeat(np.bincount(outcome.decisions, minlength=k)),
            "found": _over(right, n),
            "cost": _over(total, n),
            "total_cost": outcome.per_repeat(total),
            "share": total / paid if paid else np.zeros(k),
            "worst": np.where(table.max(axis=0) > 0, table.argmax(axis=0), -1),
            "worst_cost": outcome.per_repeat(table.max(axis=0)),
        }
    )


def costs_by_method(outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
    """Return the cost per row of each true class, a row for each class and a column for each method."""
    return pd.DataFrame({name: class_costs(outcome)["cost"] for name, outcome in outcomes.items()})


def class_lambdas(
    histories: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]], names: Sequence[str], method: str | None = None
) -> pd.DataFrame:
    """Return the lambda of each class by epoch (geometric means over splits and folds): method, class, epoch, lambda.

    Of the method named, else of the first that has lambdas at all.
    """
    steps = [
        (name, step["epoch"], np.log(step["lambdas"]))
        for (name, _), own in histories.items()
        for step in own
        if "epoch" in step and step.get("lambdas") is not None
    ]
    wanted = method or next((name for name, _, _ in steps), None)
    rows = [(names[j], e, value) for name, e, logs in steps if name == wanted for j, value in enumerate(logs)]
    frame = pd.DataFrame(rows, columns=["class", "epoch", "lambda"]).assign(method=wanted)
    found = frame.groupby(["method", "class", "epoch"], sort=False, dropna=False)["lambda"].mean().reset_index()
    return found.assign(**{"lambda": np.exp(found["lambda"].astype(float))})


def rule_of(outcome: Outcome) -> str:
    """Return by which rule decisions follow from the probabilities, and can be made anew at other prices.

    "likeliest": the likeliest class, blind to prices. "cheapest": the class of least expected cost. "kept": neither.
    """
    if outcome.rule == "half":
        return "likeliest"
    cheapest = as_host(outcome.costs.decide(outcome.scores.astype(np.float64)))
    return "cheapest" if np.array_equal(cheapest, outcome.decisions) else "kept"


def _over(amount: NDArray[Any], n: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.divide(amount, n, out=np.full(len(n), np.nan), where=n > 0))


POINTS = 61
"""So many prices of a referral, or numbers of checks, make a curve."""

WORTH = 0.01
"""A referral that saves less than this share of the cost is not worth its trouble."""


def referral_table(outcome: Outcome, *, points: int = POINTS) -> pd.DataFrame:
    """Return what a person who decides rightly would mean, at prices up to one at which hardly any case goes to them.

    A case is referred where that costs less than its decision is expected to cost (above being right). Columns: price,
    referred (share of the cases), cost (per case, referrals included).
    """
    risk, paid, base = _risks(outcome)
    order = np.argsort(-risk, kind="stable")
    # without the dearest per cent: one case of a great price would stretch the axis
    high = float(np.quantile(risk, 0.99)) * 1.05
    prices = np.linspace(0.0, high, points)
    referred = np.searchsorted(-risk[order], -prices, side="left")  # those that risk more than the price
    saved = np.concatenate(([0.0], np.cumsum(paid[order])))
    cost = base + (saved[-1] - saved[referred] + prices * referred) / outcome.n
    return pd.DataFrame({"price": prices, "referred": referred / outcome.n, "cost": cost})


def break_even(outcome: Outcome, table: pd.DataFrame) -> float:
    """Return up to which price a referral is worth it: where it stops saving a hundredth of the (avoidable) cost.

    Infinity where the dearest per cent of the cases alone is worth more than the prices of the table.
    """
    _, paid, base = _risks(outcome)
    avoidable = float(paid.mean())
    saved = base + avoidable - table["cost"].to_numpy()
    enough = saved > WORTH * avoidable
    if enough.all() or not enough[0]:
        return float("inf") if enough.all() else 0.0
    last = int(np.argmin(enough)) - 1
    prices = table["price"].to_numpy()
    fall = (saved[last] - WORTH * avoidable) / (saved[last] - saved[last + 1])
    return float(prices[last] + fall * (prices[last + 1] - prices[last]))


def capacity_table(outcome: Outcome, *, points: int = POINTS) -> pd.DataFrame:
    """Return what a limited number of checks (cases called positive) would mean, of two classes.

    Cases are checked in the order of what a check is expected to save; the others are called negative. Columns: checked
    (share of the cases; up to all for which a check is worth it), cost (per case), by_probability (the cost where the
    likeliest cases are checked instead; differs where cases have prices of their own).
    """
    scores = outcome.scores.astype(np.float64)
    each = as_host(outcome.costs.expected_of_each(scores))
    gains = each[:, 0] - each[:, 1]
    wanted = int((gains > 0).sum())
    counts = np.unique(np.linspace(0, wanted, min(points, wanted + 1)).round().astype(int))
    never, always = (_paid(outcome, action) for action in (0, 1))
    costs = []
    for order in (np.argsort(-gains, kind="stable"), np.argsort(-scores, kind="stable")):
        saved = np.concatenate(([0.0], np.cumsum((never - always)[order])))
        costs.append((never.sum() - saved[counts]) / outcome.n)
    return pd.DataFrame({"checked": counts / outcome.n, "cost": costs[0], "by_probability": costs[1]})


def _paid(outcome: Outcome, action: int) -> NDArray[np.float64]:
    return np.asarray(as_host(outcome.costs.incurred(outcome.labels, np.full(outcome.n, action))), dtype=np.float64)


def _risks(outcome: Outcome) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return what each decision was expected to cost and did cost above being right, and what being right costs."""
    avoidable = outcome.costs.reduced()
    risk = as_host(avoidable.expected(outcome.scores.astype(np.float64), outcome.decisions))
    paid = as_host(avoidable.incurred(outcome.labels, outcome.decisions))
    whole = as_host(outcome.costs.incurred(outcome.labels, outcome.decisions))
    return np.asarray(risk), np.asarray(paid), float((whole - paid).mean())
