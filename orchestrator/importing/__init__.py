"""Import results of other programs as sweeps: a tidy table becomes ledger and curves."""
