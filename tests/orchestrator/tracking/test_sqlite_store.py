"""A SQLite store is begun once, by however many processes."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from orchestrator.tracking.address import make_default_uri


@pytest.mark.slow
def test_several_processes_may_open_a_fresh_store_at_once(tmp_path):
    code = "import sys; from orchestrator.tracking.store import create_sqlite_store; create_sqlite_store(sys.argv[1])"
    uri = make_default_uri(tmp_path)
    processes = [
        subprocess.Popen([sys.executable, "-c", code, uri], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert {path.name for path in tmp_path.iterdir()} <= {"mlflow.db", ".mlflow.db.lock"}
    assert (tmp_path / "mlflow.db").stat().st_size > 0


@pytest.mark.slow
def test_a_store_is_there_whole_or_not_at_all_when_its_making_is_killed(tmp_path):
    """Killed in the midst of MLflow's migrations, as soon as there is anything in the folder but the lock."""
    imports = "import sys; from orchestrator.tracking.store import create_sqlite_store"
    code = f"{imports}; print(); create_sqlite_store(sys.argv[1])"
    (tmp_path / "store").mkdir()
    database = tmp_path / "store" / "mlflow.db"
    with subprocess.Popen(
        [sys.executable, "-u", "-c", code, make_default_uri(database.parent)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        while not database.exists() and process.poll() is None:
            time.sleep(0.001)
        process.kill()
    assert database.exists()
    with closing(sqlite3.connect(database)) as store:
        versions = store.execute("SELECT version_num FROM alembic_version").fetchall()
    assert len(versions) == 1  # the last statement of MLflow's migrations
