"""MLflow for a team, by the commands of cluster/mlflow/README.md: PostgreSQL, and ten users who publish at once.

`make test-cluster` runs it, as root on a machine with PostgreSQL 15 and its user `postgres`.
"""

import importlib.util
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator.record.state.state import SweepState
from tests.cluster.team_mlflow import BACKUP, DATABASE, FOLDER, RESTORE, ROLE, SECRETS, UPGRADE, USER, Team
from tests.cluster.virtual_nodes import QUICKSTART, options
from tests.command_line import CommandLine
from tests.mlflow_points import assert_points
from tests.ports import free_ports

SMALL = (
    *("search.configurations=3", "seeds=3", "training.steps=6", "training.compile=false"),
    *("evaluation={every: 3, samples: 8}", "objective.lengths=[6]", "resources.scheduler=inline"),
)
TEN = [f"user{number}" for number in range(10)]
LIVE = TEN[7:]  # whose sweeps train and publish; the others publish a sweep that has ended


def missing() -> str | None:
    """Why no PostgreSQL and MLflow can be started here."""
    if os.geteuid() != 0:
        return "only root can start PostgreSQL as another user"
    if absent := [name for name in ("psycopg2", "flask_wtf") if importlib.util.find_spec(name) is None]:
        return f"not installed: {', '.join(absent)} (pip install 'lengthwise[mlflow-server]')"
    if absent := [tool for tool in ("initdb", "setpriv", "openssl") if shutil.which(tool, path=PATH) is None]:
        return f"not installed: {', '.join(absent)} (Debian: postgresql util-linux openssl)"
    return None


PATH = os.pathsep.join(
    [str(Path(sys.executable).parent), *map(str, Path("/usr/lib/postgresql").glob("*/bin")), os.environ["PATH"]]
)
NOT_HERE = missing()


pytestmark = [pytest.mark.cluster, pytest.mark.skipif(NOT_HERE is not None, reason=str(NOT_HERE))]


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    """The database, the server and its users, made by the commands of the page."""
    folder = Path(tempfile.mkdtemp(prefix="lw-team-"))  # which the user postgres can enter
    folder.chmod(0o755)
    tools = folder / "bin"
    tools.mkdir()
    scripts = {
        "sudo": 'test "$1 $2" = "-u postgres"; shift 2; exec setpriv --reuid=postgres --regid=postgres --clear-groups',
        "mlflow": f"exec {sys.executable} -m mlflow",
    }
    for name, line in scripts.items():
        (tools / name).write_text(f'#!/bin/bash -e\n{line} "$@"\n')
        (tools / name).chmod(0o755)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MLFLOW_"))}
    socket, port = folder / "socket", str(free_ports(1)[0])
    environment = outside | {"PATH": f"{tools}:{PATH}", "PGHOST": str(socket), "PGPORT": port, "HOME": str(folder)}
    team = Team(folder, free_ports(1)[0], environment, {})
    socket.mkdir()
    shutil.chown(socket, "postgres")
    shutil.copy(FOLDER / "basic_auth.ini", folder)
    data = f"sudo -u postgres initdb --no-sync --auth-local=peer --auth-host=scram-sha-256 {socket}/data"
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={socket} -c fsync=off"
    control = f"cd {socket}; sudo -u postgres pg_ctl --wait --pgdata={socket}/data --log={socket}/log"
    try:
        team.type(f"cd {socket}; {data}; {control} --options={shlex.quote(options)} start")
        team.type(SECRETS)
        secrets = dict(line.split("=") for line in (folder / ".env").read_text().splitlines())
        assert (folder / ".env").stat().st_mode & 0o077 == 0 and len(set(secrets.values())) == 3
        team.passwords |= {"postgres": secrets["PGPASSWORD"], "admin": secrets["MLFLOW_AUTH_ADMIN_PASSWORD"]}
        team.type(f"cd /; {DATABASE}", f"{team.passwords['postgres']}\n" * 2)
        team.start()
        add_users(team)
        yield team
    finally:
        team.stop()
        team.type(f"{control} --mode=immediate stop")
        shutil.rmtree(folder)


def add_users(team: Team) -> None:
    """The role and the users, by the commands of the page, for all users in one process; `viewer` gets no role."""
    users = ["ada", *TEN, "viewer"]
    team.passwords |= {user: f"what only {user} knows" for user in users}
    team.type(ROLE, **team.login("admin"))
    command, program, _ = USER.split("'")
    every = [program.replace("ada", user) for user in users]
    every[-1] = every[-1].partition("(role,)")[0]
    answers = "".join(f"{team.passwords[user]}\n" for user in users)
    team.type("'".join([command, "".join(every), ""]), answers, **team.login("admin"))


def command_lines() -> str:
    """The command lines of all processes of this machine."""
    texts = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(file.read_bytes().decode(errors="replace"))
        except OSError:  # it has ended
            continue
    return "\n".join(texts)


