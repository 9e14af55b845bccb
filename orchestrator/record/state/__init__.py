"""A sweep as its ledger tells it."""
