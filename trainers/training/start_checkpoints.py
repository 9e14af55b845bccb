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
from trainers.files.checkpoint import Checkpoints, Snapshot, format_member_names
from trainers.training.compiling import should_compile

StartCheckpoints = Sequence[tuple[Path, tuple[str, int]]]
"""For each member: the folder of checkpoints of its earlier pack, and its (config_id, seed) there."""

_MAX_COMPARED = 10_000  # steps at which two schedules are compared


def explain_step_dependence(shorter: MemberConfig, longer: MemberConfig, device: str) -> Iterator[str]:
    """Yield why training `longer` cannot continue from training `shorter`; they differ only in their steps."""
    # A schedule that decays to the last step has other factors in a longer training.
    old_steps, new_steps = shorter.training.steps, longer.training.steps
    schedule = shorter.training.schedule
    steps = np.unique(np.linspace(1, old_steps, min(old_steps, _MAX_COMPARED), dtype=np.int64)).tolist()
    difference, worst = max((abs(_get_factor(shorter, step) - _get_factor(longer, step)), step) for step in steps)
    if difference > 0:
        yield (
            f"the schedule {schedule.name} depends on training.steps: at step {worst} its factor is "
            f"{_get_factor(shorter, worst):.4g} with {old_steps} steps and {_get_factor(longer, worst):.4g} with "
            f"{new_steps}"
        )

    # A member that stopped early must not continue, and compiled training rounds differently.
    if shorter.training.stop is not None:
        yield "members may have stopped early (training.stop)"
    if should_compile(shorter, device) != should_compile(longer, device):
        yield f"training is compiled for {new_steps} steps and not for {old_steps}, which changes the last bits"


def join_checkpoints(
    start_checkpoints: StartCheckpoints, notices: Sequence[str], *, compiled: bool, max_step: int
) -> tuple[Snapshot | None, list[str]]:
    """Return the states of members as the checkpoint of a single pack, None if they cannot be joined; and all notices.

    compiled: whether the pack is compiled, as the earlier packs must have been. max_step: the last step allowed.
    """
    # All members must start at the same step, so a single one without a usable state is enough to give up.
    rows = list[tuple[Snapshot, int]]()
    notices = list(notices)
    folders = dict.fromkeys(folder for folder, _ in start_checkpoints)
    newest = {folder: Checkpoints(folder=folder).read_newest() for folder in folders}
    for folder, name in start_checkpoints:
        snapshot, names, damaged = newest[folder]
        notices += [text for text in damaged if text not in notices]
        (member_name,) = format_member_names([name])
        if snapshot is None or member_name not in names or snapshot.compiled != compiled or snapshot.step > max_step:
            return None, [*notices, f"{folder} has no usable state of {member_name}; the pack starts from step 0"]
        rows.append((snapshot, names.index(member_name)))

    # Nor can states be joined that differ in their step, evaluations or parameters.
    formats = {(snapshot.step, len(snapshot.evaluations), tuple(snapshot.parameters)) for snapshot, _ in rows}
    names_and_values = zip(("steps", "numbers of evaluations", "parameters"), zip(*formats, strict=True), strict=True)
    if differing := [name for name, values in names_and_values if len(set(values)) > 1]:
        reason = f"the stored states of its members have different {' and '.join(differing)}"
        return None, [*notices, f"{reason}; the pack starts from step 0"]

    # Members of a pack do not depend on each other, so rows of several packs form a valid state.
    first = rows[0][0]
    arrays = {
        name: np.stack([snapshot.arrays[name][row] for snapshot, row in rows]) if value.ndim else value
        for name, value in first.arrays.items()
    }
    # A snapshot holds several members, so it is decoded once.
    decoded = {id(snapshot): [Evaluation.from_bytes(data) for data in snapshot.evaluations] for snapshot, _ in rows}
    evaluations = [
        _join_evaluations([(decoded[id(snapshot)][index], row) for snapshot, row in rows]).to_bytes()
        for index in range(len(first.evaluations))
    ]
    return replace(first, arrays=arrays, evaluations=evaluations), notices


def _get_factor(member: MemberConfig, step: int) -> float:
    """Return the factor on a member's learning rate at a step."""
    return float(member.training.schedule.factor(torch.tensor(step), member.training.steps))


def _join_evaluations(members: Sequence[tuple[Evaluation, int]]) -> Evaluation:
    """Return the evaluation of members of several packs, each given as (evaluation of its pack, index in this pack).

    Its `seconds` are 0, because they were spent in another training.
    """
    first = members[0][0]

    def stack(read: Callable[[Evaluation], Any]) -> Any:
        return None if read(first) is None else np.stack([read(evaluation)[row] for evaluation, row in members])

    arrays: dict[str, Any] = {name: stack(attrgetter(name)) for name in ARRAYS}
    validation = first.validation and replace(
        first.validation,
        values_MDL=stack(lambda evaluation: evaluation.validation and evaluation.validation.values_MDL),
    )
    return replace(first, seconds=0.0, weights=(), validation=validation, **arrays)
