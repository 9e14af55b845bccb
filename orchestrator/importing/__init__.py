"""Results of other programs as sweeps: a tidy table becomes the ledger and curves of a sweep folder."""