def assert_published(team: Team, folder: Path) -> None:
    """Curves and parameters in the database equal those of the ledger; each configuration has one run."""
    state = SweepState.load(folder)
    runs = f"""from {{}} x join runs r on r.run_uuid = x.run_uuid and r.lifecycle_stage = 'active'
        join tags s on s.run_uuid = x.run_uuid and s.key = 'lengthwise.sweep' and s.value = '{folder.name}'
        left join tags c on c.run_uuid = x.run_uuid and c.key = 'lengthwise.config_id'"""
    counts = Counter(team.rows(f"select c.value {runs.format('runs')}"))
    assert counts == Counter([(None,), *((config_id,) for config_id in state.configurations)])
    points = team.rows(f"select c.value, x.key, x.step, x.value {runs.format('metrics')} where c.value is not null")
    assert_points(Counter(points), state)
    texts = team.rows(f"select c.value, x.key, x.value {runs.format('params')}")
    params = {(config_id, key): text for config_id, key, text in texts}
    for config_id, configuration in state.configurations.items():
        for key, value in leaves({key: value for key, value in configuration.resolved.items() if key != "seed"}):
            assert params[config_id, key] == (value if isinstance(value, str) else json.dumps(value))


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        elif not isinstance(value, dict):
            yield f"{prefix}{key}", value


def run(name: str, storage: Path, *settings: str) -> list[str]:
    return ["run", QUICKSTART, "--name", name, "--storage", str(storage), *options(*SMALL, *settings)]


@pytest.fixture(scope="module")
def storage(team: Team, lengthwise: CommandLine) -> Path:
    """Ten sweeps, each published by a user of its own, all at the same time."""
    storage = lengthwise.home / "sweeps"
    for user in [*TEN[:7], "viewer"]:
        done = lengthwise(*run(user, storage, "tracking.enabled=false"))
        assert done.returncode == 0, done.stderr
    began = time.monotonic()
    started = {}
    for user in TEN:
        verb = run(user, storage) if user in LIVE else ["publish", str(storage / user)]
        more = team.login(user)
        started[user] = lengthwise.start(*verb, "--tracking-uri", team.address, anew=user in (TEN[0], LIVE[0]), **more)
    seen = [command_lines()]
    while any(process.poll() is None for process in started.values()):
        time.sleep(1.0)
        seen.append(command_lines())
    print(f"ten publishers: {time.monotonic() - began:.0f} s")
    for user, process in started.items():
        out, err = process.communicate()
        (storage.parent / f"{user}.log").write_text(out + err)
        assert process.returncode == 0, (user, out, err)
    (storage.parent / "command-lines").write_text("\n".join(seen))
    assert str(storage / TEN[0]) in "".join(seen)
    return storage


def test_ten_users_publish_ten_sweeps_at_once_and_again(team: Team, storage: Path, lengthwise: CommandLine) -> None:
    for user in TEN:  # this completes live ones that a slow machine has cut short
        again = lengthwise.process("publish", storage / user, "--tracking-uri", team.address, **team.login(user))
        assert again.returncode == 0, again.stderr
        assert user in LIVE or "; 0 new points sent" in again.stdout
        assert_published(team, storage / user)
    assert team.rows("select count(*) from experiments where name = 'set_complement'") == [(1,)]
    everything = [path for path in [*storage.parent.rglob("*"), *team.folder.glob("*.log")] if path.is_file()]
    assert len(everything) > 100
    for path in everything:
        content = path.read_bytes()
        assert not [user for user, password in team.passwords.items() if password.encode() in content], path


def test_a_refused_login_is_reported_with_a_remedy(team: Team, storage: Path, lengthwise: CommandLine) -> None:
    before = team.rows("select count(*) from runs")
    wrong = {**team.login("ada"), "MLFLOW_TRACKING_PASSWORD": "what ada forgot"}
    other = f"http://127.1:{team.port}"
    for address, login, named in (
        (team.address, {}, "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        (team.address, wrong, "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        (other, team.login("ada"), "--allowed-hosts"),
        (team.address, team.login("viewer"), "MANAGE"),
    ):
        done = lengthwise.process("publish", storage / "viewer", "--tracking-uri", address, **login)
        first, second = done.stderr.splitlines()
        assert done.returncode == 2 and first.startswith(f"MLflow at {address}: ") and named in first, done.stderr
        assert "lengthwise publish " in second
    assert team.rows("select count(*) from runs") == before


def test_the_backup_is_restored_and_migrated(team: Team, storage: Path) -> None:
    counts = "select (select count(*) from metrics), (select count(*) from users), (select count(*) from runs)"
    before, files = team.rows(counts), sorted((team.folder / "artifacts").rglob("*"))
    team.type(BACKUP, **team.database)
    team.stop()
    team.type("cd /; sudo -u postgres dropdb --force mlflow")
    shutil.rmtree(team.folder / "artifacts")
    team.type(f"cd /; {DATABASE.splitlines()[-1]}")
    team.type(f"{RESTORE}{UPGRADE}", **team.database)
    assert team.rows(counts) == before and sorted((team.folder / "artifacts").rglob("*")) == files
    team.start()
    assert_published(team, storage / TEN[0])
