"""The random draws that members of the engine with the same seed share. Imports neither torch nor any task."""

from collections.abc import Collection, Mapping
from typing import Any

INITIAL = "training.initial"
_SAME_FILE = (f"{INITIAL}.file", f"{INITIAL}.source")  # of the same file at two paths
DATA, INPUTS, WEIGHTS = "training data", "test inputs", "initial weights"


def shared_streams(
    first: Mapping[str, Any], second: Mapping[str, Any], differing: Collection[str]
) -> dict[str, list[str]]:
    """Return each kind of draw with the differing keys that set it apart.

    Random numbers depend on seed, stream and step (trainers.random), so members of one seed draw the same numbers; data
    and weights are the same only if the same code asks for them in the same shapes.
    """
    task = [key for key in differing if key.partition(".")[0] == "task"]
    model = [key for key in differing if key.partition(".")[0] == "model"]
    initial = [key for key in differing if key.startswith(INITIAL) and not key.startswith(_SAME_FILE)]
    return {
        DATA: [*task, *(key for key in differing if key == "training.batch_size")],
        INPUTS: [*task, *(key for key in differing if key in ("evaluation.samples", "evaluation.lengths"))],
        WEIGHTS: [*task, *model, *initial],
    }
