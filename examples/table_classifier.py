"""A cost-minimising classifier from a table, with an honest estimate of what it costs.

python examples/table_classifier.py
"""

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from adacsl import AdaCSLClassifier, CostMatrix

torch.set_num_threads(1)  # a small net: threads only get in each other's way
X, benign = load_breast_cancer(return_X_y=True, as_frame=True)
y = benign.map({0: "malignant", 1: "benign"})
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

costs = CostMatrix(fp=1, fn=8)  # a missed tumour is as bad as eight needless checks
clf = AdaCSLClassifier(costs, pos_label="malignant", cv=5, random_state=0).fit(X, y)
print(f"estimated cost per patient: {clf.estimated_cost_}")
print(f"cost on test patients:      {-clf.score(X_test, y_test):.3f}")
print(clf.predict(X_test[:5]), clf.predict_proba(X_test[:5]).round(3), sep="\n")
