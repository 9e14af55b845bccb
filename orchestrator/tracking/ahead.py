"""Import ahead of time everything that publishing to a SQLite store needs."""

import mlflow.store.artifact.local_artifact_repo
import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

import orchestrator.tracking.publish  # noqa: F401
