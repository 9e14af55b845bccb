"""Train members with the user's own command or function, one member per pack."""
