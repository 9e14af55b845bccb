"""The final weights of all members of a pack, as files."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainers.evaluation.results import WeightsFile
from trainers.evaluation.weights_file import MemberWeights, write_weights
from trainers.packs.active_members import ActiveMembers
from trainers.packs.pack import Pack
from trainers.packs.training_state import collect_weights


def write_pack_weights(
    folder: Path | None,
    names: Sequence[tuple[str, int]],
    pack: Pack,
    active: ActiveMembers,
    step: int,
    pruned_M: NDArray[np.bool_],
    beat: Callable[[], None],
) -> tuple[WeightsFile | None, ...]:
    """Write the weights of the members of a pack after `step` steps; return the file of each member.

    The file is None for a member that failed or was pruned; without a folder nothing is written or returned. names:
    the (config_id, seed) of the members. Raises WeightsError.
    """
    if folder is None:
        return ()

    # Failed and pruned members were not trained to the end, so their weights are not kept.
    weights = collect_weights(pack, active.collect_full_state())
    failed_at = active.read_event_steps("failed_at")
    stopped_at = active.read_event_steps("stopped_at")
    finished_indices = [index for index in range(len(names)) if failed_at[index] < 0 and not pruned_M[index]]

    # Write one member after another, so that only the arrays of one are in memory at a time.
    def read_members() -> Iterator[MemberWeights]:
        for index in finished_indices:
            beat()
            views = {label: pack.layout.split(theta[index : index + 1].cpu()) for label, theta in weights.items()}
            arrays = {label: {key: value[0].numpy() for key, value in part.items()} for label, part in views.items()}
            last_step = int(stopped_at[index]) if stopped_at[index] >= 0 else step
            yield MemberWeights(names[index], pack.members[index], last_step, arrays)

    files = dict(zip(finished_indices, write_weights(folder, read_members()), strict=True))
    return tuple(map(files.get, range(len(names))))
