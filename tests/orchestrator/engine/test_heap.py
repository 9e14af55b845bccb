"""Freed memory that a process keeps: how far its resident memory falls, in a process of its own."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BLOCKS = """
import resource
from pathlib import Path
from orchestrator.engine.heap import keep_freed_memory
import torch

torch.set_num_threads(1)

def read_resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def count_returned(size):
    block = torch.ones(size // 4)
    before = read_resident_bytes()
    del block
    return before - read_resident_bytes()

print(count_returned(20 * 2**20))
assert keep_freed_memory()
print(count_returned(31 * 2**20))  # larger, because glibc keeps blocks of a size that it has returned once
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc takes these settings")
def test_a_freed_block_stays_with_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKS], capture_output=True, text=True, check=True)
    returned, kept_from = map(int, done.stdout.split())
    assert returned > 19 * 2**20 and kept_from < 2**20
