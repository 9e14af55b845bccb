"""Freed memory that a process keeps: page faults of repeated steps, counted in a process of its own."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

STEPS = """
import resource, sys
from orchestrator.engine.heap import keep_freed_memory
import torch

torch.set_num_threads(1)
weights = torch.ones(2**20, requires_grad=True)  # 4 MiB

def step():
    activations = weights
    for _ in range(8):
        activations = (activations * 1.5).exp()
    activations.sum().backward()

if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(30):  # until the heap no longer grows
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count_faults(word: str) -> int:
    return int(subprocess.run([sys.executable, "-c", STEPS, word], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc takes these settings")
def test_a_step_reuses_the_memory_of_the_step_before() -> None:
    assert count_faults("keep") * 2 < count_faults("return")
