"""From the ledger to MLflow, the only package that imports it."""

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before mlflow is imported: nodes often lack internet
