"""Freed memory that a process keeps: page faults of repeated steps, counted in a process of its own."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

STEPS = """
import resource
from orchestrator.engine.heap import keep_freed_memory
import torch

torch.set_num_threads(1)
weights = torch.ones(2**20, requires_grad=True)  # 4 MiB

def step():
    activations = weights
    for _ in range(8):
        activations = (activations * 1.5).exp()
    activations.sum().backward()

def count_faults():
    for _ in range(10):  # until the heap no longer grows
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(count_faults())
assert keep_freed_memory()
print(count_faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc takes these settings")
def test_a_step_reuses_the_memory_of_the_step_before() -> None:
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    returned, kept = map(int, done.stdout.split())
    assert kept * 2 < returned
