"""Alerts per day: a capacity constraint.

A team can look at 20 alerts a day. Which ones? Not the likeliest incidents, but those whose inspection saves most: a
likely incident on a test machine is worth less than an unlikely one on a payment server.

The alerts are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.decision import limit_action

# %%
# The alerts
#
# 300 a day for forty days. A look costs 10, a missed incident its damage, which is known for each machine.

rng = np.random.default_rng(0)
n, days = 12_000, 40
when = pd.Timestamp("2026-03-01") + pd.to_timedelta(np.sort(rng.uniform(0, days * 86_400, n)), unit="s")
alerts = pd.DataFrame(
    {"when": when, "severity": rng.integers(1, 6, n), "repeats": rng.poisson(2, n), "damage": rng.lognormal(4, 1.3, n)}
)
risk = -5 + 0.6 * alerts["severity"] + 0.3 * alerts["repeats"]
incident = (rng.random(n) < 1 / (1 + np.exp(-risk))).astype(int)
past, new = alerts[: n // 2], alerts[n // 2 :]
print(f"{100 * incident.mean():.1f} % of the alerts are incidents")

# %%
# A model, and decisions under the constraint
#
# ``capacity`` limits how many samples get the action in each period. ``notes`` says what is missing.

learner = make_pipeline(StandardScaler(), LogisticRegression())
model = CostSensitiveClassifier(CostMatrix(fp=10, fn="damage"), learner=learner, cv=5, random_state=0)
model.fit(past.drop(columns="when"), incident[: n // 2])
chosen = model.decisions(new, capacity=20, per="day", time="when")
print(chosen.notes[0])

# %%
# By gain or by probability?
#
# Both look at 20 alerts a day; only the choice differs.

damage = new["damage"].to_numpy()
p = model.predict_proba(new.drop(columns="when"))[:, 1]
likeliest = limit_action(np.column_stack([p, 0 * p]), 1, 20, new["when"].dt.date).actions
truth, own = incident[n // 2 :], CostMatrix(fp=10, fn=damage)
ways = {"nobody looks": 0 * likeliest, "the 20 likeliest": likeliest, "the 20 of largest gain": chosen.actions}
for name, looked in ways.items():
    print(f"{name:24} {own.mean(truth, looked):.2f} per alert")

# %%
# What more people would save
#
# The cost falls with the capacity until no further look pays.

capacities = [0, 5, 10, 20, 40, 80, 160]
curve = [own.mean(truth, model.decisions(new, capacity=c, per="day", time="when").actions) for c in capacities]
figure, axis = plt.subplots(figsize=(6.4, 3.2))
axis.plot(capacities, curve, "o-")
axis.set(xlabel="alerts looked at per day", ylabel="cost per alert", ylim=(0, None))
