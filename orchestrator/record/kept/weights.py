"""Final weights that a sweep has kept: which files the ledger names, and loading them.

Packs write one file for each member below `weights/` (trainers/evaluation/weights.py has the format) before their final
evaluation is recorded, and that record names the files and their checksums.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import DamagedWeights, UserError
from orchestrator.record.ledger.folders import WEIGHTS_FOLDER
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.parts import ConfigurationState, PackState
from orchestrator.record.state.state import SweepState
from orchestrator.storage import fetch_file
from orchestrator.text.wording import label, spans
from trainers.errors import WeightsError, find_nearest
from trainers.evaluation.results import WeightsFile
from trainers.evaluation.weights import Array, StoredWeights, member_prefix
from trainers.files.atomic_file import final_name


class WeightsLocation(NamedTuple):
    """A file as the ledger names it."""

    path: Path
    sha256: str

    def weights(self, average: str) -> StoredWeights:
        """Return a lazy mapping of the weights of an average; raises WeightsError naming the file.

        The file may have been written by a worker on another machine, and only be at the address of the sweep.
        """
        fetch_file(self.path)
        return StoredWeights(self.path, self.sha256, average)


def load(folder: Path | str, configuration: str | int, seed: int, average: str = "raw") -> dict[str, Array]:
    """Return the final weights of one member of the sweep in `folder`, by the names of `Model.parameters`.

    `configuration` is its label, such as "#7", its number, its config_id or the start of that; `average` is a label of
    training.averages, or `raw`. Raises UserError for what the sweep does not have or has not kept, DamagedWeights
    naming a file that is not what was written, and what reading the ledger raises.
    """
    state = SweepState.load(folder)
    stored = open_weights(state, find_configuration(state, configuration), seed, average)
    try:
        return dict(stored)
    except WeightsError as error:
        raise DamagedWeights(str(error)) from error


def open_weights(state: SweepState, configuration: ConfigurationState, seed: int, average: str) -> StoredWeights:
    """Return a lazy mapping of the final weights of one member; raises what `load` does."""
    if seed not in configuration.members:
        allowed = spans([*configuration.members])
        raise UserError(f"configuration {label(configuration.number)} has no seed {seed}; allowed: {allowed}")
    file = list_kept_weights(state).get((configuration.config_id, seed))
    if file is None:
        raise UserError(_explain_missing(state, configuration, seed))
    try:
        if average not in (labels := file.weights("raw").averages):
            close = find_nearest(average, labels)
            message = f"there is no average {average!r}; allowed: {', '.join(labels)}"
            raise UserError(message + (f"; did you mean {close}?" if close else ""))
        return file.weights(average)
    except WeightsError as error:
        raise DamagedWeights(str(error)) from error


def list_kept_weights(state: SweepState) -> dict[tuple[str, int], WeightsLocation]:
    """Return the weights files by (config_id, seed), of the members that have one."""
    files = {}
    for pack in state.packs.values():
        for member, file in zip(pack.members, _list_recorded(pack), strict=False):
            if file is not None:
                files[member] = WeightsLocation(state.folder / WEIGHTS_FOLDER / file["name"], file["sha256"])
    return files


def make_weights_fields(files: Iterable[WeightsFile | None]) -> list[dict[str, Any] | None]:
    """Return the ledger's fields for the files of a pack, in the order of its members."""
    return [{"name": file.name, "sha256": file.sha256, "bytes": file.bytes} if file else None for file in files]


def delete_unrecorded(state: SweepState, pack_id: str) -> None:
    """Delete weights of a pack that the ledger does not name: those of attempts that died."""
    folder, pack = state.folder / WEIGHTS_FOLDER, state.packs[pack_id]
    named = {file["name"] for file in _list_recorded(pack) if file}
    prefixes = {member_prefix(config_id, seed) for config_id, seed in pack.members}
    for path in folder.iterdir() if folder.is_dir() else ():
        prefix = final_name(path.name).rpartition("-")[0] + "-"
        if prefix in prefixes and path.name not in named:
            path.unlink(missing_ok=True)


def _list_recorded(pack: PackState) -> list[Mapping[str, Any] | None]:
    final = [fields for fields in pack.evaluations.values() if fields["final"]]
    return final[0].get("weights", []) if final else []


def _explain_missing(state: SweepState, configuration: ConfigurationState, seed: int) -> str:
    member = configuration.members[seed]
    named = f"configuration {label(configuration.number)}"
    if member.status == "failed":
        return f"seed {seed} of {named} failed; its weights were not kept"
    if configuration.pruned_at is not None:
        return f"{named} was pruned at step {configuration.pruned_at}; its weights were not kept"
    if member.status != "complete":
        return f"seed {seed} of {named} has not ended; its weights are kept at the end"
    return f"{state.folder}: weights were not kept; resources.keep_weights: true in the sweep file keeps them"
