"""From scores to actions: decision rules, calibration, policies, class priors."""
