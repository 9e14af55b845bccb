"""Count the CPU cores that this process may use."""

import os


def count_cores() -> int:
    """Return the number of cores in the affinity of this process, which taskset and Slurm set."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
