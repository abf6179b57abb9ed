"""What every learner works on: rows, splits, candidates, settings."""
