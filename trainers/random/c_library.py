"""The library compiled from draws.c, and its calls on CPU tensors; the same numbers as reference.py.

It is loaded and checked when the first number is drawn. It is cached in $XDG_CACHE_HOME/lengthwise/native (default
~/.cache), named by a hash of its source, the compiler and the CPU, and written atomically, so several processes may
compile it at once. If the folder cannot be written, each process compiles its own. Without a working compiler the torch
code draws the same numbers.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainers.files.cache_folder import make_cache_folder

MAX_ENTRIES = 64  # of `draw_prefixes`, as in draws.c
_SOURCE = Path(__file__).with_name("draws.c")
_FLAGS = (("-O3", "-march=native", "-shared", "-fPIC"), ("-O3", "-shared", "-fPIC"))  # tried in order
_COMPILERS = ("cc", "gcc", "clang")
_COMPILE_TIMEOUT_SECONDS = 120
# Known-answer vectors of Random123: block, site, step, stream, seed, and the four words.
_KNOWN_ANSWERS = (
    (0, 0, 0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (*(0xFFFFFFFF,) * 4, -1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        *(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


class _UnusableError(Exception):
    """The library cannot be used; the message says why."""


@dataclass
class _LibraryState:
    """The loaded library, or a message for the user if loading failed; both are None before the first draw."""

    is_tried: bool = False
    library: ctypes.CDLL | None = None
    failure: str | None = None
    is_reported: bool = False


library_state = _LibraryState()  # a plain object, because torch's compiler traces `is_available`


def is_available() -> bool:
    """Return whether numbers are drawn in C; the first call compiles or loads the library.

    Nothing is loaded while torch compiles a program, because its compiler cannot trace the loading.
    """
    if not library_state.is_tried and not torch.compiler.is_compiling():
        _load()
    return library_state.library is not None


def draw_words(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, first: int, last: int) -> Tensor:
    """Return words first..last-1 of the `count` words of a draw for every seed, int64 (S, last - first)."""
    # C reads plain memory.
    seeds_S, step = seeds_S.contiguous(), step.contiguous()
    seeds = len(seeds_S)
    out = torch.empty((seeds, last - first), dtype=torch.int64)
    step_per_seed = int(step.dim() > 0 and len(step) > 1)
    pointers = (out.data_ptr(), seeds_S.data_ptr(), step.data_ptr())
    _get_library().lengthwise_words(*pointers, step_per_seed, seeds, site, stream, -(-count // 4), first, last)
    return out


def draw_prefixes(words_STB: Tensor, n: int) -> Tensor:
    """Return the first take <= MAX_ENTRIES entries of permutations of 0..n-1, int64 (S, batch, take)."""
    words_STB = words_STB.contiguous()
    seeds, take, batch = words_STB.shape
    out = torch.empty((seeds, batch, take), dtype=torch.int64)
    _get_library().lengthwise_sequential(out.data_ptr(), words_STB.data_ptr(), seeds, batch, n, take)
    return out


def argsort_smallest(words_SBN: Tensor, take: int) -> Tensor:
    """Return the indices of the `take` <= N smallest words of each row, ascending and stable."""
    words_SBN = words_SBN.contiguous()
    n = words_SBN.shape[-1]
    out = torch.empty((*words_SBN.shape[:-1], take), dtype=torch.int64)
    scratch = torch.empty(8 * n, dtype=torch.int64)
    rows = words_SBN.numel() // n if n else 0
    _get_library().lengthwise_order(out.data_ptr(), words_SBN.data_ptr(), scratch.data_ptr(), rows, n, take)
    return out


def _get_library() -> ctypes.CDLL:
    """Return the loaded library."""
    assert library_state.library is not None
    return library_state.library


def _load() -> None:
    """Load the library, or record why it cannot be used."""
    try:
        library_state.library = _open_library()
    except (_UnusableError, OSError) as error:
        library_state.failure = (
            f"random numbers are drawn by torch, which is ten times slower but gives the same numbers: {error}; "
            "install cc, gcc or clang, or set $CC to a C compiler"
        )
    library_state.is_tried = True


def _open_library() -> ctypes.CDLL:
    """Return the library from the cache, compiled if it is missing there. Raises _UnusableError or OSError."""
    # The name depends on source, compiler and CPU, so a stale or foreign library is never loaded.
    compiler = _find_compiler()
    source = _SOURCE.read_bytes()
    try:
        folder = make_cache_folder("native")
        path = folder / f"draws-{_make_cache_key(source, compiler)}.so"
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                _compile(compiler, Path(temporary)).replace(path)
        return _load_checked(path)
    except OSError:  # the folder cannot be written, or libraries must not be loaded from it
        with tempfile.TemporaryDirectory() as temporary:
            return _load_checked(_compile(compiler, Path(temporary)))


def _find_compiler() -> list[str]:
    """Return the command of the C compiler: $CC, or the first known compiler. Raises _UnusableError."""
    try:
        requested = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise _UnusableError(f"CC={os.environ['CC']} is not a command ({error})") from error
    for command in [requested] if requested else [[name] for name in _COMPILERS]:
        if program := shutil.which(command[0]):
            return [program, *command[1:]]
    raise _UnusableError(f"no C compiler was found ({' '.join(requested) or ', '.join(_COMPILERS)})")


def _make_cache_key(source: bytes, compiler: Sequence[str]) -> str:
    """Return a hash of the source, the compiler and the CPU.

    The size and time of the compiler's file stand for its version, which is only known by running it.
    """
    program = Path(compiler[0]).resolve()
    status = program.stat()
    parts = (
        _FLAGS,
        compiler,
        str(program),
        status.st_size,
        status.st_mtime_ns,
        platform.machine(),
        _read_cpu_features(),
    )
    return hashlib.sha256(source + repr(parts).encode()).hexdigest()[:20]


def _read_cpu_features() -> str:
    """Return the CPU features that Linux reports; "" on other systems, where no cache is shared between CPUs."""
    try:
        with Path("/proc/cpuinfo").open() as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""


def _compile(compiler: Sequence[str], folder: Path) -> Path:
    """Compile the library in a folder and return its path. Raises _UnusableError."""
    path = folder / "draws.so"
    failure = ""

    # Some compilers do not know -march=native; without it draws are slower, but the same.
    for flags in _FLAGS:
        command = [*compiler, *flags, "-o", str(path), str(_SOURCE)]
        try:
            process = subprocess.run(command, capture_output=True, timeout=_COMPILE_TIMEOUT_SECONDS, check=False)
        except (subprocess.SubprocessError, OSError) as error:
            raise _UnusableError(f"{shlex.join(compiler)} cannot be run ({error})") from error
        if process.returncode == 0 and path.exists():
            return path
        messages = process.stderr.decode(errors="replace").strip().splitlines()
        failure = failure or next(iter(messages), f"exit status {process.returncode}")
    raise _UnusableError(f"{shlex.join(compiler)} cannot compile {_SOURCE.name} ({failure})")


def _load_checked(path: Path) -> ctypes.CDLL:
    """Return the library, loaded, after checking that it computes the known answers. Raises _UnusableError."""
    library = ctypes.CDLL(str(path))
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    signatures = {"words": (3, 7), "sequential": (2, 4), "order": (3, 3)}  # numbers of pointers and of integers
    for name, (pointer_count, integer_count) in signatures.items():
        function = getattr(library, f"lengthwise_{name}", None)
        if function is None:
            raise _UnusableError(f"{path} has no function lengthwise_{name}")
        function.argtypes = [pointer] * pointer_count + [integer] * integer_count
        function.restype = None
    if not _computes_known_answers(library):
        raise _UnusableError(f"{path} computes wrong numbers")
    return library


def _computes_known_answers(library: ctypes.CDLL) -> bool:
    """Return whether the library computes the known words, a known permutation and a known order."""
    out, scratch = (ctypes.c_int64 * 4)(), (ctypes.c_int64 * 32)()

    # A draw of 2^32 blocks reaches every block number with a single word.
    for block, site, step, stream, seed, expected in _KNOWN_ANSWERS:
        key = (ctypes.c_int64 * 1)(seed)
        step_pointer = (ctypes.c_int64 * 1)(step)
        for lane, word in enumerate(expected):
            counter = lane * 2**32 + block
            library.lengthwise_words(out, key, step_pointer, 0, 1, site, stream, 2**32, counter, counter + 1)
            if out[0] != word:
                return False

    # The start of a permutation, and the order of four words, two of which are equal.
    library.lengthwise_sequential(out, (ctypes.c_int64 * 3)(2**31, 2**31, 0), 1, 1, 4, 3)
    entries = out[:3]
    library.lengthwise_order(out, (ctypes.c_int64 * 4)(3, 1, 2, 1), scratch, 1, 4, 4)
    return entries == [2, 1, 0] and out[:] == [1, 3, 2, 0]
