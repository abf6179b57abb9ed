"""Training of neural networks on Lightning, and the neural learner."""
