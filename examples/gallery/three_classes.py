"""Three classes: triage of support tickets.

A ticket is *routine*, *urgent* or an *outage*. Six kinds of error have different costs. The most likely class is not
the cost-optimal one; the decision is the class of least expected cost. The tickets are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacsl import CostMatrix, CostSensitiveClassifier

# %%
# The tickets
#
# Outages are rare, and an outage that is called routine costs 50.

rng = np.random.default_rng(0)
n = 6000
names = np.array(["routine", "urgent", "outage"])
label = rng.choice(3, n, p=[0.8, 0.15, 0.05])
tickets = pd.DataFrame(
    {
        "words": rng.poisson(40 + 10 * (label == 1), n),
        "reports_this_hour": rng.poisson(np.array([1.0, 1.5, 4.0])[label]),
        "exclamation_marks": rng.poisson(np.array([0.3, 1.5, 1.2])[label]),
    }
)
matrix = pd.DataFrame(
    [[0, 5, 50], [1, 0, 20], [4, 2, 0]],  # rows: predicted; columns: true
    index=names,
    columns=names,
)
costs = CostMatrix.from_frame(matrix, rows="predicted")
print(matrix.to_string())

# %%
# A cross-fitted model
#
# Five folds: probabilities are averaged, and the cost is estimated on held-out samples.

learner = make_pipeline(StandardScaler(), LogisticRegression())
model = CostSensitiveClassifier(costs, learner=learner, cv=5, random_state=0)
model.fit(tickets[:3000], names[label[:3000]])
print("estimated cost per ticket: {:.2f} ({:.2f} to {:.2f})".format(*model.estimated_cost_))

# %%
# Most likely class or least expected cost?
#
# On 3,000 new tickets.

p = model.predict_proba(tickets[3000:])
decisions = {
    "most likely class": model.classes_[p.argmax(axis=1)],
    "least expected cost": model.predict(tickets[3000:]),
}
for name, decided in decisions.items():
    counts = confusion_matrix(names[label[3000:]], decided, labels=names).T
    cost = (counts * matrix.to_numpy()).sum() / 3000
    print(f"{name:20} cost {cost:.3f}, outages found {counts[2, 2]}")

# %%
# What is predicted for each class
#
# The cost-optimal decisions escalate more tickets, because a missed outage costs most.

figure, axes = plt.subplots(1, 2, figsize=(6.8, 3.2), sharey=True)
for axis, (name, decided) in zip(axes, decisions.items(), strict=True):
    shares = confusion_matrix(names[label[3000:]], decided, labels=names, normalize="true")
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (row, column), share in np.ndenumerate(shares):
        axis.text(column, row, f"{share:.0%}", ha="center", va="center", color="white" if share > 0.5 else "black")
    axis.set(title=name, xlabel="predicted", ylabel="true", xticks=range(3), yticks=range(3))
    axis.set_xticklabels(names)
    axis.set_yticklabels(names)
