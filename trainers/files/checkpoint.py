"""Checkpoints of a pack: written atomically with a checksum, the last two kept, read without executing code.

A damaged file is skipped in favour of the previous good one, with a notice that names it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers.errors import CheckpointError
from trainers.files.atomic_file import get_final_name, write_atomic
from trainers.files.container import decode, encode, is_count

_SCHEMA = 1
_MAX_CHECKPOINTS = 2
_EVALUATIONS = "evaluations"  # the array with the concatenated bytes of all evaluations

Shapes = Sequence[tuple[str, tuple[int, ...]]]
"""Names and shapes of parameters, in the order of their columns."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a pack after `step` steps: named arrays, and the bytes of every evaluation so far.

    parameters: names and shapes of the columns of the weights. compiled: whether the step was compiled. path: the file
    it was read from, or None.
    """

    step: int
    arrays: Mapping[str, NDArray[Any]]
    evaluations: Sequence[bytes]
    parameters: Shapes
    compiled: bool
    path: Path | None = None


@dataclass(kw_only=True)
class Checkpoints:
    """The folder of checkpoints of a pack, written after `every_steps` or `every_seconds`, whichever comes first."""

    folder: Path
    every_steps: int | None = None
    every_seconds: float | None = None
    _last_step: int = field(default=0, init=False)
    _last_time: float = field(default_factory=time.monotonic, init=False)

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are written during training."""
        return self.every_steps is not None or self.every_seconds is not None

    def is_due(self, step: int) -> bool:
        """Return whether a checkpoint should be written after `step` steps."""
        by_steps = self.every_steps is not None and step - self._last_step >= self.every_steps
        by_time = self.every_seconds is not None and time.monotonic() - self._last_time >= self.every_seconds
        return step > self._last_step and (by_steps or by_time)

    def find_next_due_step(self, step: int) -> int | None:
        """Return the next step at which `every_steps` makes a checkpoint due, None without `every_steps`."""
        return None if self.every_steps is None else max(self._last_step + self.every_steps, step + 1)

    def save(self, snapshot: Snapshot, members: Sequence[tuple[str, int]]) -> Path:
        """Write a checkpoint of the members named (config_id, seed), keep the last two, and return its path.

        Raises CheckpointError naming the path.
        """
        path = self.folder / f"step-{snapshot.step:012d}.ckpt"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(path, [_encode(snapshot, members)])
            earlier_paths = [file for file in self._list_files() if file.name <= path.name]  # later files were damaged
            for old_path in earlier_paths[:-_MAX_CHECKPOINTS]:
                old_path.unlink(missing_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoint {path}: {error.strerror or error}") from error
        self._last_step = snapshot.step
        self._last_time = time.monotonic()
        return path

    def load(self, members: Sequence[tuple[str, int]]) -> tuple[Snapshot | None, list[str]]:
        """Return the newest good checkpoint (None without one), and a notice for every damaged file that was skipped.

        Deletes incomplete temporary files of killed processes. Raises CheckpointError if the checkpoint belongs to
        other members.
        """
        for temporary in [path for path in self.folder.glob(".step-*") if get_final_name(path.name) != path.name]:
            temporary.unlink(missing_ok=True)
        snapshot, stored_names, notices = self.read_newest()

        # Another pack may have had the same folder; its state must not be used.
        if snapshot is not None:
            names = format_member_names(members)
            if len(names) == 1 and stored_names == names * 2:  # 1.x wrote both copies of a single member
                arrays = {name: value[:1] if value.ndim else value for name, value in snapshot.arrays.items()}
                snapshot = replace(snapshot, arrays=arrays)
                stored_names = names
            if stored_names != names:
                raise CheckpointError(
                    f"checkpoint {snapshot.path} belongs to other members than this pack; use another folder"
                )
            self._last_step = snapshot.step
        return snapshot, notices

    def read_newest(self) -> tuple[Snapshot | None, list[str], list[str]]:
        """Return the newest good checkpoint, the names of its members, and a notice for every damaged file."""
        notices = list[str]()
        for path in reversed(self._list_files()):
            try:
                return *_decode(path), notices
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError) as error:
                # An older checkpoint may still be good, whatever is wrong with this one.
                notices.append(f"checkpoint {path} is damaged ({error}) and was skipped")
        return None, [], notices

    def _list_files(self) -> list[Path]:
        """Return the paths of all checkpoints, the oldest first."""
        return sorted(self.folder.glob("step-*.ckpt"))


def format_member_names(members: Sequence[tuple[str, int]]) -> list[str]:
    """Return the names of members, given as (config_id, seed), in a checkpoint: "<config_id>/<seed>"."""
    return [f"{config_id}/{seed}" for config_id, seed in members]


def _encode(snapshot: Snapshot, members: Sequence[tuple[str, int]]) -> memoryview:
    """Return the bytes of a checkpoint."""
    header = {
        "schema": _SCHEMA,
        "step": snapshot.step,
        "members": format_member_names(members),
        "parameters": [[name, *shape] for name, shape in snapshot.parameters],
        "evaluations": [len(evaluation) for evaluation in snapshot.evaluations],
        "compiled": snapshot.compiled,
    }
    evaluations = np.frombuffer(b"".join(snapshot.evaluations), np.uint8)
    return encode(header, {**snapshot.arrays, _EVALUATIONS: evaluations})


def _decode(path: Path) -> tuple[Snapshot, list[str]]:
    """Return the checkpoint of a file and the names of its members. Raises ValueError and others if it is damaged."""
    if not path.is_file():  # reading a pipe would block
        raise ValueError("it is not a regular file")
    header, arrays = decode(path.read_bytes())
    if not is_count(header["schema"]) or header["schema"] != _SCHEMA:
        raise ValueError(f"its schema is {header['schema']!r}; this version reads {_SCHEMA}")

    # The bytes of all evaluations are concatenated, so the sizes in the header must add up to them.
    data = arrays.pop(_EVALUATIONS).tobytes()
    ends = [0]
    for size in header["evaluations"]:
        if not is_count(size):
            raise ValueError(f"its header lists an evaluation of {size!r} bytes")
        ends.append(ends[-1] + size)
    if ends[-1] != len(data):
        raise ValueError(f"its header lists evaluations of {ends[-1]} bytes, and the file has {len(data)}")

    # The checksum rules out damage, but not a file written by another program.
    members, parameters = header["members"], header["parameters"]
    if type(parameters) is not list or not all(
        type(entry) is list and type(entry[0]) is str and all(map(is_count, entry[1:])) for entry in parameters
    ):
        raise ValueError("its header lists parameters without a shape")
    if type(members) is not list or not is_count(header["step"]) or type(header["compiled"]) is not bool:
        raise ValueError("its header lacks members, step or compiled")
    snapshot = Snapshot(
        step=header["step"],
        arrays=arrays,
        evaluations=[data[start:end] for start, end in pairwise(ends)],
        parameters=[(name, tuple(shape)) for name, *shape in parameters],
        compiled=header["compiled"],
        path=path,
    )
    return snapshot, members
