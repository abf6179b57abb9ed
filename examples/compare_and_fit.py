"""Which method is cheapest on a table, fitted, saved and loaded again.

python examples/compare_and_fit.py
"""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import adacsl

torch.set_num_threads(1)  # small networks: more threads are slower
X, benign = load_breast_cancer(return_X_y=True, as_frame=True)
y = benign.map({0: "malignant", 1: "benign"})
costs = adacsl.CostMatrix(fp=1, fn=8)  # a missed tumour is as bad as eight needless checks

logistic = adacsl.CostSensitiveClassifier(
    learner=make_pipeline(StandardScaler(), LogisticRegression())
)  # a method of our own
methods = ["always-positive", "net-bayes", "net-weighted", "gbm-bayes", "adacsl-cv", ("logistic", logistic)]
found = adacsl.compare(
    X, y, costs, pos_label="malignant", methods=methods, repeats=1, folds=3, n_jobs=1, progress=False
)
print(found.table[["method", "mean", "low", "high", "standing"]].to_string(index=False))
print(found.recommendation)

model = found.fit(X, y)  # the recommended method, on all rows
print(f"{found.best}: estimated cost per patient {model.estimated_cost_}")
with tempfile.TemporaryDirectory() as scratch:
    model.save(Path(scratch, "model"))
    again = adacsl.load(Path(scratch, "model"))
    print(again.predict(X[:5]), again.predict_proba(X[:5]).round(3), sep="\n")
