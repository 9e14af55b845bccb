"""How fast steps and evaluations are with two revisions, as ratios of times taken in turn on one core.

    python tests/benchmarks/revisions.py --before REVISION [--rounds 5] [--only TEXT]

Each round trains every case once with the code of REVISION (in a git worktree that goes away again) and once with this
checkout. A case is a pack that mostly steps or one that mostly evaluates, uncompiled. Prints for each case the median
seconds of both and the median, smallest and largest ratio now / before over the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]

TASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "set_complement": (
        {"name": "set_complement", "vocabulary": 20, "train_length": 5},
        {"name": "attention_only", "width": 32, "dropout": 0.1},
    ),
    "othello decoder": (
        {"name": "othello", "board": 6, "train_moves": 12},
        {"name": "decoder", "layers": 2, "width": 32, "heads": 4, "position": "learned", "dropout": 0.1},
    ),
    "addition encoder": (
        {"name": "padded_addition", "width": 8, "train_digits": 3},
        {"name": "encoder", "layers": 2, "width": 32, "heads": 4, "position": "rpe", "dropout": 0.0},
    ),
}
CASES = {
    **{f"steps, {name}": (*pair, {"steps": 25, "batch_size": 32}, {"samples": 16}) for name, pair in TASKS.items()},
    **{
        f"evaluations, {name}": (*pair, {"steps": 2, "batch_size": 1}, {"every": 1, "samples": 100})
        for name, pair in TASKS.items()
    },
    **{
        f"evaluations as in W1, {form} form": (
            TASKS["set_complement"][0],
            {**TASKS["set_complement"][1], "form": form},
            {"steps": 4, "batch_size": 1},
            {"every": 1, "samples": 300},
        )
        for form in ("table", "plain")
    },
}
MEMBERS = 4


class Silent:
    """A reporter that is told everything and keeps nothing."""

    def report(self, evaluation: Any) -> None:
        """Not kept."""

    def progress(self, progress: Any) -> None:
        """Not kept."""

    def notice(self, text: str) -> None:
        """Not kept."""


def timed(only: str) -> dict[str, float]:
    """Seconds of each case with the code that is on the path, the second of two runs."""
    import time

    import torch

    from trainers import MemberConfig, train

    torch.set_num_threads(1)
    seconds = {}
    for name, (task, model, training, evaluation) in CASES.items():
        if only not in name:
            continue
        training = {**training, "learning_rate": 1e-3, "compile": False, "averages": {"raw": {}, "ema": {"decay": 0.9}}}
        sections = {"task": task, "model": model, "training": training, "evaluation": evaluation}
        members = [MemberConfig.from_dict({**sections, "seed": seed}) for seed in range(MEMBERS)]
        for _ in range(2):
            began = time.perf_counter()
            train(members, Silent())
            seconds[name] = time.perf_counter() - began
    return seconds


def measured(code: Path, only: str) -> dict[str, float]:
    """What `timed` finds with this code, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--timed", "--only", only]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


def main() -> None:
    """Measure in turn, say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=5, help="times that both are measured")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this in their name")
    parser.add_argument("--timed", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.timed:
        print(json.dumps(timed(asked.only)))
        return
    if asked.before is None or asked.rounds < 1:
        parser.error("--before REVISION is needed, and at least one round")
    git = ["git", "-C", str(REPOSITORY), "worktree"]
    with tempfile.TemporaryDirectory() as temporary:
        code = Path(temporary) / "code"
        subprocess.run([*git, "add", "--quiet", "--detach", str(code), asked.before], check=True)
        try:
            rounds = [(measured(code, asked.only), measured(REPOSITORY, asked.only)) for _ in range(asked.rounds)]
        finally:
            subprocess.run([*git, "remove", "--force", str(code)], check=True)
    for name in rounds[0][0]:
        before, now = ([seconds[side][name] for seconds in rounds] for side in (0, 1))
        ratios = [b / a for a, b in zip(before, now, strict=True)]
        print(
            f"{name}: {statistics.median(before):.2f} s before, {statistics.median(now):.2f} s now, "
            f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
