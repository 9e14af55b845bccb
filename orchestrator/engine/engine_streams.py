"""The random streams that members of the engine with the same seed share; imports neither torch nor any task."""

from collections.abc import Collection, Mapping
from typing import Any

INITIAL = "training.initial"
_FILE_PATHS = (f"{INITIAL}.file", f"{INITIAL}.source")  # keys that may name the same file by two paths
_ROW_KEYS = ("training.batch_size", "training.one_length_per_batch")  # number and lengths of the rows of a step
DATA, INPUTS, WEIGHTS = "training data", "test inputs", "initial weights"


def find_shared_engine_streams(
    first: Mapping[str, Any], second: Mapping[str, Any], differing: Collection[str]
) -> dict[str, list[str]]:
    """Return each random stream with the differing keys that change it.

    Random numbers depend on seed, stream and step (trainers.random), so members of one seed draw the same numbers; data
    and weights are the same only if the same code draws them in the same shapes.
    """
    task = [key for key in differing if key.partition(".")[0] == "task"]
    model = [key for key in differing if key.partition(".")[0] == "model"]
    initial = [key for key in differing if key.startswith(INITIAL) and not key.startswith(_FILE_PATHS)]
    return {
        DATA: [*task, *(key for key in differing if key in _ROW_KEYS)],
        INPUTS: [*task, *(key for key in differing if key in ("evaluation.samples", "evaluation.lengths"))],
        WEIGHTS: [*task, *model, *initial],
    }
