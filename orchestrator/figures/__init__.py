"""Draw figures of a Summary."""
