"""Card fraud: a false negative costs the amount.

A missed fraud costs the amount of the payment, a check costs 5 whatever the amount. So each payment has its own
cost-optimal threshold. How much does that save, compared with one threshold for all payments?

The payments are simulated. Real ones, with intervals: [evidence](../evidence.md#per-sample-costs).
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacsl import CostMatrix, CostSensitiveClassifier, find_threshold

# %%
# The payments
#
# Frauds are rare, and small payments are as often fraudulent as large ones.

rng = np.random.default_rng(0)
n = 20_000
cards = pd.DataFrame(
    {"amount": rng.lognormal(3.5, 1.3, n).round(2), "abroad": rng.random(n) < 0.15, "hour": rng.integers(0, 24, n)}
)
risk = -5.2 + 1.8 * cards["abroad"] + 1.5 * (cards["hour"] < 5)
fraud = (rng.random(n) < 1 / (1 + np.exp(-risk))).astype(int)
past, new = slice(0, n // 2), slice(n // 2, n)
median = cards["amount"].median()
print(f"{100 * fraud.mean():.1f} % are frauds; median amount {median:.0f}")

# %%
# A model with per-sample costs
#
# The cost of a false negative is a column. ``predict`` reads it from the table.

X = cards.assign(night=cards["hour"] < 5).astype(float)
learner = make_pipeline(StandardScaler(), LogisticRegression())
model = CostSensitiveClassifier(CostMatrix(fp=5, fn="amount"), learner=learner, cv=5, random_state=0)
model.fit(X[past], fraud[past])
print("first thresholds:", CostMatrix(fp=5, fn="amount").of(X[:4]).threshold.round(2))

# %%
# Four ways to decide
#
# Each is evaluated by what it really costs on the second half. The single threshold is chosen on the first half.

p_past, p = (model.predict_proba(X[part])[:, 1] for part in (past, new))
single = find_threshold(p_past, fraud[past], CostMatrix(fp=5, fn=X["amount"].to_numpy()[past])).value
decisions = {
    "check nothing": np.zeros(n // 2, dtype=int),
    "threshold 0.5": (p > 0.5).astype(int),
    "one tuned threshold": (p > single).astype(int),
    "a threshold per payment": model.predict(X[new]),
}
amount = X["amount"].to_numpy()[new]
costs = {name: CostMatrix(fp=5, fn=amount).mean(fraud[new], checked) for name, checked in decisions.items()}
for name, cost in costs.items():
    print(f"{name:24} {cost:.3f} per payment, {decisions[name].sum():4} checks")

# %%
# The decision is a curve
#
# Above the line a check pays: the larger the amount, the smaller the probability that is worth one.

figure, axis = plt.subplots(figsize=(6.4, 3.6))
for each, size, name in ((0, 3, "payment"), (1, 14, "fraud")):
    axis.scatter(amount[fraud[new] == each], p[fraud[new] == each], s=size, alpha=0.5, label=name)
line = np.logspace(-1, 4, 50)
axis.plot(line, 5 / (5 + line), color="C2", label="threshold: 5 / (5 + amount)")
axis.set(xscale="log", yscale="log", xlabel="amount", ylabel="probability of fraud")
axis.legend(frameon=False)
