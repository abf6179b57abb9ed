"""AdaCSL in a CatBoost script: one object is loss function, evaluation metric and callback.

python examples/catboost_callback.py
"""

from catboost import CatBoost, Pool
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from adacsl import CostMatrix
from adacsl.integrations.catboost import AdaCSLCallback

X, y = make_classification(6000, 20, n_informative=6, weights=[0.95], flip_y=0.05, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
X, X_val, y, y_val = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

costs = CostMatrix(fp=1, fn=20)
cost = AdaCSLCallback(costs)
params = {"iterations": 300, "learning_rate": 0.1, "verbose": False, "allow_writing_files": False}
model = CatBoost(params | {"loss_function": cost, "eval_metric": cost})
model.fit(Pool(X, y), eval_set=Pool(X_val, y_val), callbacks=[cost], early_stopping_rounds=50)
adapted = cost.decide(model.predict(X_test, prediction_type="RawFormulaVal"))
plain = CatBoost(params | {"iterations": 100, "loss_function": "Logloss"}).fit(Pool(X, y)).predict(X_test)
print(f"plain at 0.5: {costs.mean(y_test, plain > 0):.3f}, adapted: {costs.mean(y_test, adapted):.3f}")
