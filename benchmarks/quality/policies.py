"""Capacity, referral and other class priors on drawn data whose law is known: how far from the best.

    python -m benchmarks.quality.policies --json benchmarks/results/cpu_policies.json
    python -m benchmarks.quality.policies --draws 1 --rows 5000 --fresh 20000              # does it run?

Samples of each class are normal, each class with its own mean and spread, so that the true probability of every sample
under any class prior is a formula. A method learns from 20,000 samples, of which 10 % are positive (three classes: 70,
20 and 10 %), and decides about 100,000 fresh ones. What its decisions cost is their expected cost by the true
probabilities: the chance of the labels is not in it.

- Capacity and referral against the best possible: the same costs and limits, decided by the true probabilities. That
  is optimal, which ``tests/decision/test_capacity.py`` checks by trying all ways. Bar: 1 %.
- Shares moved by a factor of 5, down and up, known or estimated on the fresh samples without labels, against the same
  method fitted to as many rows of the new shares. Bar: 5 %. What it costs not to move them is published beside.

Both learners are held to the bars. The logistic regression with squares has the form of the law, so that what is left
is what policies do with good probabilities; LightGBM has to find that form in 20,000 rows, and pays for it.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from adacsl import CostMatrix, CostSensitiveClassifier, Policy
from adacsl.decision import limit_action
from benchmarks.harness import arguments, metadata

ROWS, FRESH, DAYS = 20_000, 100_000, 50
CHECK, REFER, PER_DAY = 5.0, 3.0, 40
ERRORS = {"fp": 0.02, "fn": 0.1}
NEAR, KNOWN = 0.01, 0.05
"""The bars: costs above the best possible, and above a model that was fitted to the new shares."""

MEANS = np.asarray([[0.0, 0, 0, 0], [1.3, 0.9, 0, 0], [-0.8, 1.5, 0.7, 0]])
SPREADS = np.asarray([[1.0, 1, 1, 1], [1.2, 0.9, 1, 1], [0.8, 1.1, 1.3, 1]])
TWO, THREE = np.asarray([0.9, 0.1]), np.asarray([0.7, 0.2, 0.1])
MATRIX = CostMatrix.from_array([[0, 4, 20], [1, 0, 9], [3, 2, 0]], rows="predicted")
LEARNERS = {
    "logistic regression, squares": lambda: make_pipeline(
        StandardScaler(), PolynomialFeatures(2, include_bias=False), LogisticRegression(C=1.0, max_iter=1000)
    ),
    "LightGBM": lambda: "lightgbm",
}


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--fresh", type=int, default=FRESH)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    draws = pd.DataFrame(line for seed in range(options.draws) for line in one_draw(seed, options.rows, options.fresh))
    cases = summary(draws)
    print(pd.DataFrame(cases).to_string())
    met = all(case["met"] is not False for case in cases)
    if options.json is not None:
        info = {"title": "policies on drawn data whose law is known", **metadata("cpu")}
        sizes = {"rows": options.rows, "fresh": options.fresh, "draws": options.draws}
        options.json.write_text(json.dumps({**info, **sizes, "cases": cases, "met": met}, indent=2) + "\n")
    return int(not met)


# the law


def draw(rng: np.random.Generator, n: int, shares: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Return samples and classes."""
    y = rng.choice(len(shares), n, p=shares)
    return MEANS[y] + SPREADS[y] * rng.normal(size=(n, MEANS.shape[1])), y


def chances(x: Any, shares: np.ndarray[Any, Any]) -> Any:
    """Return the true probability of each class."""
    k = len(shares)
    logs = [-(((x - MEANS[j]) / SPREADS[j]) ** 2).sum(1) / 2 - np.log(SPREADS[j]).sum() for j in range(k)]
    powers = np.exp(np.stack(logs, axis=1)) * shares
    return powers / powers.sum(axis=1, keepdims=True)


# the cases


