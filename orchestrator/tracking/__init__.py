"""From the ledger to MLflow, the only package that imports it."""
