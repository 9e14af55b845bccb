"""cluster/on_premises.yaml with `ray up` on three machines with ssh; a lost and an added machine change no curve.

`make test-cluster` runs it, as root on a machine with openssh-server, openssh-client, rsync, curl, nftables and
iproute2. Of the shipped file the lines marked CHANGE are changed, and the file of versions: it has those that are
installed here, so that pip, which runs on every machine, downloads nothing. The machines have the firewall of
cluster/README.md.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.cluster.virtual_nodes import (
    QUICKSTART,
    ROOT,
    SMALL,
    VirtualNodes,
    find_missing,
    options,
    read_curves,
    started,
    wait_for,
)

NODES = Path(__file__).parent / "ssh_nodes.sh"
TOOLS = ("sshd", "ssh", "ssh-keygen", "rsync", "curl", "nft", "setpriv")
MISSING = find_missing(TOOLS, "openssh-server openssh-client rsync curl nftables")
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]
DASHBOARD = "http://127.0.0.1:8265"
HOME = "/srv/home/lengthwise"
FILE = f"{HOME}/on_premises.yaml"


def changed(*workers: int) -> str:
    """Return the shipped file with node 1 as the head and these nodes as workers."""
    text = (ROOT / "cluster" / "on_premises.yaml").read_text()
    addresses = ", ".join(f"10.77.0.{worker}" for worker in workers)
    values = {"head_ip": "10.77.0.1", "worker_ips": f"[{addresses}]", **dict.fromkeys(("min_workers", "max_workers"))}
    for key, value in values.items():
        text, count = re.subn(rf"^( *{key}: ).*( # CHANGE)", rf"\g<1>{value or len(workers)}\2", text, flags=re.M)
        assert count == 1, key
    return text.replace("constraints.txt: constraints.txt", f"constraints.txt: {HOME}/installed.txt")


def firewall() -> str:
    """Return the rules of cluster/README.md with the addresses of all nodes."""
    (rules,) = re.findall(r"```nft\n(.*?)```", (ROOT / "cluster" / "README.md").read_text(), re.S)
    shown = "192.0.2.10, 192.0.2.11, 192.0.2.12"
    assert shown in rules
    return str(rules.replace(shown, "10.77.0.1, 10.77.0.2, 10.77.0.3, 10.77.0.4"))


class Machines(VirtualNodes):
    """Machines with ssh, and the one from which the cluster is started; commands are those of the user `lengthwise`."""

    def command(self, *words: str, node: int | None = None) -> list[str]:
        return self.enter(str(NODES), "as_user", *words, node=node)

    def write(self, name: str, text: str) -> None:
        """Write a file to the home folder on the machine from which the cluster is started."""
        subprocess.run(self.command("tee", f"{HOME}/{name}"), input=text, text=True, check=True, capture_output=True)

    def alive(self) -> list[str]:
        """Return the addresses of living Ray nodes, by the dashboard."""
        secret = f"Authorization: Bearer {self.call('cat', f'{HOME}/.ray/auth_token')}"
        asked = subprocess.run(
            self.command("curl", "--silent", "--header", secret, f"{DASHBOARD}/api/v0/nodes"), capture_output=True
        )
        try:
            nodes = json.loads(asked.stdout)["data"]["result"]["result"]
        except (ValueError, KeyError, TypeError):
            return []
        return sorted(node["node_ip"] for node in nodes if node["state"] == "ALIVE")

    def wait_for_nodes(self, *nodes: int) -> float:
        """Return the seconds until exactly these nodes are alive."""
        began = time.monotonic()
        wanted = [f"10.77.0.{node}" for node in nodes]
        wait_for(f"living nodes {wanted}", lambda: self.alive() == wanted, self.folder / "ray.log")
        return time.monotonic() - began

    def ray(self, *words: str) -> None:
        with (self.folder / "ray.log").open("a") as log:
            asked = subprocess.run(self.command("ray", *words), stdout=log, stderr=log)
        assert asked.returncode == 0, (self.folder / "ray.log").read_text()

    def submit(self, name: str, *settings: str) -> "Submitted":
        return Submitted(self, name, settings)

    def processes(self, node: int) -> list[str]:
        """Return the commands of the processes on a node, except those of ssh; `sleep` is that of `ray dashboard`."""
        expected = {"bash", "sshd", "ps", "sleep"}
        return [name for name in self.call("ps", "-e", "-o", "comm=", node=node).split() if name not in expected]


class Submitted:
    """The small sweep, as `ray job submit` follows it. Its packs wait in their middle until `release` is called."""

    def __init__(self, machines: Machines, name: str, settings: tuple[str, ...]) -> None:
        self.folder, self.log = machines.folder / "sweeps" / name, machines.folder / f"{name}.log"
        self._hold = machines.folder / "hold"
        self._hold.touch()
        words = ["env", "RAY_AUTH_MODE=token", "ray", "job", "submit", "--working-dir", ".", "--address", DASHBOARD]
        words += ["--", "python", "-m", "orchestrator", "run", QUICKSTART, "--name", name]
        with self.log.open("w") as log:
            command = machines.command(*words, *options(*SMALL, *settings))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def records(self, kind: str) -> list[dict[str, Any]]:
        ledger = self.folder / "events.jsonl"
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        return [record["data"] for record in map(json.loads, lines) if record["kind"] == kind]

    def wait_for_packs(self, count: int) -> None:
        """Return when so many packs wait in their middle."""

        def trained() -> bool:
            assert self._process.poll() is None, self.log.read_text()
            return len({record["pack_id"] for record in self.records("evaluation")}) == count

        wait_for(f"{count} packs in their middle", trained, self.log)

    def release(self) -> None:
        """Let the packs train to their end, and wait for it."""
        self._hold.unlink()
        assert self._process.wait() == 0, self.log.read_text()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    folder = tmp_path_factory.mktemp("machines")
    os.environ["LENGTHWISE_VENV"] = sys.prefix
    with started(NODES, folder) as process:
        machines = Machines(NODES, folder, process)
        listening = [folder / "log" / f"node{node}.out" for node in (1, 2, 3, 4)]
        wait_for(
            "sshd", lambda: all(file.exists() and "listening" in file.read_text() for file in listening), listening[0]
        )
        for node in (1, 2, 3, 4):
            subprocess.run(machines.enter("nft", "-f", "-", node=node), input=firewall(), text=True, check=True)
        machines.call("bash", "-c", "(umask 077; ray get-auth-token --generate >/dev/null)")
        installed = machines.call("python", "-m", "pip", "list", "--format=freeze", "--exclude-editable")
        machines.write("installed.txt", installed)
        machines.write("on_premises.yaml", changed(2, 3))
        machines.ray("up", "--yes", FILE)
        with (folder / "dashboard.log").open("w") as log:
            command = machines.command("ray", "dashboard", FILE)
            tunnel = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            machines.wait_for_nodes(1, 2, 3)
            yield machines
        finally:
            tunnel.kill()
            tunnel.wait()


@pytest.fixture
def same_curves(alone: pd.DataFrame) -> Callable[[Submitted], None]:
    def check(sweep: Submitted) -> None:
        pd.testing.assert_frame_equal(read_curves(sweep.folder), alone, check_exact=True)

    return check


def test_without_the_token_nobody_is_answered_and_no_node_joins(machines: Machines) -> None:
    asked = ("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", f"{DASHBOARD}/api/jobs/")
    assert machines.call(*asked) == "401"
    assert machines.call(*asked[:-1], "--header", f"Authorization: Bearer {'0' * 64}", asked[-1]) == "403"
    for node in (1, 2, 3):
        assert machines.call("stat", "--format=%a", f"{HOME}/.ray/auth_token", node=node) == "600"
    venv = f"{HOME}/lengthwise/venv/bin"
    for settings in (["RAY_AUTH_MODE=disabled"], ["RAY_AUTH_MODE=token", f"RAY_AUTH_TOKEN={'0' * 64}"]):
        join = ("env", *settings, f"{venv}/ray", "start", "--address=10.77.0.1:6379", "--disable-usage-stats")
        refused = subprocess.run(machines.command(*join, node=4), capture_output=True, text=True)
        assert refused.returncode != 0 and "runtime started" not in refused.stdout
        machines.call(f"{venv}/ray", "stop", node=4)
    assert machines.alive() == ["10.77.0.1", "10.77.0.2", "10.77.0.3"]


def test_the_firewall_lets_in_machines_of_the_cluster_only(machines: Machines) -> None:
    asked = ("curl", "--silent", "--max-time", "5", "--output", "/dev/null", "http://10.77.0.1:44217/metrics")
    machines.call(*asked, node=2)
    stranger = subprocess.run(machines.command(*asked))
    assert stranger.returncode == 28  # no answer in time


def test_a_machine_is_lost_and_comes_back(machines: Machines, same_curves: Callable[[Submitted], None]) -> None:
    sweep = machines.submit("lost")
    sweep.wait_for_packs(3)  # one on each machine
    machines.unplug(3)
    machines.wait_for_nodes(1, 2)
    sweep.release()
    assert "with 3 CPUs" in sweep.log.read_text() and len(sweep.records("attempt")) == 1
    same_curves(sweep)
    machines.plug(3)  # without its firewall
    machines.wait_for_nodes(1, 2, 3)


def test_a_machine_is_added_to_a_running_sweep(machines: Machines, same_curves: Callable[[Submitted], None]) -> None:
    sweep = machines.submit("added", "resources.pack=1")
    sweep.wait_for_packs(3)
    machines.write("on_premises.yaml", changed(2, 3, 4))
    machines.ray("up", "--yes", "--no-restart", FILE)
    machines.wait_for_nodes(1, 2, 3, 4)
    sweep.wait_for_packs(4)
    sweep.release()
    assert not sweep.records("attempt")
    same_curves(sweep)


def test_ray_down_leaves_no_process(machines: Machines) -> None:
    assert "raylet" in machines.processes(2)
    machines.ray("down", "--yes", FILE)
    nodes = (1, 2, 3, 4)
    wait_for("the end of Ray", lambda: not any(map(machines.processes, nodes)), machines.folder / "ray.log")
