"""The verbs plan and data: what would run, and on what."""
