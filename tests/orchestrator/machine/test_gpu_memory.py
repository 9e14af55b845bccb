"""What GPUs say of their memory, and what packs are given of it."""

import sys

import pytest
import torch

from orchestrator.engine.engine import LARGEST_PACK_CPU, LARGEST_PACK_GPU, estimate_cost_or_refuse
from orchestrator.machine import processors
from orchestrator.machine.processors import (
    ALLOCATOR_SHARE,
    ASSUMED_BYTES,
    compute_smallest_share,
    count_gpu_packs,
    read_gpu_memories,
)
from orchestrator.plan.checks.sweep_file_checks import build_first_generation
from orchestrator.plan.packing.packs import MEMORY_SHARE, Cluster, Packer
from orchestrator.preview import forecast as forecast_module
from orchestrator.preview.forecast import TIME, forecast
from orchestrator.running.schedulers import choice as schedulers
from orchestrator.running.schedulers import inline
from orchestrator.running.with_ray.nodes import count_packs_on_node
from search_spaces import load_sweep
from trainers.training.cuda_graph import MAX_MEMORY_SHARE

GIB = 2**30
TWO = "81920, [N/A]\\n40960, Disabled\\n"


@pytest.fixture
def says(tmp_path, monkeypatch):
    """says(text) puts an nvidia-smi that prints it first in the path."""

    def write_command(text: str, status: int = 0) -> None:
        command = tmp_path / "bin" / "nvidia-smi"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\nprintf '{text}'\nexit {status}\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")

    return write_command


def test_every_gpu_is_asked_and_the_smallest_counts(says):
    says(TWO)
    assert read_gpu_memories() == [80 * GIB, 40 * GIB]
    assert (
        compute_smallest_share(read_gpu_memories(), 1.0) == 40 * GIB
        and compute_smallest_share(read_gpu_memories(), 0.25) == 10 * GIB
    )
    assert compute_smallest_share(read_gpu_memories(), 2.0) == 40 * GIB  # of the one on which a pack trains


@pytest.mark.parametrize(("text", "status"), [("No devices were found\\n", 6), ("[N/A]\\n", 0), ("", 9)])
def test_torch_is_asked_if_nvidia_smi_reports_no_memory(says, monkeypatch, text, status):
    says(text, status)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert read_gpu_memories() == [] and compute_smallest_share([], 0.5) == ASSUMED_BYTES / 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(processors, "_TORCH_SCRIPT", "print(7, 9)")
    assert read_gpu_memories() == [7.0, 9.0]
    monkeypatch.setattr(processors, "_TORCH_SCRIPT", "raise RuntimeError")
    assert read_gpu_memories() == []


@pytest.mark.slow
def test_what_torch_is_asked_can_be_asked():
    assert processors._run_command((sys.executable, "-c", processors._TORCH_SCRIPT)).split() == [
        str(torch.cuda.get_device_properties(i).total_memory) for i in range(torch.cuda.device_count())
    ]


@pytest.mark.parametrize(("visible", "asked"), [("1", "--id=1"), ("GPU-5a,GPU-7c", "--id=GPU-5a,GPU-7c"), (None, "")])
def test_only_gpus_that_may_be_used_are_asked(says, tmp_path, monkeypatch, visible, asked):
    says(TWO)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert len(read_gpu_memories()) == 2 and (tmp_path / "asked").read_text().strip().endswith(asked or "nounits")


@pytest.mark.parametrize(
    ("visible", "text", "order", "memories"),
    [
        ("1", TWO, "", [9.0]),
        ("1", TWO, "PCI_BUS_ID", [80 * GIB, 40 * GIB]),
        ("1", "81920, Disabled\\n81920, Disabled\\n", "", [80 * GIB, 80 * GIB]),
        ("GPU-5a,GPU-7c", TWO, "", [80 * GIB, 40 * GIB]),
    ],
)
def test_torch_is_asked_for_numbers_of_unequal_cards(says, monkeypatch, visible, text, order, memories):
    """CUDA counts the fastest card first, nvidia-smi by the PCI bus; this nvidia-smi prints all for every selection."""
    says(text)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(processors, "_TORCH_SCRIPT", "print(9)")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    assert read_gpu_memories() == memories


