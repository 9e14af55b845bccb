"""A SQLite store is begun once, by however many processes."""

import hashlib
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.tracking.store.sqlite_store import default_uri, initialise


@pytest.mark.slow
def test_several_processes_may_open_a_fresh_store_at_once(tmp_path):
    code = "import sys; from orchestrator.tracking.store.sqlite_store import initialise; initialise(sys.argv[1])"
    uri = default_uri(tmp_path)
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
    code = (
        "import sys; from orchestrator.tracking.store.sqlite_store import initialise; print(); initialise(sys.argv[1])"
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}  # nothing is kept there
    (tmp_path / "store").mkdir()
    database = tmp_path / "store" / "mlflow.db"
    with subprocess.Popen(
        [sys.executable, "-u", "-c", code, default_uri(database.parent)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        while not database.exists() and process.poll() is None:
            time.sleep(0.001)
        process.kill()
    assert database.exists()
    with closing(sqlite3.connect(database)) as store:
        versions = store.execute("SELECT version_num FROM alembic_version").fetchall()
    assert versions == schema(made(tmp_path / "other"))[1]


def schema(path):
    with closing(sqlite3.connect(path)) as store:
        made = store.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
        # the migrations write the constraints of a table in an order that changes from one time to the next
        made = [(kind, name, sorted(re.split(r",? *\n", sql or ""))) for kind, name, sql in made]
        return made, store.execute("SELECT version_num FROM alembic_version").fetchall()


def made(folder):
    folder.mkdir()
    initialise(default_uri(folder))
    return folder / "mlflow.db"


@pytest.mark.slow
def test_a_new_store_begins_as_a_copy_of_an_empty_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = made(tmp_path / "one")
    (kept,) = (tmp_path / "cache" / "lengthwise" / "mlflow").iterdir()
    second = made(tmp_path / "two")
    assert schema(first) == schema(second)
    (default,) = MlflowClient(default_uri(second.parent)).search_experiments()
    assert default.name == "Default" and default.artifact_location
    with closing(sqlite3.connect(kept)) as store:
        assert store.execute("SELECT count(*) FROM experiments").fetchone() == (0,)
        store.execute("CREATE TABLE mark (number INTEGER)")
    third = made(tmp_path / "three")  # what is kept is not as it was written
    assert schema(third) == schema(first)
    (kept_again,) = set(kept.parent.iterdir()) - {kept}
    named = kept.with_name(f"{kept.stem.rpartition('-')[0]}-{hashlib.sha256(kept.read_bytes()).hexdigest()[:12]}.db")
    kept.rename(named)
    kept_again.unlink()
    assert ("table", "mark") in {(kind, name) for kind, name, _ in schema(made(tmp_path / "four"))[0]}
