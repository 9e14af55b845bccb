"""Files beside the ledger: curves, weights, copies of code."""
