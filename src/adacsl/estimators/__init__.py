"""Estimators that train with the core: scikit-learn on the outside, Lightning on the inside."""
