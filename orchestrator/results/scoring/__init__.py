"""How a configuration is scored: the objective, the evaluation that counts, median curves."""
