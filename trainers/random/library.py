"""The library made of draws.c: compiled once on a machine, kept, loaded and checked when the first number is drawn.

It lies in $XDG_CACHE_HOME/lengthwise/native (~/.cache without the variable) under a name made of its source, the
compiler and the CPU, and takes that name when it is whole: several processes may make it at once. Where the folder
cannot be written each process makes its own. Without a compiler that works the torch code draws the same numbers.
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

from trainers.files.cache_folder import cache_folder

_SOURCE = Path(__file__).with_name("draws.c")
_FLAGS = (("-O3", "-march=native", "-shared", "-fPIC"), ("-O3", "-shared", "-fPIC"))  # the second: where native is none
_COMPILERS = ("cc", "gcc", "clang")
_SECONDS = 120  # a compiler that takes longer hangs
# Known-answer vectors of Random123: block, site, step, stream, seed, and the four words.
_KNOWN = (
    (0, 0, 0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (*(0xFFFFFFFF,) * 4, -1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        *(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


class _UnusableError(Exception):
    """Why there is no library, in words."""


@dataclass
class _Outcome:
    """What came of looking for the library: nothing yet, the library, or why there is none."""

    tried: bool = False
    library: ctypes.CDLL | None = None
    why: str | None = None
    told: bool = False


_outcome = _Outcome()  # a plain object, of which a compiler that reads `available` need only look at the fields


def available() -> bool:
    """Whether numbers are drawn in C here; the first call makes or loads the library, or finds that it cannot.

    While a program is compiled nothing is looked for, which no compiler could follow: what is known by then holds.
    """
    if not _outcome.tried and not torch.compiler.is_compiling():
        _look()
    return _outcome.library is not None


def loaded() -> ctypes.CDLL:
    """The library. Call only where it is `available`."""
    assert _outcome.library is not None
    return _outcome.library


def said() -> str | None:
    """What a person should know of the library, once in a process: that there is none, and what that costs."""
    if _outcome.why is None or _outcome.told:
        return None
    _outcome.told = True
    return (
        f"random numbers are drawn by torch, ten times slower and to the same bits: {_outcome.why}; with a C compiler "
        "(cc, gcc, clang or $CC) a small library would be made"
    )


def _look() -> None:
    try:
        _outcome.library = _opened()
    except (_UnusableError, OSError) as error:
        _outcome.why = str(error)
    _outcome.tried = True


def _opened() -> ctypes.CDLL:
    compiler = _compiler()
    source = _SOURCE.read_bytes()
    try:
        folder = cache_folder("native")
        path = folder / f"draws-{_key(source, compiler)}.so"
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                _made(compiler, Path(temporary)).replace(path)
        return _checked(path)
    except OSError:  # a folder that cannot be written, or libraries that may not be loaded from there
        with tempfile.TemporaryDirectory() as temporary:
            return _checked(_made(compiler, Path(temporary)))


def _compiler() -> list[str]:
    """The command of the C compiler."""
    try:
        wanted = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise _UnusableError(f"CC={os.environ['CC']} is no command ({error})") from error
    for command in [wanted] if wanted else [[name] for name in _COMPILERS]:
        if found := shutil.which(command[0]):
            return [found, *command[1:]]
    raise _UnusableError(f"no C compiler is found ({' '.join(wanted) or ', '.join(_COMPILERS)})")


def _key(source: bytes, compiler: Sequence[str]) -> str:
    """A name for this source, this compiler (its size and time stand for its version) and this CPU."""
    program = Path(compiler[0]).resolve()
    about = program.stat()
    parts = (_FLAGS, compiler, str(program), about.st_size, about.st_mtime_ns, platform.machine(), _cpu())
    return hashlib.sha256(source + repr(parts).encode()).hexdigest()[:20]


def _cpu() -> str:
    """What this CPU can do, as Linux says it; nothing elsewhere, where one machine's cache serves one CPU."""
    try:
        with Path("/proc/cpuinfo").open() as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""


def _made(compiler: Sequence[str], folder: Path) -> Path:
    """The library, compiled in a folder."""
    path, why = folder / "draws.so", ""
    for flags in _FLAGS:
        command = [*compiler, *flags, "-o", str(path), str(_SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except (subprocess.SubprocessError, OSError) as error:
            raise _UnusableError(f"{shlex.join(compiler)} cannot be run ({error})") from error
        if done.returncode == 0 and path.exists():
            return path
        said = done.stderr.decode(errors="replace").strip().splitlines()
        why = why or next(iter(said), f"exit status {done.returncode}")
    raise _UnusableError(f"{shlex.join(compiler)} cannot compile {_SOURCE.name} ({why})")


def _checked(path: Path) -> ctypes.CDLL:
    """The library loaded, with the known words found."""
    library = ctypes.CDLL(str(path))
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    given = {"words": (3, 7), "sequential": (2, 4), "order": (3, 3)}  # pointers, then integers
    for name, (pointers, integers) in given.items():
        function = getattr(library, f"lengthwise_{name}", None)
        if function is None:
            raise _UnusableError(f"{path} has no function lengthwise_{name}")
        function.argtypes, function.restype = [pointer] * pointers + [integer] * integers, None
    if not _right(library):
        raise _UnusableError(f"{path} computes other numbers than it should")
    return library


def _right(library: ctypes.CDLL) -> bool:
    """Whether the library finds the known words, a permutation and an order."""
    out, scratch = (ctypes.c_int64 * 4)(), (ctypes.c_int64 * 32)()
    for block, site, step, stream, seed, expected in _KNOWN:
        key, at = (ctypes.c_int64 * 1)(seed), (ctypes.c_int64 * 1)(step)
        for lane, word in enumerate(expected):
            place = lane * 2**32 + block
            library.lengthwise_words(out, key, at, 0, 1, site, stream, 2**32, place, place + 1)
            if out[0] != word:
                return False
    library.lengthwise_sequential(out, (ctypes.c_int64 * 3)(2**31, 2**31, 0), 1, 1, 4, 3)
    entries = out[:3]
    library.lengthwise_order(out, (ctypes.c_int64 * 4)(3, 1, 2, 1), scratch, 1, 4, 4)
    return entries == [2, 1, 0] and out[:] == [1, 3, 2, 0]
