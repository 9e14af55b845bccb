"""What the rest of the orchestrator knows of a trainer: what it is asked to do, and what its members measure."""
