"""A SQLite store is begun once, by however many processes."""

import subprocess
import sys

from orchestrator.tracking.sqlite_store import default_uri


def test_several_processes_may_open_a_fresh_store_at_once(tmp_path):
    code = "import sys; from orchestrator.tracking.sqlite_store import initialise; initialise(sys.argv[1])"
    uri = default_uri(tmp_path)
    processes = [
        subprocess.Popen([sys.executable, "-c", code, uri], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert {path.name for path in tmp_path.iterdir()} <= {"mlflow.db", ".mlflow.db.lock"}
    assert (tmp_path / "mlflow.db").stat().st_size > 0
