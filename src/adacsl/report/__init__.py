"""Plots, and one page that shows a comparison to others."""
