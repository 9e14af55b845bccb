"""cluster/mlflow/compose.yaml: the commands of cluster/mlflow/README.md in containers; seeded mistakes are found."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.team_mlflow import FOLDER, ROOT, SECRETS, SERVER

COMPOSE, IMAGE = (FOLDER / "compose.yaml").read_text(), (FOLDER / "Dockerfile").read_text()
PINNED = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
SECRET_NAMES = set(re.search(r"for name in (.*);", SECRETS).group(1).split())  # type: ignore[union-attr]


def faults(text: str, image: str = IMAGE) -> Iterator[str]:
    """What containers would do other than the commands that test_team_mlflow.py runs."""
    services = yaml.safe_load(text)["services"]
    database, server = services["postgres"], services["mlflow"]
    comment = re.sub(r"^# ? ?", "", "".join(re.findall(r"^#   .*\n", text, re.M)), flags=re.M)
    if " ".join(SECRETS.replace("/srv/mlflow/", "cluster/mlflow/").split()) not in " ".join(comment.split()):
        yield "other secrets"
    for word in server["command"]:
        if word.startswith("--host=") and word != "--host=0.0.0.0":
            yield "not reached from outside its container"
    if [word.replace("=0.0.0.0", "=127.0.0.1") for word in server["command"]] != plain_command():
        yield "another command"
    given = {name: value for name, value in server["environment"].items() if name not in SECRET_NAMES}
    if given | {"PGHOST": "127.0.0.1"} != plain_environment() or given["PGHOST"] not in services:
        yield "another environment"
    for service in services.values():
        for name, value in service["environment"].items():
            if re.search("PASSWORD|SECRET", name) and not re.match(r"\$\{[A-Z_]+(:\?.*)?\}$", value):
                yield "a password in the file"
        if service["cap_drop"] != ["ALL"] or service["security_opt"] != ["no-new-privileges:true"]:
            yield "a container may gain rights"
    if set(re.findall(r"\$\{([A-Z_]+)", text)) != SECRET_NAMES:
        yield "a secret that nobody makes"
    if database["environment"]["POSTGRES_PASSWORD"].partition(":?")[0] != "${PGPASSWORD":
        yield "another password of the database"
    if server["environment"]["PGUSER"] != database["environment"]["POSTGRES_USER"]:
        yield "another user of the database"
    if database["user"] == "root" or re.findall("^USER (.*)", image, re.M) != ["1000"]:
        yield "a container runs as root"
    if not re.fullmatch(r"postgres:15\.\d+-bookworm", database["image"]) or "ports" in database:
        yield "a database that is not pinned, or open to the network"
    if server["image"] != f"lengthwise-mlflow:{PINNED['mlflow']}" or server["build"]["context"] != "../..":
        yield "another version of MLflow"
    if not re.search(r"^FROM python:3\.11\.\d+-slim-bookworm$", image, re.M) or "-c /tmp/constraints.txt" not in image:
        yield "versions that are not pinned"
    if any(not port.startswith("127.0.0.1:5000:") for port in server["ports"]):
        yield "passwords on the network without TLS"
    mounted = {volume.partition(":")[2] for volume in [*server["volumes"], *database["volumes"]]}
    if mounted != {"/srv/mlflow/artifacts", "/var/lib/postgresql/data"}:
        yield "results that are lost with a container"


def plain_command() -> list[str]:
    return shlex.split(SERVER.partition("exec ")[2].replace("\\\n", " "))


def plain_environment() -> dict[str, Any]:
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", SERVER, re.M))


def test_containers_run_the_commands_of_the_page() -> None:
    assert list(faults(COMPOSE)) == []
    assert plain_command()[:2] == ["mlflow", "server"] and len(plain_environment()) == 5
    copied = [word for line in IMAGE.splitlines() if line.startswith("COPY") for word in line.split()[1:-1]]
    assert all((ROOT / name).is_file() for name in copied if not name.startswith("--"))
    assert {"Flask-WTF", "psycopg2-binary", "mlflow"} <= PINNED.keys()
    assert "/cluster/mlflow/.env" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("openssl rand -hex 32", "echo secret", "other secrets"),
        ("--host=0.0.0.0", "--host=127.0.0.1", "not reached from outside its container"),
        ("--app-name=basic-auth", "--dev", "another command"),
        ("--allowed-hosts=mlflow.example.org,", "--allowed-hosts=*,", "another command"),
        ("PGHOST: postgres", "PGHOST: elsewhere", "another environment"),
        ("MLFLOW_DISABLE_TELEMETRY", "MLFLOW_DISABLE", "another environment"),
        ("PGPASSWORD: ${PGPASSWORD}", "PGPASSWORD: open sesame", "a password in the file"),
        ("${MLFLOW_FLASK_SERVER_SECRET_KEY:?", "${MLFLOW_SECRET_KEY:?", "a secret that nobody makes"),
        ("POSTGRES_PASSWORD: ${PGPASSWORD", "POSTGRES_PASSWORD: ${MLFLOW_X", "another password of the database"),
        ("POSTGRES_USER: mlflow", "POSTGRES_USER: postgres", "another user of the database"),
        ("user: postgres", "user: root", "a container runs as root"),
        ("no-new-privileges:true", "no-new-privileges:false", "a container may gain rights"),
        ("-bookworm\n    user", "\n    user", "a database that is not pinned, or open to the network"),
        ("lengthwise-mlflow:", "lengthwise-mlflow:3.", "another version of MLflow"),
        ('"127.0.0.1:5000:5000"', '"5000:5000"', "passwords on the network without TLS"),
        ("database:/var/lib", "database:/var/run", "results that are lost with a container"),
    ],
)
def test_a_seeded_mistake_is_found(right: str, wrong: str, fault: str) -> None:
    assert right in COMPOSE
    assert fault in list(faults(COMPOSE.replace(right, wrong)))


def test_a_seeded_mistake_in_the_image_is_found() -> None:
    assert list(faults(COMPOSE, IMAGE.replace("USER 1000\n", ""))) == ["a container runs as root"]
    assert list(faults(COMPOSE, IMAGE.replace("-c /tmp/constraints.txt", ""))) == ["versions that are not pinned"]
