"""AdaCSL in a LightGBM script: an objective that reads the class weight, and a callback that moves it.

python examples/lightgbm_callback.py
"""

import lightgbm as lgb
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from adacsl import CostMatrix
from adacsl.integrations.lightgbm import AdaCSLCallback

X, y = make_classification(6000, 20, n_informative=6, weights=[0.95], flip_y=0.05, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
X, X_val, y, y_val = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
train, validation = lgb.Dataset(X, y, free_raw_data=False), lgb.Dataset(X_val, y_val)

costs = CostMatrix(fp=1, fn=20)
cost = AdaCSLCallback(costs, patience=50)
params = {"learning_rate": 0.1, "num_threads": 1, "verbosity": -1}
booster = lgb.train({**params, "objective": cost.objective}, train, 300, valid_sets=[validation], callbacks=[cost])
adapted = cost.decide(booster.predict(X_test))  # margins, up to the round of least cost
plain = lgb.train({**params, "objective": "binary"}, train, 100).predict(X_test)
print(f"plain at 0.5: {costs.mean(y_test, plain > 0.5):.3f}, adapted: {costs.mean(y_test, adapted):.3f}")