@pytest.mark.parametrize("visible", ["", "-1"])
def test_hidden_gpus_are_none(says, monkeypatch, visible):
    says(TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert read_gpu_memories() == []


def test_parts_of_a_card_that_may_be_used_are_asked_of_torch(says, monkeypatch):
    """nvidia-smi finds no device by the id of a part; torch, in another process, sees what this one may use."""
    says("No devices were found\\n", 6)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5a,MIG-7c")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    asking = "import os; print(*(20 for part in os.environ['CUDA_VISIBLE_DEVICES'].split(',')))"
    monkeypatch.setattr(processors, "_TORCH_SCRIPT", asking)
    assert read_gpu_memories() == [20.0, 20.0]


@pytest.mark.parametrize(("there", "gpus", "packs"), [(2, 0.5, 4), (2, 0.4, 4), (1, 0.3, 3), (5, 2, 2), (1, 2, 0)])
def test_a_part_of_a_gpu_is_on_one_gpu(there, gpus, packs):
    assert count_gpu_packs(there, gpus) == packs
    node = {"CPU": 64.0, "GPU": float(there)}
    assert count_packs_on_node(node, {"CPU": 1, "GPU": gpus}) == packs
    assert count_packs_on_node({**node, "CPU": 1.0}, {"CPU": 1, "GPU": gpus}) == min(packs, 1)


def test_a_part_of_a_card_is_not_the_card(says, monkeypatch):
    says("81920, Enabled\\n")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(processors, "_TORCH_SCRIPT", "print(10)")
    assert read_gpu_memories() == [10.0]


def test_a_command_that_hangs_is_given_up(says, tmp_path, monkeypatch):
    says(TWO)
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(processors, "QUERY_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert read_gpu_memories() == []


def test_schedulers_and_the_plan_cut_packs_for_the_gpu(says, tiny, tmp_path):
    says(TWO)
    assert inline.describe_process(0.5).bytes_per_worker == 20 * GIB
    spec = load_sweep(tiny, ["resources.gpus=0.5"])
    with schedulers.open_scheduler("inline", spec.resources, None) as opened:
        assert opened.cluster.bytes_per_worker == 20 * GIB
    on_ray = load_sweep(tiny, ["resources.scheduler=ray", "resources.gpus=0.5"])
    assert [forecast_module.find_cluster(parsed, None).bytes_per_worker for parsed in (spec, on_ray)] == [20 * GIB] * 2


def cut(tiny, memory: float, *overrides: str, workers: int = 1) -> list[int]:
    """The sizes of the packs of a sweep of one configuration."""
    spec = load_sweep(tiny, ["space={}", "search={}", *overrides])
    cluster = Cluster(workers=workers, bytes_per_worker=memory, description="pretended")
    return [
        len(pack.members)
        for pack in Packer(spec, cluster).pack_members(
            [(configuration, spec.seeds) for configuration in build_first_generation(spec)]
        )
    ]


def test_packs_on_a_gpu_are_larger_and_fit_into_its_memory(tiny):
    large, small = (cut(tiny, memory, "seeds=2000", "resources.gpus=1") for memory in (80 * GIB, 1 * GIB))
    assert sum(large) == sum(small) == 2000
    assert 500 < max(large) <= LARGEST_PACK_GPU and max(small) <= MEMORY_SHARE * GIB / (8 * 2**20)
    assert max(cut(tiny, 80 * GIB, "seeds=2000", "resources.gpus=0")) <= LARGEST_PACK_CPU


@pytest.mark.parametrize(("seeds", "workers"), [(256, 8), (2000, 4), (2000, 8)])
def test_every_gpu_has_packs(tiny, seeds, workers):
    as_measured = ("task.vocabulary=20", "task.train_length=5", "training.batch_size=64", "model.width=32")
    sizes = cut(tiny, 80 * GIB, f"seeds={seeds}", "resources.gpus=1", *as_measured, workers=workers)
    assert len(sizes) % workers == 0 and max(sizes) - min(sizes) <= 1


@pytest.mark.slow
def test_a_large_model_has_few_members_in_a_pack(tiny):
    large = ("model={name: decoder, layers: 6, width: 768, heads: 12}", "training.batch_size=64", "resources.gpus=1")
    (configuration,) = build_first_generation(load_sweep(tiny, ["space={}", "search={}", *large]))
    needed = estimate_cost_or_refuse(configuration.build_member(0)).bytes_per_member
    assert max(cut(tiny, 80 * GIB, "seeds=40", *large)) * needed <= 40 * GIB


def test_a_recorded_step_has_room_beside_the_eager_one():
    """It is recorded up to the share MAX_MEMORY_SHARE of what the process may use, and then needs as much again."""
    assert 2 * MAX_MEMORY_SHARE <= MEMORY_SHARE < ALLOCATOR_SHARE


def test_torch_is_held_to_the_part_of_a_gpu_that_a_pack_has(monkeypatch):
    held = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", held.append)
    for gpus in (0.5, 0.25, 1.0, 2.0):
        processors.limit_gpu_memory(gpus)
    assert held == [ALLOCATOR_SHARE / 2, ALLOCATOR_SHARE / 4, 1.0, 1.0]


def test_the_plan_is_for_the_gpus_of_this_machine(says, tiny, tmp_path):
    says("81920, Disabled\\n81920, Disabled\\n")
    spec = load_sweep(tiny, ["resources.scheduler=ray", "resources.gpus=0.5"])
    for workers, packs in ((None, 4), (3, 3)):
        assert f"with {packs} packs at once" in dict(forecast(spec, workers).rows)[TIME]
