"""What lies beside the ledger: curves, weights, copies of code."""
