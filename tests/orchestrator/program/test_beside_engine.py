"""The same training by the engine and by a function of the user's own: equal curves, in one comparison, unpaired."""

from pathlib import Path

import numpy as np
import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from search_spaces import dump_yaml

SECTIONS = {
    "task": {"name": "set_complement", "vocabulary": 8, "train_length": 3},
    "model": {"name": "attention_only", "width": 8},
    "training": {"steps": 20, "batch_size": 8, "learning_rate": 0.01},
    "evaluation": {"every": 10, "samples": 20},
}
COMMON = {
    "study": "tests",
    "seeds": [0, 1, 2],
    "objective": {"metric": "total_variation", "lengths": [4]},
    "resources": {"scheduler": "inline"},
    "tracking": {"enabled": False},
}
FUNCTION = f"""
import json
import trainers

def train(config, seed, report, checkpoints):
    class Reports:
        def report(self, found):
            k = found.metrics.index("total_variation")
            values = found.values_MAKL[0, 0, k]
            report(found.step, {{"total_variation": dict(zip(found.lengths, map(float, values)))}})
        def progress(self, progress): pass
        def notice(self, text): pass
    sections = {SECTIONS!r}
    sections["training"]["learning_rate"] = config["lr"]
    trainers.train([trainers.MemberConfig.from_dict({{**sections, "seed": seed}})], Reports())
"""
PROGRAM = {
    "program": {"function": "own_training.train"},
    "config": {"lr": 0.01},
    "training": {"steps": 20},
    "evaluation": {
        "every": 10,
        "lengths": [1, 2, 3, 4, 5, 6, 7],
        "trained_lengths": [1, 2, 3],
        "metrics": {"total_variation": "minimize"},
    },
}


@pytest.fixture
def both(lengthwise, tmp_path: Path) -> tuple[SweepState, SweepState]:
    """The finished sweeps, by the engine and by the function."""
    (tmp_path / "own_training.py").write_text(FUNCTION)
    for name, sections in (("engine", SECTIONS), ("program", PROGRAM)):
        (tmp_path / f"{name}.yaml").write_text(dump_yaml({"name": name, **COMMON, **sections}))
        done = lengthwise("run", tmp_path / f"{name}.yaml", "--storage", tmp_path / "sweeps")
        assert done.returncode == 0, done.stderr
    return SweepState.load(tmp_path / "sweeps" / "engine"), SweepState.load(tmp_path / "sweeps" / "program")


def test_both_have_the_same_curves_and_are_compared_as_two_samples(both, lengthwise) -> None:
    engine, program = (read_curves(state) for state in both)
    engine = engine[engine.metric == "total_variation"]
    keys = ["seed", "step", "length"]
    values = [curves.sort_values(keys)["value"].to_numpy(np.float32) for curves in (engine, program)]
    assert len(values[0]) == 3 * 2 * 7 and values[0].tobytes() == values[1].tobytes()
    compared = lengthwise("compare", both[0].folder, both[1].folder)
    assert compared.returncode == 0 and "Not paired" in compared.stdout
