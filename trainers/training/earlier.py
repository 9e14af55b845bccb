"""The states of members that were trained before for fewer steps, joined from the checkpoints of their packs.

A longer training that starts from them ends with the same bits as a training from step 0, because no member depends on
its pack, and `explain_step_dependence` checks that the common steps do not depend on the number of all steps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainers.config.member import MemberConfig
from trainers.evaluation.results import ARRAYS, Evaluation
from trainers.files.checkpoint import Checkpoints, Snapshot, member_names
from trainers.training.compiling import should_compile

Earlier = Sequence[tuple[Path, tuple[str, int]]]
"""For each member: the folder of checkpoints of its earlier pack, and its (config_id, seed) there."""

_MAX_COMPARED = 10_000  # steps at which two schedules are compared


def explain_step_dependence(before: MemberConfig, after: MemberConfig, device: str) -> Iterator[str]:
    """Yield why training `before` is not the start of training `after`, a member that differs only in its steps."""
    # The schedules must have equal factors at the common steps.
    old, new = before.training.steps, after.training.steps
    schedule = before.training.schedule
    steps = np.unique(np.linspace(1, old, min(old, _MAX_COMPARED), dtype=np.int64)).tolist()
    largest, worst = max((abs(_factor(before, step) - _factor(after, step)), step) for step in steps)
    if largest > 0:
        yield (
            f"the schedule {schedule.name} depends on training.steps: at step {worst} its factor is "
            f"{_factor(before, worst):.4g} with {old} steps and {_factor(after, worst):.4g} with {new}"
        )

    # Members must still be active, and have the bits of the same kind of program.
    if before.training.stop is not None:
        yield "members may have stopped early (training.stop)"
    if should_compile(before, device) != should_compile(after, device):
        yield f"training is compiled for {new} steps and not for {old}, which changes the last bits"


def join_earlier(
    earlier: Earlier, notices: Sequence[str], *, compiled: bool, max_step: int
) -> tuple[Snapshot | None, list[str]]:
    """Return the states of members as the checkpoint of a single pack, None if they cannot be joined; and all notices.

    compiled: whether the pack is compiled, as the earlier packs must have been. max_step: the last step allowed.
    """
    # The newest good checkpoint of each earlier pack, and the row of each member in it.
    rows, notices = list[tuple[Snapshot, int]](), list(notices)
    folders = dict.fromkeys(folder for folder, _ in earlier)
    newest = {folder: Checkpoints(folder=folder).read_newest() for folder in folders}
    for folder, name in earlier:
        snapshot, names, damaged = newest[folder]
        notices += [text for text in damaged if text not in notices]
        (member_name,) = member_names([name])
        if snapshot is None or member_name not in names or snapshot.compiled != compiled or snapshot.step > max_step:
            return None, [*notices, f"{folder} has no usable state of {member_name}; the pack starts from step 0"]
        rows.append((snapshot, names.index(member_name)))
    states = {(checkpoint.step, len(checkpoint.evaluations), tuple(checkpoint.parameters)) for checkpoint, _ in rows}
    if len(states) > 1:
        return None, [
            *notices,
            "the stored states of its members are from different steps; the pack starts from step 0",
        ]

    # Stack the rows of every array and of every evaluation.
    first = rows[0][0]
    arrays = {
        name: np.stack([checkpoint.arrays[name][row] for checkpoint, row in rows]) if value.ndim else value
        for name, value in first.arrays.items()
    }
    read = {id(checkpoint): [Evaluation.from_bytes(data) for data in checkpoint.evaluations] for checkpoint, _ in rows}
    evaluations = [
        _join([(read[id(checkpoint)][row], member) for checkpoint, member in rows]).to_bytes()
        for row in range(len(first.evaluations))
    ]
    return replace(first, arrays=arrays, evaluations=evaluations), notices


def _factor(member: MemberConfig, step: int) -> float:
    return float(member.training.schedule.factor(torch.tensor(step), member.training.steps))


def _join(parts: Sequence[tuple[Evaluation, int]]) -> Evaluation:
    """Return the evaluation of members of several packs, each given as (evaluation of its pack, index in this pack).

    Its `seconds` are 0, because they were spent in another training.
    """
    first = parts[0][0]

    def stack(read: Callable[[Evaluation], Any]) -> Any:
        return None if read(first) is None else np.stack([read(checkpoint)[member] for checkpoint, member in parts])

    arrays: dict[str, Any] = {name: stack(attrgetter(name)) for name in ARRAYS}
    validation = first.validation and replace(
        first.validation,
        values_MDL=stack(lambda checkpoint: checkpoint.validation and checkpoint.validation.values_MDL),
    )
    return replace(first, seconds=0.0, weights=(), validation=validation, **arrays)
