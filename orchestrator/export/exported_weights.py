"""Export kept weights under readable names, with code that loads them in plain torch."""

from collections.abc import Callable
from pathlib import Path

from orchestrator.errors import DamagedWeights, UserError
from orchestrator.record.files.weights import list_kept_weights
from orchestrator.record.state.state import SweepState
from trainers.errors import WeightsError

LOADER = """\
from safetensors.torch import load_file

tensors = load_file({path!r})
weights = {{name.removeprefix({prefix!r}): tensor for name, tensor in tensors.items() if name.startswith({prefix!r})}}
print({{name: tuple(tensor.shape) for name, tensor in weights.items()}})"""


def collect_weights_files(state: SweepState, folder: Path) -> dict[Path, Callable[[], bytes]]:
    """Return functions that read the kept weights of every member, by their new path below `folder`.

    Files are named `configuration-<number>-seed-<seed>.safetensors`, tensors `<average>/<parameter>`. Raises UserError
    if the sweep has kept no weights, DamagedWeights for a file that differs from its checksum.
    """
    kept_files = list_kept_weights(state)
    if not kept_files:
        # Each reason has its own remedy, so the message names the reason.
        members = [
            member for configuration in state.configurations.values() for member in configuration.members.values()
        ]
        reason = "set resources.keep_weights: true in the sweep file"
        if members and all(member.status == "failed" for member in members):
            reason = "all its seeds failed"
        elif not any(member.status == "complete" for member in members):
            reason = "no seed has ended yet; weights are kept at its end"
        raise UserError(f"--weights: {state.folder}: no weights were kept; {reason}")

    # Damage must be found before anything is written, so every tensor is read once for its digest.
    files: dict[Path, Callable[[], bytes]] = {}
    for (config_id, seed), stored in sorted(
        kept_files.items(), key=lambda item: (state.configurations[item[0][0]].number, item[0])
    ):
        name = f"configuration-{state.configurations[config_id].number}-seed-{seed}.safetensors"
        try:
            for average in stored.open("raw").averages:
                dict(stored.open(average))  # reads each tensor and checks its digest
        except WeightsError as error:
            raise DamagedWeights(str(error)) from error
        files[folder / name] = stored.path.read_bytes
    return files
