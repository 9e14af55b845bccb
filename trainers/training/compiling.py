"""When the step is compiled, with which settings, and by which of several processes that need the same program."""

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

# A new program takes about 15 s of one CPU core, one that is cached 4 s, and training then takes half the time (set
# complement of 20 tokens, width 32, 32 members; `python tests/benchmarks/compile_cost.py`). Compiling is the default
# where one member alone would train at least so long uncompiled, by a rough model of one CPU core: so much for starting
# the kernels of a step, and so many operations a second.
COMPILE_FROM_SECONDS = 1.0
_SECONDS_PER_STEP, _OPERATIONS_PER_SECOND = 5e-4, 2e10
# On a GPU a step is recorded and replayed, and its draws can be fused, which takes 5 to 20 s. Compiling the whole step
# on top took 19 s (one layer of attention) to 136 s (a decoder of four), for 0.65 to 1.3 times the speed of recorded
# steps with fused draws, or 1.5 to 2.9 times that of recorded ones: it has to be asked for (H100;
# `python tests/gpu/run.py --parts speed`). Draws are fused from so much training of one member on, by the same rough
# model: there they would take about as long as it takes to make the kernels.
FUSE_FROM_SECONDS = 10.0

_CPU_OPTIONS: dict[str, Any] = {
    "cpp_wrapper": True,  # one file for all kernels, and no Python between them
    "cpp_cache_precompile_headers": False,  # they take longer than the one file
    "compile_threads": 1,  # nothing is left to compile side by side, and each helper process would import torch
}
_ISA_TRIAL = b"#include <immintrin.h>\n__m512 sum(__m512 a) { return _mm512_add_ps(a, a); }\n"
_ISA_FLAGS = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mavx512vnni", "-mavx512bf16")
_HALF_A_LIBRARY = re.compile(r"(/\S+\.so): (?:file too short|invalid ELF header)")
_LOOK_SECONDS = 0.1  # between looks at a lock that another process holds


def compiles(member: MemberConfig, device: str = "cpu") -> bool:
    """Whether the step is compiled: as asked for, or by the work of one member, never by what else is in the pack.

    On another kind of `device` than the CPU it is where that is asked for.
    """
    wanted = member.training.compile
    if isinstance(wanted, bool):
        return wanted
    return device == "cpu" and member.model.compiling == "auto" and rough_seconds(member) >= COMPILE_FROM_SECONDS


def fuses_draws(member: MemberConfig, device: str) -> bool:
    """Whether the random numbers of a pack are drawn by kernels that are made for it first."""
    return device == "cuda" and rough_seconds(member) >= FUSE_FROM_SECONDS


def why(member: MemberConfig, device: str = "cpu") -> str:
    """Whether the step is compiled and what decides it, in words."""
    if isinstance(member.training.compile, bool):
        return f"{'yes' if member.training.compile else 'no'}, as training.compile says"
    if member.model.compiling != "auto":
        return f"no: a step of {member.model.name} is not compiled by itself"
    if device != "cpu":
        return "no: on a GPU a step is recorded and replayed as one launch"
    alone = f"one member alone would train about {rough_seconds(member):.1f} s uncompiled"
    return f"{'yes' if compiles(member) else 'no'}: {alone}, and from {COMPILE_FROM_SECONDS:.1f} s on it is worth it"


def rough_seconds(member: MemberConfig) -> float:
    """How long a member alone would train on one CPU core, uncompiled: from its operations, without measuring."""
    forward = member.model.operations(member.task, member.training.batch_size, member.task.train_positions)
    return member.training.steps * (_SECONDS_PER_STEP + 3.0 * forward / _OPERATIONS_PER_SECOND)


@functools.cache
def program(function: _Function, device: str) -> _Function:
    """`function` compiled as one program for a kind of device, when it is called."""
    torch._dynamo.config.recompile_limit = 1024  # one process trains packs of many structures in turn
    torch._dynamo.config.accumulated_recompile_limit = 1024
    options = dict(_CPU_OPTIONS) if device == "cpu" else {}
    if options and _vectors_work():
        options["cpp.vec_isa_ok"] = True  # else it is found out by compiling for six seconds
    known = set(torch._inductor.list_options())
    options = {name: value for name, value in options.items() if name in known}
    compiled: Any = torch.compile(function, dynamic=False, fullgraph=True, options=options)
    return cast(_Function, compiled)


def first_call(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a program for the first time, which makes it or takes it from the compiler's cache.

    A process that is killed while a library is written leaves half of one there; it is removed and made again.
    """
    try:
        function(*arguments)
    except Exception as error:
        half = _HALF_A_LIBRARY.search(str(error))
        if half is None or not _in_cache(Path(half[1])):
            raise
        Path(half[1]).unlink(missing_ok=True)
        function(*arguments)


def _in_cache(path: Path) -> bool:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return path.resolve().is_relative_to(Path(cache_dir()).resolve())


def any_size(tensors: Sequence[Tensor]) -> None:
    """Have the programs compiled for these tensors serve others, of other sizes of the first dimension (from 2)."""
    for tensor in tensors:
        if tensor.dim():
            torch._dynamo.maybe_mark_dynamic(tensor, 0)


@contextlib.contextmanager
def once(key: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Around the first call of a program: of the processes that enter with one key, all but the first wait for it.

    They find it in the compiler's cache then, and do not wait for each other. A process that dies lets the next one in.
    `waiting` is called ten times a second meanwhile.
    """
    try:
        import fcntl

        from torch._inductor.runtime.cache_dir_utils import cache_dir

        folder = Path(cache_dir()) / "lengthwise"
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(f"{key} {torch.__version__} {platform.machine()}".encode()).hexdigest()[:32]
        done = folder / f"{name}.done"
        file = (folder / f"{name}.lock").open("wb")
    except (ImportError, OSError):  # no locks here, or nowhere to keep them: several compile
        yield
        return
    with file:
        while not done.exists():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                time.sleep(_LOOK_SECONDS)
            except OSError:
                break
        if done.exists():
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
        yield
        with contextlib.suppress(OSError):
            done.touch()


@functools.cache
def _vectors_work() -> bool:
    """Whether the C++ compiler makes the widest vectors that an x86 has, so that torch need not try them one by one."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return False
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler

        command = [get_cpp_compiler(), *_ISA_FLAGS, "-c", "-x", "c++", "-", "-o", "/dev/null"]
        return subprocess.run(command, input=_ISA_TRIAL, capture_output=True, timeout=60, check=False).returncode == 0
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError):
        return False
