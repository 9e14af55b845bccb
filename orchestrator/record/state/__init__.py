"""A sweep as its ledger records it."""
