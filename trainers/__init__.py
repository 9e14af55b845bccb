"""Train one pack of members as one stacked program (torch and numpy only)."""
