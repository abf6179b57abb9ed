"""Any scikit-learn classifier made cost-sensitive, and a search by cost.

python examples/sklearn_estimator.py
"""

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.integrations.sklearn import cost_scorer

X, benign = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, 1 - benign, random_state=0, stratify=benign)  # 1 is malignant
costs = CostMatrix(fp=1, fn=20)  # a missed tumour is as bad as twenty needless checks

model = make_pipeline(StandardScaler(), LogisticRegression())
adaptive = AdaCSLClassifier(costs, learner=model, cv=5, random_state=0)
grid = {"learner__logisticregression__C": [0.01, 0.1, 1.0]}
search = GridSearchCV(adaptive, grid, scoring=cost_scorer(costs), cv=3).fit(X, y)
print(search.best_params_, search.best_estimator_.estimated_cost_)
for name, clf in (("by itself", model.fit(X, y)), ("adaptive", search)):
    print(f"{name}: test cost {costs.mean(y_test, clf.predict(X_test)):.3f} per patient")
