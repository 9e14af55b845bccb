"""Train every case with the code that is on the path and write what came of it: one .npz of arrays for each case.

    PYTHONPATH=CODE python tests/side_by_side/train_all.py FOLDER [--only TEXT] [--compiled]

compare.py runs this twice. It knows of the code only `MemberConfig.from_dict`, `train`, what a reporter is given, and
the files of kept weights.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cases import COMPILED, EAGER, Member
from numpy.typing import NDArray
from safetensors.numpy import load_file

from trainers import MemberConfig, train

Arrays = dict[str, NDArray[Any]]


class Kept:
    """A reporter that keeps the evaluations."""

    def __init__(self) -> None:
        self.evaluations: list[Any] = []

    def report(self, evaluation: Any) -> None:
        """Keep it."""
        self.evaluations.append(evaluation)

    def progress(self, progress: Any) -> None:
        """Nobody looks."""

    def notice(self, text: str) -> None:
        """Nothing to resume from, so nothing to say."""


def arrays_of(members: list[Member], folder: Path) -> Arrays:
    """Every curve, loss and failure of a pack, and the kept weights of its members, by names that say which."""
    reporter = Kept()
    train([MemberConfig.from_dict(member) for member in members], reporter, weights=folder)
    arrays: Arrays = {"lengths": np.array(reporter.evaluations[0].lengths)}
    for evaluation in reporter.evaluations:
        at = f"step {evaluation.step}"
        arrays[f"{at}, averages, lengths"] = np.array([*evaluation.averages, *map(str, evaluation.lengths)])
        for k, metric in enumerate(evaluation.metrics):
            arrays[f"{at}, curve {metric}"] = evaluation.values_MAKL[:, :, k]
        arrays[f"{at}, loss"] = evaluation.loss_M
        arrays[f"{at}, failed at"] = evaluation.failed_at_M
        for name in ("stopped_at_M", "stage_M"):
            if (value := getattr(evaluation, name, None)) is not None:
                arrays[f"{at}, {name}"] = value
    for number, file in enumerate(reporter.evaluations[-1].weights):
        of_member = {"none": np.zeros(0)} if file is None else load_file(folder / file.name)
        arrays |= {f"weights of member {number}, {name}".replace("/", " "): of for name, of in of_member.items()}
    return arrays


def main() -> None:
    """Train what is asked for, on one thread as a worker does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--compiled", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    cases = EAGER | (COMPILED if asked.compiled else {})
    for number, (name, members) in enumerate(cases.items()):
        if asked.only in name:
            with tempfile.TemporaryDirectory() as weights:
                arrays = arrays_of(members, Path(weights))
            np.savez(asked.folder / f"{number:03d}.npz", case=np.array(name), **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
