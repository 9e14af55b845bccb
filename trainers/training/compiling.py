"""Compilation of the training step: when, with which options, and once for all processes with the same program."""

import contextlib
import functools
import hashlib
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from trainers.config.member import MemberConfig

_Function = TypeVar("_Function", bound=Callable[..., Any])

# A new program takes about 15 s of one CPU core to compile, a cached one 4 s, and training then takes half the time
# (set complement of 20 tokens, width 32, 32 members; `python tests/benchmarks/compile_cost.py`). By default the step is
# compiled if one member alone would train at least this long uncompiled, by a rough model of one CPU core.
COMPILE_FROM_SECONDS = 1.0
_SECONDS_PER_STEP, _OPERATIONS_PER_SECOND = 5e-4, 2e10
# On a GPU steps are captured as CUDA graphs, and draws can be fused, which takes 5 to 20 s. Compiling the whole step as
# well took 19 s (one layer of attention) to 136 s (a decoder of four), for 0.65 to 1.3 times the speed of captured
# steps with fused draws, or 1.5 to 2.9 times that without: only on request (H100; `python tests/gpu/run.py --parts
# speed`). Draws are fused if one member alone would train at least this long, by the same rough model.
FUSE_FROM_SECONDS = 10.0

_CPU_OPTIONS: dict[str, Any] = {
    "cpp_wrapper": True,  # one C++ file for all kernels, without Python between them
    "cpp_cache_precompile_headers": False,  # slower than compiling the one file
    "compile_threads": 1,  # one file needs no parallel compilation, whose helper processes would import torch
}
_ISA_TRIAL = b"#include <immintrin.h>\n__m512 sum(__m512 a) { return _mm512_add_ps(a, a); }\n"
_ISA_FLAGS = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mavx512vnni", "-mavx512bf16")
_TRUNCATED_LIBRARY = re.compile(r"(/\S+\.so): (?:file too short|invalid ELF header)")
_POLL_SECONDS = 0.1  # between attempts to take a lock that another process holds


def should_compile(member: MemberConfig, device: str = "cpu") -> bool:
    """Return whether the step is compiled.

    `compile: auto` compiles only on a CPU, and only if a single member is estimated to train long. The time of its pack
    has no influence, so that all packs of a member use the same program.
    """
    setting = member.training.compile
    if isinstance(setting, bool):
        return setting

    # Batches of several lengths would need a program for each length.
    if member.training.one_length_per_batch:
        return False
    # On a GPU captured CUDA graphs are about as fast without the time to compile.
    return device == "cpu" and member.model.compiling == "auto" and estimate_seconds(member) >= COMPILE_FROM_SECONDS


def should_fuse_draws(member: MemberConfig, device: str) -> bool:
    """Return whether training is long enough to compile fused kernels for random numbers."""
    return device == "cuda" and estimate_seconds(member) >= FUSE_FROM_SECONDS


def estimate_seconds(member: MemberConfig) -> float:
    """Return a rough estimate of the seconds that a member alone would train on a CPU core, uncompiled."""
    forward = member.model.count_operations(member.task, member.training.batch_size, member.task.train_positions)
    operations = member.training.optimizer.count_operations(3.0 * forward, member.model.parameters(member.task))
    return member.training.steps * (_SECONDS_PER_STEP + operations / _OPERATIONS_PER_SECOND)


@functools.cache
def compile_program(function: _Function, device: str) -> _Function:
    """Return `function` wrapped by torch.compile for a device type; its first call compiles it."""
    # Beyond these limits torch refuses to compile further programs.
    torch._dynamo.config.recompile_limit = 1024  # one process trains packs of many structures
    torch._dynamo.config.accumulated_recompile_limit = 1024
    options = dict(_CPU_OPTIONS) if device == "cpu" else {}
    if options and _supports_avx512():
        options["cpp.vec_isa_ok"] = True  # otherwise torch tests it by compiling for six seconds
    supported = set(torch._inductor.list_options())  # versions of torch differ
    options = {name: value for name, value in options.items() if name in supported}

    # Fixed shapes make faster programs; `mark_dynamic` exempts the number of members.
    compiled: Any = torch.compile(function, dynamic=False, fullgraph=True, options=options)
    return cast(_Function, compiled)


def compile_or_load(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a program for the first time, which compiles it or loads it from the compiler's cache.

    A truncated library of a killed process is removed from the cache and compiled again.
    """
    try:
        function(*arguments)
    except Exception as error:
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        # Only a truncated file in the compiler's cache is removed; any other error is passed on.
        truncated = _TRUNCATED_LIBRARY.search(str(error))
        if truncated is None or not Path(truncated[1]).resolve().is_relative_to(Path(cache_dir()).resolve()):
            raise
        Path(truncated[1]).unlink(missing_ok=True)
        function(*arguments)


def mark_dynamic(tensors: Sequence[Tensor]) -> None:
    """Mark the first dimension of tensors as dynamic, so that a single program serves all sizes from 2."""
    for tensor in tensors:
        if tensor.dim():
            torch._dynamo.maybe_mark_dynamic(tensor, 0)


@contextlib.contextmanager
def compile_once(key: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Let one process per key compile a program in this context, while the others wait.

    The others then run the context with a filled compiler cache. If the process dies, the next process compiles.
    on_wait: called ten times a second while waiting.
    """
    # Lock and marker are in the compiler's cache, so that they disappear together with the compiled programs.
    try:
        import fcntl

        from torch._inductor.runtime.cache_dir_utils import cache_dir

        # The marker of a finished compilation, and the lock that a compiling process holds.
        folder = Path(cache_dir()) / "lengthwise"
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(f"{key} {torch.__version__} {platform.machine()}".encode()).hexdigest()[:32]
        marker = folder / f"{name}.done"
        lock = (folder / f"{name}.lock").open("wb")
    except (ImportError, OSError):  # without file locks every process compiles
        yield
        return

    # The lock of a process that dies is released, so the next process compiles.
    with lock:
        while not marker.exists():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                on_wait()
                time.sleep(_POLL_SECONDS)
            except OSError:  # the file system has no locks: compile without waiting
                break

        # After another process has compiled, the others load the program at the same time.
        if marker.exists():
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)
        yield
        with contextlib.suppress(OSError):
            marker.touch()


@functools.cache
def _supports_avx512() -> bool:
    """Return whether the C++ compiler supports AVX-512, so that torch need not test each instruction set."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return False
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler

        command = [get_cpp_compiler(), *_ISA_FLAGS, "-c", "-x", "c++", "-", "-o", "/dev/null"]
        return subprocess.run(command, input=_ISA_TRIAL, capture_output=True, timeout=60, check=False).returncode == 0
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError):
        return False
