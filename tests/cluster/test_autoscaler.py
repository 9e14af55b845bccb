"""A sweep on a Ray whose nodes are started and ended by Ray's own autoscaler: fake machines, real autoscaler.

`make test-cluster` runs it. Ray's `AutoscalingCluster` cannot be used: it ends every Ray of the user, and Ray's wheel
lacks the file that it reads.
"""

import json
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator.running.with_ray.processes import MARK, guard_processes
from tests.cluster.virtual_nodes import wait_for
from tests.ports import free_ports

pytestmark = pytest.mark.cluster

HEAD_ID, HEAD_TYPE = "f" * 51 + "00000", "ray.head.default"  # as fake machines have them
STORE = {"object_store_memory": 80 * 2**20}
SMALL = {"resources": {"CPU": 1, **STORE}, "node_config": {}, "min_workers": 0, "max_workers": 2}
LARGE = {"resources": {"CPU": 2, "GPU": 1, **STORE}, "node_config": {}, "min_workers": 0, "max_workers": 2}
PROVIDERS = {
    "v1": {"type": "fake_multinode"},
    "v2": {
        "type": "external",  # of the other type Ray's second autoscaler reads a file that its wheel lacks
        "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
    },
}
SWEEP = """name: scaled
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: sampled}
model: {name: attention_only, width: 8, value_width: 8}
training: {steps: 40, batch_size: 8, learning_rate: 0.003, compile: false}
space: {training.batch_size: {grid: [8, 16]}}
seeds: 4
evaluation: {every: 20, samples: 10}
objective: {metric: total_variation, lengths: [4], direction: minimize}
resources: {checkpoint_seconds: null, pack: 2}
tracking: {enabled: false}
"""
LOOK = """
import sys, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
print(sorted((one["Resources"].get("CPU", 0), one["Resources"].get("GPU", 0)) for one in ray.nodes() if one["Alive"]))
"""
ONE_MACHINE = {
    "launch_multiple": True, "disable_node_updaters": True, "disable_launch_config_check": True,
    "use_node_id_as_ip": True, "worker_liveness_check": False,
}  # fmt: skip
LISTS = (
    "initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
    "head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files", "rsync_exclude", "rsync_filter",
)  # fmt: skip
CONFIG: dict[str, Any] = {
    "cluster_name": "fake", "max_workers": 4, "idle_timeout_minutes": 0.1, "upscaling_speed": 10, "auth": {},
    "file_mounts": {}, "file_mounts_sync_continuously": False, **{name: [] for name in LISTS},
    "head_node_type": HEAD_TYPE,
    "available_node_types": {
        HEAD_TYPE: {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0}, "small": SMALL, "large": LARGE,
    },
}  # fmt: skip


@dataclass
class Autoscaled:
    """A head of one CPU with an autoscaler that starts small and large nodes."""

    address: str
    environment: dict[str, str]
    gpus: Path
    log: Path

    def nodes(self) -> str:
        """Return CPUs and GPUs of all living nodes."""
        command = [sys.executable, "-c", LOOK, self.address]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()


def start(folder: Path, version: str, environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], str]:
    """Start the head in a folder; return its process and address."""
    port, client = free_ports(2)
    provider = {"gcs_address": f"127.0.0.1:{port}", "head_node_id": HEAD_ID, **PROVIDERS[version], **ONE_MACHINE}
    (folder / "autoscaler.json").write_text(json.dumps({**CONFIG, "provider": provider}))
    fake = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID}
    second = {"RAY_enable_autoscaler_v2": "1", "RAY_CLOUD_INSTANCE_ID": HEAD_ID} if version == "v2" else {}
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--num-cpus=1"]
    command += [f"--port={port}", f"--ray-client-server-port={client}", "--include-dashboard=false"]
    command += [f"--temp-dir={folder}", "--object-store-memory=80000000", "--disable-usage-stats"]
    command += [f"--autoscaling-config={folder / 'autoscaler.json'}"]
    whole = {**environment, **fake, **second, MARK: str(folder)}
    with (folder / "head.log").open("w") as log:
        process = subprocess.Popen(command, env=whole, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return process, f"127.0.0.1:{port}"


@pytest.fixture(params=["v1", "v2"])
def autoscaled(request: pytest.FixtureRequest, lengthwise: Any, tmp_path: Path) -> Iterator[Autoscaled]:
    with tempfile.TemporaryDirectory(prefix="lw-") as name:  # short, as the paths of sockets must be
        folder = Path(name)
        (folder / "token").write_text(secrets.token_hex(32))
        (folder / "token").chmod(0o600)
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        pretended = {"PRETENDED_GPUS": str(tmp_path / "gpus")}
        with guard_processes(folder):
            process, address = start(folder, request.param, lengthwise.environment | token | pretended)
            cluster = Autoscaled(address, lengthwise.environment | token, tmp_path / "gpus", folder / "head.log")
            wait_for("a head", lambda: "Ray runtime started" in cluster.log.read_text(), cluster.log)
            yield cluster
            process.kill()
            process.wait()


def test_nodes_that_are_large_enough_are_started_used_and_ended(
    autoscaled: Autoscaled, lengthwise: Any, tmp_path: Path
) -> None:
    (tmp_path / "scaled.yaml").write_text(SWEEP)
    run = ("run", tmp_path / "scaled.yaml", "--storage")
    needs = ("--set", "resources.cpus=2", "--set", "resources.gpus=0.5", "--set", "resources.scheduler=ray")
    environment = {**autoscaled.environment, "RAY_ADDRESS": autoscaled.address}
    done = lengthwise.process(*run, tmp_path / "scaled", *needs, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no node has 2 CPUs and 0.5 GPUs yet, so the sweep waits for one" in done.stdout
    of_packs = [line.split() for line in autoscaled.gpus.read_text().splitlines()]
    assert HEAD_ID not in {node for _, _, node in of_packs} and {gpu for _, gpu, _ in of_packs} == {"0"}
    wait_for("the end of nodes", lambda: autoscaled.nodes() == "[(1.0, 0)]", autoscaled.log)
    assert lengthwise(*run, tmp_path / "alone", "--set", "resources.scheduler=inline").returncode == 0
    scaled, alone = (pd.read_parquet(tmp_path / name / "scaled" / "curves.parquet") for name in ("scaled", "alone"))
    assert len(scaled) and scaled.equals(alone)
