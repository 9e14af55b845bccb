"""What one input attends to, drawn from kept weights: of which member and input, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.cli import results as cli
from orchestrator.errors import UserError
from orchestrator.plan.recorded import member_of
from orchestrator.record.kept.weights import load
from orchestrator.results.from_weights.member_attention import read_attention
from orchestrator.results.from_weights.member_maps import median_seed
from orchestrator.results.summarise import summary
from trainers.evaluation.attention_maps import compute_input_attention

FLIPS = (
    "task={name: flip_flop, pairs: 4, test_pairs: [8, 40]}",
    "model={name: decoder, layers: 2, width: 8, heads: 2, dropout: 0.0, position: tra}",
    "training={steps: 3, batch_size: 2, learning_rate: 0.01, compile: false, averages: {raw: {}, ema: {decay: 0.5}}}",
    "space={training.learning_rate: {grid: [0.01, 0.02]}}",
    "search={sampler: grid}",
    "seeds=3",
    "evaluation={samples: 4}",
    "objective={metric: read_error, average: ema, lengths: [4], direction: minimize}",
)
KEEP = "resources.keep_weights=true"


@pytest.fixture
def kept(stage):
    one = stage("flips", *FLIPS, KEEP)
    return one, one.play()


def test_every_head_is_drawn_for_the_median_seed_and_the_input_is_named(kept, drawn, capsys) -> None:
    one, state = kept
    cli.attention(one.folder, "#1", length=8, distribution="sparse", row=2)
    (name,) = drawn
    (row,) = (row for row in summary(state).rows if row.number == 1)
    seed = median_seed(summary(state), row)[0]
    assert name == f"attention-{row.config_id}-{seed}-ema-sparse-8-2.png"
    assert f"Attention: {one.folder / 'figures' / name}" in capsys.readouterr().out.replace("\n", "")
    title = drawn[name].get_suptitle()
    assert f"seed {seed}, the median one of 3 by score; ema weights after step 3; row 2 of sparse at length 8" in title
    panels = [axes for axes in drawn[name].axes if axes.images and axes.get_title(loc="left")]
    assert [axes.get_title(loc="left").split("\n")[-1] for axes in panels] == ["head 1", "head 2"] * 2
    found = read_attention(one.folder, 1, length=8, distribution="sparse", row=2)
    for axes, values in zip(panels, [*found.attended.layers[0], *found.attended.layers[1]], strict=True):
        assert np.array_equal(axes.images[0].get_array(), values) and axes.images[0].get_clim() == (0.0, 1.0)
        words = [label.get_text() for label in axes.get_xticklabels()]
        assert tuple(words) == found.attended.tokens and len(words) == 16
    member = replace(member_of(state.configurations[row.config_id]), seed=seed)
    weights = load(one.folder, row.config_id, seed, "ema")
    again = compute_input_attention(member, weights, length=8, distribution="sparse", row=2)
    assert again.tokens == found.attended.tokens
    for layer, other in zip(again.layers, found.attended.layers, strict=True):
        assert np.array_equal(layer, other)


def test_a_long_input_has_numbers_and_any_seed_average_and_path_can_be_asked_for(kept, drawn, tmp_path: Path) -> None:
    one, _ = kept
    cli.attention(one.folder, "0", length=40, seed=2, average="raw", figure=tmp_path / "mine.png")
    axes = drawn["mine.png"].axes[0]
    assert len(axes.get_xticklabels()) < 12
    assert "seed 2; raw weights after step 3; row 0 of iid at length 40" in drawn["mine.png"].get_suptitle()


def test_what_is_not_there_is_refused_and_nothing_is_replaced(kept, tmp_path: Path) -> None:
    one, _ = kept
    for words, said in (
        ({"length": 7}, "--length: 7 was not evaluated in iid; allowed: 4, 8, 40"),
        ({"length": 4, "distribution": "spare"}, "did you mean 'sparse'?"),
        ({"length": 4, "row": 4}, "--row: there is no row 4; allowed: 0..3"),
        ({"length": 4, "seed": 9}, "has no seed 9; allowed: 0-2"),
        ({"length": 4, "average": "bema"}, "there is no average 'bema'; allowed: raw, ema"),
    ):
        with pytest.raises(UserError) as error:
            cli.attention(one.folder, "0", **words)
        assert said in str(error.value) and error.value.exit_code == 2
    mine = tmp_path / "notes.png"
    mine.write_text("mine")
    with pytest.raises(UserError, match="was not drawn by lengthwise"):
        cli.attention(one.folder, "0", length=4, figure=mine)
    assert mine.read_text() == "mine" and not list(one.folder.glob("figures/attention-*"))


def test_weights_that_were_not_kept_cannot_be_drawn(stage) -> None:
    one = stage("plain", *FLIPS)
    one.play()
    with pytest.raises(UserError, match=r"resources\.keep_weights: true"):
        cli.attention(one.folder, "0", length=4)
