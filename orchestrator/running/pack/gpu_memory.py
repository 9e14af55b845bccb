"""How much memory GPUs have, asked on the machine that has them and without using one."""

import os
import subprocess
import sys

UNKNOWN = 16 * 2**30  # of a GPU that cannot be asked, such as that of a machine yet to be started: that of smaller ones
ASK_SECONDS = 30.0
_COMMAND = ("nvidia-smi", "--query-gpu=memory.total,mig.mode.current", "--format=csv,noheader,nounits")
_BY_TORCH = (
    "import torch; print(*(torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count())))"
)


def gpus_here(every: bool = False) -> list[float]:
    """Memory in bytes of the GPUs of this machine: of those that CUDA_VISIBLE_DEVICES lets a process see, or of all."""
    visible = None if every else os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return []
    chosen = () if visible is None else (f"--id={visible}",)
    try:
        lines = _said((*_COMMAND, *chosen)).splitlines()
        found = [line.split(",") for line in lines]
        if not any(mode.strip() == "Enabled" for _, mode in found):  # a part of a card is not the card
            return [float(memory) * 2**20 for memory, _ in found]
    except (OSError, ValueError, subprocess.SubprocessError):
        pass
    return _by_torch()


def share_of(found: list[float], gpus: float) -> float:
    """What a pack that is given so many GPUs, or a part of one, has of the smallest of those found."""
    return min(found, default=UNKNOWN) * min(1.0, gpus)


def _by_torch() -> list[float]:
    """What a process says that ends then: this one would keep memory on the GPU."""
    import torch

    if not torch.cuda.is_available():
        return []
    try:
        return [float(memory) for memory in _said((sys.executable, "-c", _BY_TORCH)).split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def _said(command: tuple[str, ...]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=True).stdout
