"""How much memory GPUs have, asked on the machine that has them."""

import subprocess

UNKNOWN = 16 * 2**30  # of a GPU that cannot be asked, such as that of a machine yet to be started: that of smaller ones
ASK_SECONDS = 30.0
_COMMAND = ("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")


def gpus_here() -> list[float]:
    """Memory in bytes of every GPU of this machine."""
    try:
        done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=ASK_SECONDS, check=True)
        return [float(line) * 2**20 for line in done.stdout.splitlines()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return _by_torch()


def share_of(found: list[float], gpus: float) -> float:
    """What a pack that is given so many GPUs, or a part of one, has of the smallest of those found."""
    return min(found, default=UNKNOWN) * min(1.0, gpus)


def _by_torch() -> list[float]:
    """GPUs of other makers."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [float(torch.cuda.get_device_properties(i).total_memory) for i in range(count)]
