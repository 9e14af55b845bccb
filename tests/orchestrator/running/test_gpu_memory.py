"""What GPUs say of their memory, and what packs are given of it."""

import pytest
import torch

from orchestrator.plan.packs import LARGEST_PACK_CPU, LARGEST_PACK_GPU, MEMORY_SHARE, Cluster, cost_of, packing
from orchestrator.plan.soundness import check
from orchestrator.preview.forecast import forecast
from orchestrator.running.gpu_memory import UNKNOWN, gpus_here, share_of
from search_spaces import load_sweep

GIB = 2**30


@pytest.fixture
def says(tmp_path, monkeypatch):
    """says(text) puts an nvidia-smi that prints it first in the path."""

    def put(text: str, status: int = 0) -> None:
        command = tmp_path / "bin" / "nvidia-smi"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\nprintf '{text}'\nexit {status}\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")

    return put


def test_every_gpu_is_asked_and_the_smallest_counts(says):
    says("81920\\n40960\\n")
    assert gpus_here() == [80 * GIB, 40 * GIB]
    assert share_of(gpus_here(), 1.0) == 40 * GIB and share_of(gpus_here(), 0.25) == 10 * GIB
    assert share_of(gpus_here(), 2.0) == 40 * GIB  # of the one on which a pack trains


@pytest.mark.parametrize(("text", "status"), [("No devices were found\\n", 6), ("[N/A]\\n", 0), ("", 9)])
def test_where_it_cannot_say_torch_is_asked(says, monkeypatch, text, status):
    says(text, status)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpus_here() == [] and share_of([], 0.5) == UNKNOWN / 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: type("Properties", (), {"total_memory": 7}))
    assert gpus_here() == [7.0]


def test_packs_on_a_gpu_are_larger_and_fit_into_its_memory(tiny):
    many = ("seeds=2000", "search.configurations=1", "space={}", "search={}", "resources.gpus=1")
    sizes = {}
    for memory in (80 * GIB, 1 * GIB):
        spec = load_sweep(tiny, many)
        cluster = Cluster(workers=1, bytes_per_worker=memory, description="pretended")
        packs = packing(spec, cluster)(check(spec), set())
        sizes[memory] = [len(pack.members) for pack in packs]
        assert sum(sizes[memory]) == 2000
    assert LARGEST_PACK_CPU < max(sizes[80 * GIB]) <= LARGEST_PACK_GPU
    assert max(sizes[1 * GIB]) <= MEMORY_SHARE * GIB / (8 * 2**20)
    spec = load_sweep(tiny, [*many[:-1], "resources.gpus=0"])
    cluster = Cluster(workers=1, bytes_per_worker=80 * GIB, description="pretended")
    assert max(len(pack.members) for pack in packing(spec, cluster)(check(spec), set())) <= LARGEST_PACK_CPU


def test_a_large_model_has_few_members_in_a_pack(tiny):
    large = ("model={name: decoder, layers: 6, width: 768, heads: 12}", "training.batch_size=64", "space={}")
    spec = load_sweep(tiny, [*large, "search={}", "seeds=40", "resources.gpus=1"])
    (configuration,) = check(spec)
    needed = cost_of(configuration.member(0)).bytes_per_member
    cluster = Cluster(workers=1, bytes_per_worker=80 * GIB, description="pretended")
    assert max(len(pack.members) for pack in packing(spec, cluster)([configuration], set())) * needed <= 40 * GIB


def test_the_plan_is_for_the_gpus_of_this_machine(says, tiny, tmp_path):
    says("81920\\n81920\\n")
    spec = load_sweep(tiny, ["resources.scheduler=ray", "resources.gpus=0.5"])
    assert forecast(spec, None, tmp_path).workers == 4
    assert forecast(spec, 3, tmp_path).workers == 3
