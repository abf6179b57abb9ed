"""What learns: nets, boosters, any scikit-learn classifier, MetaCost, and constants; each fits candidates."""
