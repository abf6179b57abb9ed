"""What outcomes cost: cost matrices, expressions, per-sample costs and ranges."""
