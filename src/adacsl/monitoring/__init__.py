"""Monitoring of deployed models: cost, drift, and re-tuning."""
