"""The cluster files, as far as they can be checked without their clusters; each check is shown to find its fault."""

import copy
import operator
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "cluster"


def on_premises() -> dict[str, Any]:
    return dict(yaml.safe_load((CLUSTER / "on_premises.yaml").read_text()))


def on_premises_faults(config: dict[str, Any]) -> Iterator[str]:
    """What Ray's own validation lets pass and a person would find out on the machines."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", str(config.get("cluster_name"))):
        yield "cluster_name"
    provider = config["provider"]
    workers = provider["worker_ips"]
    if len({provider["head_ip"], *workers}) != len(workers) + 1:
        yield "a machine twice"
    if not config.get("min_workers") == config.get("max_workers") == len(workers):
        yield "worker counts"
    if config["file_mounts"].get("~/.ray/auth_token") != "~/.ray/auth_token":
        yield "token not mounted"
    for local in config["file_mounts"].values():
        if not local.startswith("~") and not (ROOT / local).exists():
            yield f"no file {local}"
    head, worker = (config[f"{kind}_start_ray_commands"][-1] for kind in ("head", "worker"))
    exports = [dict(re.findall(r"\b(\w+)=(\S+?)[;\s]", command)) for command in (head, worker)]
    if any(names.get("RAY_AUTH_MODE") != "token" for names in exports):
        yield "token authentication is off"
    if not exports[0].get("LENGTHWISE_STORAGE") or len({names.get("LENGTHWISE_STORAGE") for names in exports}) != 1:
        yield "no shared storage"
    if "--dashboard-host=127.0.0.1" not in head:
        yield "dashboard is open to the network"
    if f'"$RAY_HEAD_IP:{re.findall("--port=([0-9]+)", head)[0]}"' not in worker:
        yield "workers look for the head at another port"
    if not all(key in config["setup_commands"][-1] for key in ("pip", "constraints.txt")):
        yield "exact versions are not installed"
    if not any("venv/bin" in command and "~/.bashrc" in command for command in config["setup_commands"]):
        yield "ray down finds no ray"
    if "ray get-worker-ips ~/ray_bootstrap_config.yaml" not in config.get("head_setup_commands", ()):
        yield "a running autoscaler sees no new workers"
    if exports[0].get("RAY_enable_autoscaler_v2") != "0":
        yield "an autoscaler that leaves out the last worker"


def test_ray_up_file_passes_rays_validation_and_ours() -> None:
    prepared = prepare_config(on_premises())
    validate_config(prepared)
    (node_type,) = prepared["available_node_types"].values()
    assert node_type["min_workers"] == node_type["max_workers"] == len(on_premises()["provider"]["worker_ips"])
    assert list(on_premises_faults(on_premises())) == []


def holder(config: Any, path: tuple[Any, ...]) -> Any:
    """Return the mapping or list that holds what is at `path`."""
    return reduce(operator.getitem, path[:-1], config)


def cut(*path: Any) -> Callable[[Any], None]:
    """A mutation that removes what is at `path`."""
    return lambda config: operator.delitem(holder(config, path), path[-1])


def set_value(value: Any, *path: Any) -> Callable[[Any], None]:
    """A mutation that puts `value` at `path`."""
    return lambda config: operator.setitem(holder(config, path), path[-1], value)


def swap(old: str, new: str, *path: Any) -> Callable[[Any], None]:
    """A mutation of the text at `path`."""

    def mutate(config: Any) -> None:
        text = holder(config, path)[path[-1]]
        assert old in text
        holder(config, path)[path[-1]] = text.replace(old, new)

    return mutate


@pytest.mark.parametrize(
    ("mutate", "fault"),
    [
        (cut("cluster_name"), "cluster_name"),
        (set_value(3, "max_workers"), "worker counts"),
        (cut("min_workers"), "worker counts"),
        (set_value(["192.0.2.10", "192.0.2.12"], "provider", "worker_ips"), "a machine twice"),
        (cut("file_mounts", "~/.ray/auth_token"), "token not mounted"),
        (set_value("no_such.txt", "file_mounts", "/x"), "no file no_such.txt"),
        (swap("RAY_AUTH_MODE=token", "", "worker_start_ray_commands", 1), "token authentication is off"),
        (swap("/srv/lengthwise", "/tmp/mine", "head_start_ray_commands", 1), "no shared storage"),
        (swap("=127.0.0.1", "=0.0.0.0", "head_start_ray_commands", 1), "dashboard is open to the network"),
        (cut("setup_commands", 2), "ray down finds no ray"),
        (cut("head_setup_commands"), "a running autoscaler sees no new workers"),
        (swap("_v2=0", "_v2=1", "head_start_ray_commands", 1), "an autoscaler that leaves out the last worker"),
        (swap(":6379", ":6380", "worker_start_ray_commands", 1), "workers look for the head at another port"),
    ],
)
def test_what_rays_validation_misses_is_found(mutate: Callable[[Any], None], fault: str) -> None:
    config = on_premises()
    mutate(config)
    validate_config(prepare_config(copy.deepcopy(config)))  # Ray lets it pass
    assert fault in list(on_premises_faults(config))


def test_commands_of_the_ray_up_file_are_options_of_ray_start() -> None:
    from ray.scripts.scripts import start

    known = {name for option in start.params for name in option.opts}
    config = on_premises()
    for command in (config["head_start_ray_commands"][-1], config["worker_start_ray_commands"][-1]):
        used = re.findall(r"(--[a-z-]+)", command)
        assert used and set(used) <= known


SLURM = (CLUSTER / "slurm.sh").read_text()


def test_the_slurm_script_begins_with_five_lines_to_change_and_asks_for_what_it_relies_on() -> None:
    options = re.findall(r"^#SBATCH (--\S+)$", SLURM, re.M)
    assert re.match(r"#!/usr/bin/env bash\n(##?SBATCH --.*\n){5}#\n", SLURM)
    assert {"--requeue", "--ntasks-per-node=1", "--open-mode=append", "--signal=B:USR1@120"} <= set(options)
    assert "trap interrupt USR1 TERM" in SLURM


def test_the_slurm_script_starts_ray_with_options_it_has_and_ends_no_other_ray() -> None:
    from ray.scripts.scripts import start

    known = {name for option in start.params for name in option.opts}
    (command,) = re.findall(r"ray start \"\$@\" (.*?)</dev/null", SLURM, re.S)
    given = re.findall(r"ray_node (--[^<']*)", SLURM)
    used = set(re.findall(r"(--[a-z-]+)", command + " ".join(given)))
    assert {"--block", "--head", "--address", "--port"} <= used <= known
    assert "RAY_AUTH_MODE=token" in SLURM and not re.search(r"\bray\W+stop\b|\bpkill\b|\bkillall\b", commands(SLURM))


def commands(script: str) -> str:
    """A script without its comments."""
    return re.sub(r"^\s*#.*$|\s#\s.*$", "", script, flags=re.M)


def test_the_slurm_script_outside_a_job_says_how_to_submit_it(tmp_path: Path) -> None:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    script = str(CLUSTER / "slurm.sh")
    asked = subprocess.run([script, "x.yaml"], env=outside, cwd=tmp_path, capture_output=True, text=True)
    assert asked.returncode == 2 and "usage: sbatch cluster/slurm.sh" in asked.stderr
    inside = {**outside, "SLURM_JOB_ID": "1", "LENGTHWISE_BIN": str(tmp_path)}
    asked = subprocess.run([script, "x.yaml"], env=inside, cwd=tmp_path, capture_output=True, text=True)
    assert asked.returncode == 2 and "make install" in asked.stderr and list(tmp_path.iterdir()) == []
