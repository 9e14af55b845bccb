"""The driver: it draws configurations, hands out packs, and writes the ledger."""
