"""Publish sweeps from their ledgers to MLflow; the only package that imports MLflow."""

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before mlflow is imported: nodes often lack internet
