"""Exact cost-optimal thresholds, curves over thresholds, and their uncertainty."""
