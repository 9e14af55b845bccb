"""Delete outdated values of a run from MLflow's own database: no request to a server does that."""

from collections.abc import Collection

from mlflow.tracking import MlflowClient


def delete_values(client: MlflowClient, run_id: str, *, metrics: Collection[str], params: Collection[str]) -> None:
    """Delete these metrics, with all their points, and parameters of a run; the client leads to a database."""
    from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam  # servers need no sqlalchemy

    with client._tracking_client.store.ManagedSessionMaker() as session:
        for table, keys in ((SqlMetric, metrics), (SqlLatestMetric, metrics), (SqlParam, params)):
            rows = session.query(table).filter(table.run_uuid == run_id, table.key.in_(sorted(keys)))
            rows.delete(synchronize_session=False)
