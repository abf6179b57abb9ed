"""AdaCSL in an XGBoost script: the class weight follows the validation cost; the native objective is kept.

python examples/xgboost_callback.py
"""

import xgboost as xgb
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from adacsl import CostMatrix
from adacsl.integrations.xgboost import AdaCSLCallback

X, y = make_classification(6000, 20, n_informative=6, weights=[0.95], flip_y=0.05, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
X, X_val, y, y_val = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
train, validation, test = xgb.DMatrix(X, y), xgb.DMatrix(X_val, y_val), xgb.DMatrix(X_test)

costs = CostMatrix(fp=1, fn=20)
params = {"objective": "binary:logistic", "eta": 0.1, "nthread": 2}
cost = AdaCSLCallback(costs, train=train, validation=validation, patience=50)
booster = xgb.train(params, train, 300, callbacks=[cost], verbose_eval=False)
adapted = cost.decide(booster[: cost.best_round + 1].predict(test, output_margin=True))
plain = xgb.train(params, train, 100).predict(test)
print(f"plain at 0.5: {costs.mean(y_test, plain > 0.5):.3f}, adapted: {costs.mean(y_test, adapted):.3f}")
