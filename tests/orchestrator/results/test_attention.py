"""What one input attends to, from kept weights: of which member and input, and what is refused."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from orchestrator import open_sweep
from orchestrator.errors import DamagedWeights, UserError
from orchestrator.plan.recorded_configurations import rebuild_member
from orchestrator.record.files.weights import list_kept_weights, load
from trainers.evaluation.attention_weights import compute_input_attention

FLIPS = (
    "task={name: flip_flop, pairs: 4, test_pairs: [8, 40]}",
    "model={name: decoder, layers: 2, width: 8, heads: 2, dropout: 0.0, position: tra}",
    "training={steps: 3, batch_size: 2, learning_rate: 0.01, compile: false, averages: {raw: {}, ema: {decay: 0.5}}}",
    "space={training.learning_rate: {grid: [0.01, 0.02]}}",
    "search={sampler: grid}",
    "seeds=2",
    "evaluation={samples: 4}",
    "objective={metric: read_error, average: ema, lengths: [4], direction: minimize}",
)
KEEP = "resources.keep_weights=true"


@pytest.fixture
def kept(played):
    return open_sweep(played(*FLIPS, KEEP).folder)


def test_attention_is_computed_from_the_kept_weights_of_the_judged_average(kept) -> None:
    shown = kept.attention("#1", 1, length=8, distribution="sparse", row=2)
    configuration = next(
        configuration for configuration in kept.state.configurations.values() if configuration.number == 1
    )
    member = replace(rebuild_member(configuration), seed=1)
    for average, is_equal in (("ema", True), ("raw", False)):
        weights = load(kept.folder, 1, 1, average)
        again = compute_input_attention(member, weights, length=8, distribution="sparse", row=2)
        assert again.tokens == shown.tokens and len(shown.tokens) == 16
        pairs = zip(again.layers, shown.layers, strict=True)
        assert all(np.array_equal(layer, other) for layer, other in pairs) == is_equal
    assert [layer.shape for layer in shown.layers] == [(2, 16, 16)] * 2


@pytest.mark.parametrize(
    ("seed", "asked", "words"),
    [
        (0, {"length": 7}, ("length", "allowed: 4, 8, 40")),
        (0, {"length": 4, "distribution": "spare"}, ("distribution", "did you mean 'sparse'?")),
        (0, {"length": 4, "row": 4}, ("row", "allowed: 0..3")),
        (9, {"length": 4}, ("seed 9", "allowed: 0-1")),
        (0, {"length": 4, "average": "bema"}, ("'bema'", "allowed: raw, ema")),
    ],
)
def test_what_was_not_evaluated_is_refused_with_what_is_allowed(kept, seed, asked, words) -> None:
    with pytest.raises(UserError) as error:
        kept.attention(0, seed, **asked)
    assert all(word in str(error.value) for word in words)


def test_weights_that_were_not_kept_are_refused(played) -> None:
    with pytest.raises(UserError, match=r"resources\.keep_weights: true"):
        open_sweep(played(*FLIPS).folder).attention(0, 0, length=4)


def test_a_damaged_file_is_named(kept, tmp_path) -> None:
    kept = open_sweep(shutil.copytree(kept.folder, tmp_path / "flips"))
    configuration = next(
        configuration for configuration in kept.state.configurations.values() if configuration.number == 0
    )
    path = list_kept_weights(kept.state)[configuration.config_id, 0].path
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedWeights, match=str(path)):
        kept.attention(0, 0, length=4)
