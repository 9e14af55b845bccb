"""What a sweep has recorded: the ledger, what it says, curves and weights on disk."""
