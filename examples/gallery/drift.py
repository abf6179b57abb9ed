"""Drift: is the deployed model still right?.

Loans are granted by a model of last year. Months later more of them fail. ``monitor`` reports the current cost, tests
for drift, and says whether re-tuning the threshold would pay.

The loans are simulated: from the fourth month on, failures are three times as frequent (prior shift).
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import adacsl

# %%
# The loans
#
# A failed loan costs 8, a refused good one 1.

rng = np.random.default_rng(0)


def loans(n: int, share: float) -> tuple[pd.DataFrame, np.ndarray]:
    bad = (rng.random(n) < share).astype(int)
    features = {"income": rng.normal(3.5 - 0.7 * bad, 0.8), "late_payments": rng.poisson(0.4 + 1.2 * bad)}
    return pd.DataFrame(features), bad


costs = adacsl.CostMatrix(fp=1, fn=8)
X, y = loans(4000, 0.06)
model = adacsl.method("logistic", costs, random_state=0).fit(X, y)
print("estimated cost per loan: {:.3f} ({:.3f} to {:.3f})".format(*model.estimated_cost_))

# %%
# Month by month
#
# Without labels the class prior is estimated from the scores; labels come later and give the cost.

months = [loans(1000, share) for share in (0.06, 0.06, 0.06, 0.18, 0.18, 0.18)]
reports = [adacsl.monitor(model, features, labels) for features, labels in months]
for number, report in enumerate(reports, 1):
    cost = "{:.3f} ({:.3f} to {:.3f})".format(*report.labels.cost)
    print(f"month {number}: cost {cost}, {report.recommendation}")

# %%
# The report of the fourth month
#
# The first sentences; ``adacsl monitor --html`` writes a page.

print("\n".join(reports[3].sentences[:4]))

# %%
# Re-tuning
#
# The threshold is fitted again on month four, without training, and evaluated on months five and six.

retuned = model.retune(*months[3])
later, labels = pd.concat([months[4][0], months[5][0]]), np.concatenate([months[4][1], months[5][1]])
for name, each in {"as deployed": model, "re-tuned": retuned}.items():
    print(f"{name:12} {costs.mean(labels, each.predict(later)):.3f} per loan")

# %%
# The cost over time
#

figure, axis = plt.subplots(figsize=(6.4, 3.2))
middle, low, high = np.array([report.labels.cost for report in reports]).T
axis.errorbar(
    range(1, 7), middle, yerr=[middle - low, high - middle], fmt="o", label="cost of the month, 95 % interval"
)
axis.axhspan(*model.estimated_cost_[1:], alpha=0.2, label="estimated in training")
axis.set(xlabel="month", ylabel="cost per loan", ylim=(0, None))
axis.legend(frameon=False)
