"""Arrays, floats, labels, scores: what every other package builds on."""
