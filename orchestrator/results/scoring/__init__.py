"""Score configurations: the objective, the chosen evaluation, median curves, decisions of races."""
