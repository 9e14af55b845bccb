"""A SQLite store is begun once, by however many processes, and is there whole or not at all."""

import multiprocessing
import sqlite3
import time
from contextlib import closing

import pytest

from orchestrator.tracking.address import make_default_uri
from orchestrator.tracking.store import create_sqlite_store


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_several_processes_may_open_a_fresh_store_at_once(tmp_path):
    """A process that is killed leaves what others see: the file appears with the last of MLflow's migrations in it."""
    database = tmp_path / "mlflow.db"
    context, given = multiprocessing.get_context("fork"), (make_default_uri(tmp_path),)  # which have imported MLflow
    processes = [context.Process(target=create_sqlite_store, args=given) for _ in range(2)]
    for process in processes:
        process.start()
    while not database.exists() and any(process.is_alive() for process in processes):
        time.sleep(0.001)
    with closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as store:  # others write: nothing is locked
        versions = store.execute("SELECT version_num FROM alembic_version").fetchall()
    assert len(versions) == 1  # the last statement of MLflow's migrations
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert {path.name for path in tmp_path.iterdir()} <= {"mlflow.db", ".mlflow.db.lock"}
