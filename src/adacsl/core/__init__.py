"""Costs, exact thresholds, the controller and the metrics: numpy and array-api-compat only."""
