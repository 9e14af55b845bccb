"""The ledger: records, their fields, the lock, the folder it lies in."""
