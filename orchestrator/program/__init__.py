"""Training code of the user's own, a command or a function, as a trainer: one member a pack."""
