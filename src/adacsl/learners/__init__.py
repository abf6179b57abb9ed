"""Learners: gradient boosting, scikit-learn estimators, MetaCost, constants."""
