"""Locate and load the kept final weights of a sweep.

A pack writes a file for each member to `weights/` before its final evaluation is recorded; that record has the file
names and checksums. See trainers/evaluation/weights_file.py for the format.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import DamagedWeights, UserError
from orchestrator.record.ledger.folders import WEIGHTS_FOLDER
from orchestrator.record.state.entities import ConfigurationState, PackState
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.storage import fetch_file
from orchestrator.text.wording import format_label, format_ranges
from trainers.errors import WeightsError, suggest_nearest
from trainers.evaluation.results import WeightsFile
from trainers.evaluation.weights_file import Array, StoredWeights, make_member_prefix
from trainers.files.atomic_file import get_final_name


class WeightsLocation(NamedTuple):
    """A weights file with its recorded checksum."""

    path: Path
    sha256: str

    def open(self, average: str) -> StoredWeights:
        """Return a lazy mapping of the weights of an average. Raises WeightsError with the file.

        Downloads the file first if only the sweep's address has it (written by a worker on another machine).
        """
        fetch_file(self.path)
        return StoredWeights(self.path, self.sha256, average)


def load_member_weights(
    folder: Path | str, configuration: str | int, seed: int, average: str = "raw"
) -> dict[str, Array]:
    """Return the final weights of one member of the sweep in `folder`, by the names of `Model.parameters`.

    `configuration` is its label, such as "#7", its number, its config_id or a start of it; `average` is a label of
    training.averages, or `raw`. Raises UserError for an unknown configuration, seed or average and for missing weights,
    DamagedWeights with the file if it is damaged, and what reading the ledger raises.
    """
    state = SweepState.load(folder)
    stored = open_weights(state, find_configuration(state, configuration), seed, average)
    try:
        return dict(stored)
    except WeightsError as error:
        raise DamagedWeights(str(error)) from error


load = load_member_weights  # its name in version 2.0.0, imported by scripts of users


def open_weights(state: SweepState, configuration: ConfigurationState, seed: int, average: str) -> StoredWeights:
    """Return a lazy mapping of the final weights of one member. Raises what `load_member_weights` raises."""
    if seed not in configuration.members:
        allowed = format_ranges([*configuration.members])
        raise UserError(f"configuration {format_label(configuration.number)}: no seed {seed}; allowed: {allowed}")
    location = list_kept_weights(state).get((configuration.config_id, seed))
    if location is None:
        raise UserError(_explain_missing(state, configuration, seed))
    try:
        if average not in (labels := location.open("raw").averages):
            hint = suggest_nearest(average, labels)
            raise UserError(f"unknown average {average!r}; allowed: {', '.join(labels)}{hint}")
        return location.open(average)
    except WeightsError as error:
        raise DamagedWeights(str(error)) from error


def list_kept_weights(state: SweepState) -> dict[tuple[str, int], WeightsLocation]:
    """Return the recorded weights files by (config_id, seed)."""
    files = {}
    for pack in state.packs.values():
        for member, fields in zip(pack.members, _list_recorded_files(pack), strict=False):
            if fields is not None:
                files[member] = WeightsLocation(state.folder / WEIGHTS_FOLDER / fields["name"], fields["sha256"])
    return files


def make_weights_fields(files: Iterable[WeightsFile | None]) -> list[dict[str, Any] | None]:
    """Return the recorded fields of a pack's weights files, in the order of its members; None for a missing file."""
    return [{"name": file.name, "sha256": file.sha256, "bytes": file.bytes} if file else None for file in files]


def delete_unrecorded_weights(state: SweepState, pack_id: str) -> None:
    """Delete weights of a pack that are not in the ledger, left by failed attempts."""
    folder, pack = state.folder / WEIGHTS_FOLDER, state.packs[pack_id]
    recorded_names = {fields["name"] for fields in _list_recorded_files(pack) if fields}
    # Unfinished files have temporary names; their final names begin with the prefix of their member, too.
    prefixes = {make_member_prefix(config_id, seed) for config_id, seed in pack.members}
    for path in folder.iterdir() if folder.is_dir() else ():
        prefix = get_final_name(path.name).rpartition("-")[0] + "-"
        if prefix in prefixes and path.name not in recorded_names:
            path.unlink(missing_ok=True)


def _list_recorded_files(pack: PackState) -> list[Mapping[str, Any] | None]:
    """Return the fields of the weights files in a pack's final evaluation, one for each member; [] without files."""
    final = [fields for fields in pack.evaluations.values() if fields["final"]]
    return final[0].get("weights", []) if final else []


def _explain_missing(state: SweepState, configuration: ConfigurationState, seed: int) -> str:
    """Return why the weights of a member were not kept, as a sentence."""
    member = configuration.members[seed]
    subject = f"configuration {format_label(configuration.number)}"
    if member.status == "failed":
        return f"seed {seed} of {subject} failed; its weights were not kept"
    if configuration.pruned_at is not None:
        return f"{subject} was pruned at step {configuration.pruned_at}; its weights were not kept"
    if member.status != "complete":
        return f"seed {seed} of {subject} has not ended; its weights are kept at the end"
    return f"{state.folder}: weights were not kept; resources.keep_weights: true in the sweep file keeps them"
