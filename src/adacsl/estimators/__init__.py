"""Cost-sensitive classifiers with the interface of scikit-learn."""
