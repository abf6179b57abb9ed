"""What every learner works on: samples, splits, candidates, settings."""