def one_draw(seed: int, rows: int, fresh: int) -> Any:
    for name, learner in LEARNERS.items():
        for shares, costs in ((TWO, CostMatrix(fp=CHECK, fn=60.0)), (THREE, MATRIX)):
            rng = np.random.default_rng(seed)
            x, y = draw(rng, rows, shares)
            model = CostSensitiveClassifier(costs, learner=learner(), select="log-loss", random_state=seed).fit(x, y)
            shown = {"learner": name, "classes": len(shares), "seed": seed}
            result = [*limits(model, rng, fresh, shares), *moved(model, learner, rng, rows, fresh, shares)]
            yield from (shown | line for line in result)


def limits(model: CostSensitiveClassifier, rng: np.random.Generator, n: int, shares: Any) -> Any:
    """Yield what capacity, referral and both cost, decided by the model and by the truth."""
    x, _ = draw(rng, n, shares)
    truth, days = chances(x, shares), rng.integers(0, DAYS, n)
    dates = np.datetime64("2026-01-01") + days
    amounts = rng.lognormal(3.5, 1.0, n)
    per_sample = {"fn": amounts} if len(shares) == 2 else {}
    costs = CostMatrix(fp=CHECK, fn=amounts) if per_sample else MATRIX
    default = {} if per_sample else {"action": "2"}
    refer: dict[str, Any] = {"refer": REFER, "errors": ERRORS} if per_sample else {"refer": 0.4, "errors": 0.05}
    person = costs.with_referral(refer["refer"], errors=refer["errors"])
    day = {"per": "day", "time": dates}
    for case, policy, all_costs, action, capacity in (
        ("capacity", Policy(capacity=n // 20, **default), costs, len(shares) - 1, n // 20),
        ("capacity of each day", Policy(capacity=PER_DAY, **day, **default), costs, len(shares) - 1, PER_DAY),
        ("a person who errs", Policy(**refer), person, None, None),
        ("a person, so many a day", Policy(capacity=PER_DAY, **day, **refer), person, len(shares), PER_DAY),
    ):
        ours = model.decisions(x, policy=policy, **per_sample).actions
        best = all_costs.decide(truth)
        if capacity is not None:
            each = all_costs.expected_of_each(truth)
            best = limit_action(each, action, capacity, days if policy.per else None).actions
        yield {"case": case, "ours": paid(all_costs, truth, ours), "against": paid(all_costs, truth, best)}


def moved(
    model: CostSensitiveClassifier, learner: Any, rng: np.random.Generator, rows: int, n: int, shares: Any
) -> Any:
    """Yield what decisions under another class prior cost, of the model that knows them, and of one fitted to them."""
    for factor, how in ((0.2, "a fifth"), (5.0, "five times as much")):
        last = shares[-1] * factor
        new = np.append(shares[:-1] * (1 - last) / shares[:-1].sum(), last)
        x, y = draw(rng, rows, new)
        knows = CostSensitiveClassifier(model.costs, learner=learner(), select="log-loss", random_state=0).fit(x, y)
        x, _ = draw(rng, n, new)
        truth, costs = chances(x, new), model.costs
        against = paid(costs, truth, knows.decisions(x).actions)
        prior = float(last) if len(shares) == 2 else new.tolist()
        for way, settings in (("known", {"prior": prior}), ("em", {"prior": "em"}), ("left alone", {})):
            ours = paid(costs, truth, model.decisions(x, **settings).actions)
            yield {"case": f"{how} of the last class, {way}", "ours": ours, "against": against}


def paid(costs: CostMatrix, truth: Any, actions: Any) -> float:
    """Return the mean expected cost of actions by the true probabilities."""
    return float(costs.expected(truth, actions).mean())


def summary(draws: pd.DataFrame) -> list[dict[str, Any]]:
    result = []
    for (case, classes, learner), part in draws.groupby(["case", "classes", "learner"], sort=False):
        bar = None if "left alone" in case else KNOWN if "last class" in case else NEAR
        excess = float(part["ours"].mean() / part["against"].mean() - 1)
        worst = float((part["ours"] / part["against"] - 1).max())
        result.append(
            {
                "case": case, "classes": int(classes), "learner": learner,
                "ours": part["ours"].mean(), "against": part["against"].mean(), "excess": excess, "worst": worst,
                "bar": bar, "met": None if bar is None else excess <= bar,
            }
        )  # fmt: skip
    return result


if __name__ == "__main__":
    sys.exit(main())
