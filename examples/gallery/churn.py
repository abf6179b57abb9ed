"""Churn: whom to offer a discount.

A discount of 20 keeps half of the customers who would leave; a customer who leaves costs 200 in lost revenue. Whom to
offer it? The costs follow from these numbers; several methods are compared with confidence intervals.

The customers are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import adacsl

# %%
# The customers
#
# About one in six leaves: the classes are imbalanced.

rng = np.random.default_rng(1)
n = 1500
customers = pd.DataFrame(
    {
        "months": rng.exponential(20, n).round(),
        "complaints": rng.poisson(0.6, n),
        "usage_change": rng.normal(0, 1, n).round(2),
        "contract": rng.choice(["monthly", "yearly"], n, p=[0.6, 0.4]),
    }
)
odds = -2.6 + 0.9 * customers["complaints"] - 0.8 * customers["usage_change"] - 0.03 * customers["months"]
odds += 0.8 * (customers["contract"] == "monthly")
leaves = pd.Series(np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "leaves", "stays"))
print(leaves.value_counts().to_string())

# %%
# From business numbers to costs
#
# Without an offer a customer who leaves costs 200. With it, 20 and half of the time 200. A customer who stays costs
# 20 with an offer. Only differences matter: threshold 0.2, not 0.5.

costs = adacsl.CostMatrix(tp=20 + 0.5 * 200, fn=200, fp=20, tn=0)
print(f"offer above a probability of {costs.threshold:.2f}")

# %%
# The comparison
#
# Two repeats of five folds; intervals are of paired per-sample costs.

result = adacsl.compare(
    customers,
    leaves,
    costs,
    pos_label="leaves",
    methods=["always-negative", "always-positive", "logistic", "gbm-bayes"],
    folds=5,
    repeats=2,
    n_jobs=1,
    progress=False,
)
table = result.table.sort_values("mean")
print(table[["method", "mean", "low", "high"]].round(1).to_string(index=False))
print(result.recommendation)

# %%
# The costs with their intervals
#
# Methods whose intervals overlap may still differ significantly: the comparison is paired.

figure, axis = plt.subplots(figsize=(6.4, 2.6))
place = np.arange(len(table))
axis.errorbar(table["mean"], place, xerr=[table["mean"] - table["low"], table["high"] - table["mean"]], fmt="o")
axis.set_yticks(place, table["method"])
axis.invert_yaxis()
axis.set(xlabel="cost per customer, 95 % interval", xlim=(0, None))
