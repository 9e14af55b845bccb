"""Everything that publishing to a SQLite store imports, for a process that imports it before it is needed."""

import mlflow.store.artifact.local_artifact_repo
import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

import orchestrator.tracking.publish  # noqa: F401
