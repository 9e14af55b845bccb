"""The records of a sweep: the ledger, the state read from it, curves and weights on disk."""
