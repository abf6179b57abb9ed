"""Confidence intervals, calibration error and bins of scores."""
