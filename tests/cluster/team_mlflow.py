"""The MLflow for a team of cluster/mlflow/README.md: its commands, and a server that they start."""

import os
import re
import signal
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "cluster" / "mlflow"
PAGE = (FOLDER / "README.md").read_text()
SECRETS, DATABASE, SERVER, ROLE, USER, _, BACKUP, RESTORE, UPGRADE = re.findall(
    r"^```shell\n(.*?)^```$", PAGE, re.M | re.S
)
PATIENCE = 600.0  # seconds


@dataclass
class Team:
    """A running server; `folder` stands for the /srv/mlflow of the commands, and `passwords` has those of users."""

    folder: Path
    port: int
    environment: dict[str, str]
    passwords: dict[str, str]
    server: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def here(self, commands: str) -> list[str]:
        """The commands of a block, in the folder and at the port of this server."""
        return ["bash", "-ec", commands.replace("/srv/mlflow", str(self.folder)).replace("5000", str(self.port))]

    def type(self, commands: str, answer: str = "", **more: str) -> None:
        """Run the commands of a block to their end; `answer` is what is typed when they ask."""
        done = subprocess.run(
            self.here(commands),
            input=answer,
            text=True,
            capture_output=True,
            env=self.environment | more,
            start_new_session=True,  # no terminal: what asks for a password reads standard input
        )
        assert done.returncode == 0, (commands, done.stdout, done.stderr)

    def login(self, user: str) -> dict[str, str]:
        return {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": self.passwords[user]}

    @property
    def database(self) -> dict[str, str]:
        """The variables by which the server, and whoever makes a backup, reaches the database."""
        return {"PGHOST": "127.0.0.1", "PGUSER": "mlflow", "PGPASSWORD": self.passwords["postgres"]}

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask the database, past the server."""
        import psycopg2

        where = {name.removeprefix("PG").lower(): value for name, value in self.database.items()}
        connection = psycopg2.connect(dbname="mlflow", port=self.environment["PGPORT"], **where)
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                self.here(SERVER), env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{self.address}/health", timeout=5).close()
                return
            except OSError:
                assert self.server.poll() is None, (self.folder / "server.log").read_text()
                assert time.monotonic() < deadline, (self.folder / "server.log").read_text()
                time.sleep(0.2)

    def stop(self) -> None:
        if self.server is not None:
            os.killpg(self.server.pid, signal.SIGKILL)
            self.server.wait()
            self.server = None
