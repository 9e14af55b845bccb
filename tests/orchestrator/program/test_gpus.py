"""Programs on GPUs: which GPUs a member has, and how many members a GPU has at once.

No GPU is needed: an `nvidia-smi` of the test names two, and the script writes what it may use.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.machine.processors import count_gpu_packs, list_gpu_slots
from orchestrator.preview.forecast import TIME, forecast
from orchestrator.running.children.worker_host import WorkerHost
from orchestrator.running.schedulers.choice import choose_scheduler, describe_hidden_gpus, find_missing_resources
from orchestrator.running.schedulers.local import make_local_cluster
from search_spaces import load_sweep
from tests.orchestrator.program.studies import Study
from tests.sweep_files import load_checked

# The first members wait for each other: so many are at work at once.
SCRIPT = """
log={folder}/log
echo "begin ${{CUDA_VISIBLE_DEVICES-all}} $XLA_PYTHON_CLIENT_MEM_FRACTION" >>$log
until [ $(grep -c begin $log) -ge {together} ]; do sleep 0.02; done
{then}
echo "{{\\"step\\": 30, \\"curves\\": {{\\"acc\\": {{\\"10\\": 0.5}}}}}}" >>$LENGTHWISE_REPORTS
echo "end $CUDA_VISIBLE_DEVICES" >>$log
"""
LocalStudy = Callable[..., Study]


@pytest.fixture
def children(host: WorkerHost) -> Any:
    """Return the children of a driver without a publisher."""
    return SimpleNamespace(workers=host, publisher=None, close_unneeded_host=lambda scheduler: None)


@pytest.fixture
def on_gpus(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStudy:
    """Write a study on a machine with two GPUs and sixteen cores."""
    command = tmp_path / "bin" / "nvidia-smi"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\necho 81920, Disabled\necho 81920, Disabled\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    for name in ("CUDA_VISIBLE_DEVICES", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)

    def write(gpus: float, seeds: int, together: int, then: str = "true") -> Study:
        code = SCRIPT.format(folder=tmp_path, together=together, then=then)
        resources = {"scheduler": "local", "gpus": gpus}
        command = {"command": ["bash", "train.sh"]}
        study.write(code, name="train.sh", program=command, evaluation__every=None, seeds=seeds, resources=resources)
        return study

    return write


def log(tmp_path: Path) -> list[list[str]]:
    """Return the words of what the members have written."""
    return [line.split() for line in (tmp_path / "log").read_text().splitlines()]


def most_at_once(lines: list[list[str]]) -> dict[str, int]:
    """Return the largest number of members at once on each GPU."""
    now, most = Counter[str](), dict[str, int]()
    for what, gpu, *_ in lines:
        now[gpu] += 1 if what == "begin" else -1
        most[gpu] = max(most.get(gpu, 0), now[gpu])
    return most


def test_members_share_gpus(on_gpus: LocalStudy, children: Any, tmp_path: Path) -> None:
    """Eight of ten members are at work at once, four on each GPU; the others get what is released."""
    state = on_gpus(gpus=0.25, seeds=10, together=8).run(children=children)
    assert [pack.status for pack in state.packs.values()] == ["complete"] * 10
    assert most_at_once(log(tmp_path)) == {"0": 4, "1": 4}
    assert {words[2] for words in log(tmp_path) if words[0] == "begin"} == {"0.23"}


def test_whole_gpus_are_those_that_are_visible(
    on_gpus: LocalStudy, children: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5a")
    on_gpus(gpus=2, seeds=2, together=1).run(children=children)
    assert log(tmp_path) == [["begin", "3,GPU-5a"], ["end", "3,GPU-5a"]] * 2
    (tmp_path / "log").unlink()
    on_gpus(gpus=1, seeds=2, together=2).run(name="single", children=children)
    assert most_at_once(log(tmp_path)) == {"3": 1, "GPU-5a": 1}


@pytest.mark.parametrize("scheduler", ["local", "inline"])
def test_a_sweep_without_gpus_sees_none(
    scheduler: str, on_gpus: LocalStudy, children: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    study = on_gpus(gpus=0, seeds=1, together=1)
    study.run(f"resources.scheduler={scheduler}", children=children)
    assert log(tmp_path) == [["begin"], ["end"]]


@pytest.mark.parametrize(("gpus", "visible", "hidden"), [(0, None, 2), (0, "", 0), (1, None, 0)])
def test_hidden_gpus_are_counted(
    gpus: int, visible: str | None, hidden: int, on_gpus: LocalStudy, monkeypatch: pytest.MonkeyPatch, children: Any
) -> None:
    """By `plan` and `run`, unless the user has hidden them."""
    study = on_gpus(gpus=gpus, seeds=1, together=1)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    rows = dict(forecast(load_checked(study.folder / "prog.yaml"), None).rows)
    study.run(children=children)
    for text in (rows.get("GPUs", ""), study.output):
        assert ("resources.gpus: 1" in text) == bool(hidden), text
        assert not hidden or f"{hidden} GPUs" in text, text


def test_a_function_in_this_process_sees_all_gpus(on_gpus: LocalStudy) -> None:
    study = on_gpus(gpus=0, seeds=1, together=1)
    study.write(program={"function": "mine.train"})
    spec = load_sweep(study.folder / "prog.yaml")
    assert "2 GPUs" in describe_hidden_gpus(spec, "local")
    assert describe_hidden_gpus(spec, "inline") == describe_hidden_gpus(spec, "ray") == ""


def test_a_gpu_is_released_when_its_worker_dies(on_gpus: LocalStudy, children: Any, tmp_path: Path) -> None:
    """The program kills its worker, the parent of its supervisor, in the first attempt."""
    kill = "[ $(grep -c begin $log) -gt 1 ] || { kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 60; }"
    state = on_gpus(gpus=2, seeds=1, together=1, then=kill).run(children=children)
    assert [(pack.status, len(pack.attempts)) for pack in state.packs.values()] == [("complete", 1)]
    assert log(tmp_path) == [["begin", "0,1"], ["begin", "0,1"], ["end", "0,1"]]


@pytest.mark.parametrize(("gpus", "slots"), [(0.5, "0 1 0 1"), (0.4, "0 1 0 1"), (1, "0 1"), (2, "0,1"), (3, "")])
def test_slots(on_gpus: LocalStudy, gpus: float, slots: str) -> None:
    assert list_gpu_slots(gpus) == slots.split() and len(list_gpu_slots(gpus)) == count_gpu_packs(2, gpus)


def test_the_plan_counts_members_by_cores_and_gpus(on_gpus: LocalStudy) -> None:
    study = on_gpus(gpus=0.25, seeds=16, together=1)
    for override, count in (("resources.cpus=1", 8), ("resources.cpus=4", 4), ("resources.workers=3", 3)):
        spec = load_checked(study.folder / "prog.yaml", [override, "program.member_minutes=1"])
        assert f"with {count} members at once" in dict(forecast(spec, None).rows)[TIME]
    assert make_local_cluster(1, gpus=3).workers == 1


@pytest.mark.parametrize("scheduler", ["local", "auto"])
def test_more_gpus_than_there_are(on_gpus: LocalStudy, scheduler: str) -> None:
    file = on_gpus(gpus=3, seeds=1, together=1).folder / "prog.yaml"
    spec = load_sweep(file, [f"resources.scheduler={scheduler}"])
    assert [problem.key for problem in find_missing_resources(spec).problems] == ["resources.gpus"]
    assert choose_scheduler(spec, ())[0] == "local"
    assert not find_missing_resources(load_sweep(file, ["resources.gpus=2"])).problems
