"""validate --smoke: a step and an evaluation of every structure, faults with the user's own lines, nothing written."""

from pathlib import Path

import pytest

from orchestrator.preview.smoke import SmokeFailed, try_structures
from search_spaces import parse_sweep
from tests.sweep_files import load_checked

TASK = '''"""A task of my own."""

from trainers.settings.registry import register
from trainers.tasks.set_complement import SetComplement


@register("task", "smoking")
class Smoking(SetComplement):
    """Set complement with a fault."""

    def {method}
        """It stumbles."""
        return self.stumble()

    def stumble(self):
        """The fault itself."""
        raise KeyError("the seventh word")
'''
SWEEP = """
name: smoke
study: tests
{imports}
task: {{name: {task}, vocabulary: 6, train_length: 3}}
model: {{name: attention_only, width: 8, value_width: 8}}
training: {{steps: 1000000, batch_size: 8, learning_rate: 0.01, averages: {{raw: {{}}}}}}
space: {{model.width: {{grid: [8, 16]}}, training.learning_rate: {{log_uniform: [0.001, 0.1]}}}}
search: {{configurations: 3}}
seeds: 5
evaluation: {{samples: 20}}
objective: {{metric: total_variation, average: raw, lengths: [4], direction: minimize}}
"""
FAULTS = {
    "score_rows(self, logits_MBTV, batch, lengths):": "cannot be evaluated",
    "loss(self, logits_MBTV, batch):": "cannot take a training step",
    "sample(self, stream, batch):": "cannot take a training step",
}


def test_every_structure_is_tried_once() -> None:
    text = SWEEP.format(imports="", task="set_complement")
    assert try_structures(parse_sweep(text, "smoke.yaml")) == 2
    assert try_structures(parse_sweep(text, "smoke.yaml", ["space.model.width=null"])) == 1


@pytest.mark.parametrize(("method", "message"), FAULTS.items(), ids=[name.partition("(")[0] for name in FAULTS])
def test_a_fault_of_ones_own_task_shows_its_lines(
    tmp_path: Path, own_code_forgotten: None, method: str, message: str
) -> None:
    (tmp_path / "my_smoke.py").write_text(TASK.format(method=method))
    (tmp_path / "smoke.yaml").write_text(SWEEP.format(imports="imports: [my_smoke]", task="smoking"))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SmokeFailed) as caught:
        try_structures(load_checked(tmp_path / "smoke.yaml"))
    first, *frames = str(caught.value).splitlines()
    assert first == f"configuration #0 {message}: KeyError: 'the seventh word' ({tmp_path / 'my_smoke.py'}:17)"
    named = [line for line in frames if line.startswith("  File ")]
    assert len(named) == 2 and all("my_smoke.py" in line for line in named) and "in stumble" in named[-1]
    assert isinstance(caught.value.__cause__, KeyError)
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"] == before


def test_nonfinite_weights_are_reported() -> None:
    text = SWEEP.format(imports="", task="set_complement").replace("learning_rate: 0.01", "learning_rate: 1.0e+38")
    with pytest.raises(SmokeFailed, match="configuration #0: its loss or its weights are not finite after one step"):
        try_structures(
            parse_sweep(
                text,
                "smoke.yaml",
                ["space.training.learning_rate=null", "search.configurations=null", "training.weight_decay=1.0e+30"],
            )
        )
