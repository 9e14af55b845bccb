"""Checkpoints of a pack: atomic, checksummed, the last two kept, read without executing code.

A damaged file is passed over for the previous good one, with a notice that names it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers.errors import CheckpointError
from trainers.files.atomic_file import final_name, write_whole
from trainers.files.container import decode, encode, is_count

_SCHEMA = 1
_KEPT = 2
_EVALUATIONS = "evaluations"  # the array with the bytes of all evaluations, one after the other

Shapes = Sequence[tuple[str, tuple[int, ...]]]
"""Names and shapes of parameters, in the order of their columns."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a pack after `step` steps: named arrays, and the bytes of every evaluation so far.

    `parameters` has the names and shapes of the columns of the weights, `compiled` says whether the step was compiled,
    `path` is the file it was read from.
    """

    step: int
    arrays: Mapping[str, NDArray[Any]]
    evaluations: Sequence[bytes]
    parameters: Shapes
    compiled: bool
    path: Path | None = None


@dataclass(kw_only=True)
class Checkpoints:
    """A folder of checkpoints of one pack, written every so many steps or seconds, whichever comes first."""

    folder: Path
    every_steps: int | None = None
    every_seconds: float | None = None
    _last_step: int = field(default=0, init=False)
    _last_time: float = field(default_factory=time.monotonic, init=False)

    def due(self, step: int) -> bool:
        """Whether a checkpoint should be written after `step` steps."""
        by_steps = self.every_steps is not None and step - self._last_step >= self.every_steps
        by_time = self.every_seconds is not None and time.monotonic() - self._last_time >= self.every_seconds
        return step > self._last_step and (by_steps or by_time)

    def next_step(self, step: int) -> int | None:
        """The step at which `every_steps` makes the next checkpoint due, or None."""
        return None if self.every_steps is None else max(self._last_step + self.every_steps, step + 1)

    def save(self, snapshot: Snapshot, members: Sequence[tuple[str, int]]) -> Path:
        """Write one checkpoint of the members named (config_id, seed) and remove all but the last two.

        Raises CheckpointError naming the path.
        """
        path = self.folder / f"step-{snapshot.step:012d}.ckpt"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, [_encode(snapshot, members)])
            mine = [known for known in self._paths() if known.name <= path.name]  # later ones were passed over
            for old in mine[:-_KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoint {path}: {error.strerror or error}") from error
        self._last_step, self._last_time = snapshot.step, time.monotonic()
        return path

    def load(self, members: Sequence[tuple[str, int]]) -> tuple[Snapshot | None, list[str]]:
        """The newest good checkpoint, and a notice for every damaged one passed over.

        Deletes those that a killed process has written half. Raises CheckpointError when a good checkpoint belongs to
        other members; those of a lone member may be its own twice.
        """
        for half in [path for path in self.folder.glob(".step-*") if final_name(path.name) != path.name]:
            half.unlink(missing_ok=True)
        notices = []
        for path in reversed(self._paths()):
            try:
                snapshot, found = _decode(path)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError) as error:
                notices.append(f"checkpoint {path} is damaged ({error}); falling back to the previous one")
                continue
            names = _member_names(members)
            if found != names and (len(names) != 1 or found != names * 2):
                raise CheckpointError(f"checkpoint {path} belongs to other members than this pack")
            self._last_step = snapshot.step
            return snapshot, notices
        if notices:
            notices.append(f"no good checkpoint is left in {self.folder}: the pack starts again from step 0")
        return None, notices

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.ckpt"))


def _member_names(members: Sequence[tuple[str, int]]) -> list[str]:
    return [f"{config_id}/{seed}" for config_id, seed in members]


def _encode(snapshot: Snapshot, members: Sequence[tuple[str, int]]) -> memoryview:
    header = {
        "schema": _SCHEMA,
        "step": snapshot.step,
        "members": _member_names(members),
        "parameters": [[name, *shape] for name, shape in snapshot.parameters],
        "evaluations": [len(evaluation) for evaluation in snapshot.evaluations],
        "compiled": snapshot.compiled,
    }
    evaluations = np.frombuffer(b"".join(snapshot.evaluations), np.uint8)
    return encode(header, {**snapshot.arrays, _EVALUATIONS: evaluations})


def _decode(path: Path) -> tuple[Snapshot, list[str]]:
    if not path.is_file():  # reading a pipe would block
        raise ValueError("it is not a regular file")
    header, arrays = decode(path.read_bytes())
    if not is_count(header["schema"]) or header["schema"] != _SCHEMA:
        raise ValueError(f"it has schema {header['schema']!r}; this version reads {_SCHEMA}")
    data, ends = arrays.pop(_EVALUATIONS).tobytes(), [0]
    for size in header["evaluations"]:
        if not is_count(size):
            raise ValueError(f"its header has an evaluation of {size!r} bytes")
        ends.append(ends[-1] + size)
    if ends[-1] != len(data):
        raise ValueError(f"its header has evaluations of {ends[-1]} bytes, and the file has {len(data)}")
    members, parameters = header["members"], header["parameters"]
    if type(parameters) is not list or not all(
        type(one) is list and type(one[0]) is str and all(map(is_count, one[1:])) for one in parameters
    ):
        raise ValueError("its header has parameters without a shape")
    if type(members) is not list or not is_count(header["step"]) or type(header["compiled"]) is not bool:
        raise ValueError("its header has no members, no step, or does not say whether the step was compiled")
    snapshot = Snapshot(
        step=header["step"],
        arrays=arrays,
        evaluations=[data[start:end] for start, end in pairwise(ends)],
        parameters=[(name, tuple(shape)) for name, *shape in parameters],
        compiled=header["compiled"],
        path=path,
    )
    return snapshot, members
