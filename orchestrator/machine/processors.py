"""Count the CPU cores of this process; read, limit and free the memory of this machine's GPUs."""

import gc
import os
import subprocess
import sys

ASSUMED_BYTES = 16 * 2**30  # memory of a GPU that cannot be queried, for example because its machine has not started
QUERY_TIMEOUT_SECONDS = 30.0
ALLOCATOR_SHARE = 0.95  # share of a pack's memory for torch's allocator; the rest is for the CUDA context
_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=memory.total,mig.mode.current", "--format=csv,noheader,nounits")
_TORCH_SCRIPT = (
    "import torch; print(*(torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count())))"
)


def count_cores() -> int:
    """Return the number of cores in the affinity of this process, which taskset and Slurm set."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_gpu_memories() -> list[float]:
    """Return the memory in bytes of the GPUs of this machine, or of those (or MIG parts) in CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return []

    # Unlike torch, nvidia-smi uses no GPU memory, but it cannot query MIG parts.
    selection = () if visible is None else (f"--id={visible}",)
    try:
        if visible is not None and _may_number_differently(visible):
            return _query_torch()
        lines = _run_command((*_NVIDIA_SMI, *selection)).splitlines()  # raises for MIG parts
        cards = [line.split(",") for line in lines]
        if not any(mode.strip() == "Enabled" for _, mode in cards):  # a MIG part has less than memory.total
            return [float(memory) * 2**20 for memory, _ in cards]
    except (OSError, ValueError, subprocess.SubprocessError):
        pass
    return _query_torch()


def list_mig_parts() -> list[str]:
    """Return the MIG parts in CUDA_VISIBLE_DEVICES."""
    return [
        device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device.strip().startswith("MIG-")
    ]


def compute_smallest_share(memories: list[float], gpus_per_pack: float) -> float:
    """Return the bytes that a pack may use on the smallest of these GPUs; a share of one has its share of memory."""
    return min(memories, default=ASSUMED_BYTES) * min(1.0, gpus_per_pack)


def count_gpu_packs(available: float, gpus_per_pack: float) -> int:
    """Return the number of packs that fit on `available` GPUs; a share is always on one GPU."""
    # 1e-9 allows for the rounding of shares such as 1/3.
    if gpus_per_pack < 1:
        return int(available + 1e-9) * int(1 / gpus_per_pack + 1e-9)
    return int(available / gpus_per_pack + 1e-9)


def list_gpu_slots(gpus_per_pack: float) -> list[str]:
    """Return CUDA_VISIBLE_DEVICES for each simultaneous pack on this machine.

    Example with two GPUs: 0.5 -> ["0", "1", "0", "1"]; 2 -> ["0,1"].
    """
    # CUDA_VISIBLE_DEVICES may name more devices than this machine has.
    count, visible = len(read_gpu_memories()), os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [name.strip() for name in visible.split(",")][:count] if visible else list(map(str, range(count)))
    size = max(1, int(gpus_per_pack))
    slots = [",".join(names[first : first + size]) for first in range(0, count - size + 1, size)]
    return slots * int(1 / gpus_per_pack + 1e-9) if gpus_per_pack < 1 else slots


def limit_gpu_memory(gpus_per_pack: float) -> None:
    """Limit torch's GPU memory in this process to the share of a pack, if packs share a GPU."""
    import torch

    torch.cuda.set_per_process_memory_fraction(ALLOCATOR_SHARE * gpus_per_pack if gpus_per_pack < 1 else 1.0)


def free_memory() -> None:
    """Free the memory that a failed pack has left in this process."""
    import torch

    # The exception of the failed pack may hold tensors in reference cycles.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _may_number_differently(visible: str) -> bool:
    """Return whether CUDA and nvidia-smi may mean different cards by a number. Raises like `_run_command`."""
    # CUDA's first card is the fastest, unless told otherwise; nvidia-smi's is the first on the PCI bus.
    has_numbers = any(name.strip().isdecimal() for name in visible.split(","))
    if not has_numbers or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return False
    return len(set(_run_command(_NVIDIA_SMI).splitlines())) > 1


def _query_torch() -> list[float]:
    """Return the memory of the GPUs from torch in a new process, because torch keeps GPU memory."""
    import torch

    if not torch.cuda.is_available():
        return []
    try:
        return [float(memory) for memory in _run_command((sys.executable, "-P", "-c", _TORCH_SCRIPT)).split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def _run_command(command: tuple[str, ...]) -> str:
    """Return the output of a command. Raises OSError, or SubprocessError if it fails or takes too long."""
    return subprocess.run(command, capture_output=True, text=True, timeout=QUERY_TIMEOUT_SECONDS, check=True).stdout
