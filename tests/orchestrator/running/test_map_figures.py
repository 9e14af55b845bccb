"""Maps of kept weights: of which seed, with which numbers, in how many panels, in the report; damage is named."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from orchestrator.cli import results as cli
from orchestrator.errors import DamagedWeights, UserError
from orchestrator.figures.heat_maps import draw_weight_maps
from orchestrator.record.kept.weights import kept_weights, load
from orchestrator.results.from_weights.member_maps import median_seed, read_maps
from orchestrator.results.summarise import summary
from trainers.evaluation.weights import StoredWeights

KEEP = "resources.keep_weights=true"
RING = (
    "task={name: ring_regression, ring: 11, window: 4}",
    "model={name: linear_attention, width: 6, encoding: ape}",
    "training={optimizer: gradient_descent, steps: 20, batch_size: 1, learning_rate: 0.005, dtype: float64}",
    "evaluation={samples: 1}",
    "objective={metric: test_loss, average: raw, lengths: [1, 2], direction: minimize}",
    "search={sampler: grid}",
    KEEP,
)
BOTH = "space={model.encoding: {grid: [ape, rpe]}}"
ENCODER = (
    "task={name: padded_multiplication, multiplier_digits: 2, number_digits: 3, train_digits: 2}",
    "model={name: encoder, layers: 3, width: 8, heads: 2, dropout: 0.0, position: {name: upe, uniform: 2}}",
    "training={steps: 2, batch_size: 2, learning_rate: 0.001, compile: false, averages: {ema: {decay: 0.5}}}",
    "space={training.learning_rate: {grid: [0.001]}}",
    "search={sampler: grid}",
    "evaluation={samples: 4}",
    "objective={metric: exact_match, average: ema, lengths: [3], direction: maximize}",
    KEEP,
)


def rows_by(result, key):
    return {row.values[key]: row for row in result.rows}


def test_the_ring_is_drawn_as_numpy_computes_it(stage, drawn):
    one = stage("ring", *RING, BOTH, "seeds=3")
    state = one.play()
    result = summary(state)
    rows = rows_by(result, "model.encoding")
    draw_weight_maps(one.folder, [row.config_id for row in result.rows])
    assert list(drawn) == [f"maps-{row.config_id}.png" for row in result.rows]
    seed = median_seed(result, rows["ape"])[0]
    figure = drawn[f"maps-{rows['ape'].config_id}.png"]
    title = figure.get_suptitle()
    assert f"configuration #{rows['ape'].number} (rank {rows['ape'].rank}): encoding ape" in title
    assert f"seed {seed}, the median one of 3 by score; raw weights after step 20" in title
    own, wanted, bar = figure.axes
    p = load(one.folder, rows["ape"].config_id, seed)["positions"]
    np.testing.assert_allclose(own.images[0].get_array(), p @ p.T, rtol=1e-12)
    apart = np.abs(np.subtract.outer(np.arange(11), np.arange(11)))
    apart = np.minimum(apart, 11 - apart)
    assert np.array_equal(wanted.images[0].get_array(), np.select([apart == 0, apart == 1], [2.0, 0.5]))
    assert wanted.get_title(loc="left").startswith("wanted by the task") and not bar.images
    top = max(2.0, np.abs(p @ p.T).max())
    assert own.images[0].get_clim() == wanted.images[0].get_clim() == pytest.approx((-top, top))
    assert own.images[0].get_extent() == [0.5, 11.5, 11.5, 0.5]
    for axes in (own, wanted):  # the window: positions 4 to 7
        (line,) = (collection for collection in axes.collections if isinstance(collection, LineCollection))
        corners = np.concatenate(line.get_segments())
        assert (corners.min(0).tolist(), corners.max(0).tolist(), len(line.get_segments())) == (
            [3.5] * 2,
            [7.5] * 2,
            16,
        )

    seed = median_seed(result, rows["rpe"])[0]
    weights = load(one.folder, rows["rpe"].config_id, seed)
    (axes,) = drawn[f"maps-{rows['rpe'].config_id}.png"].axes
    shade, bars = axes.containers
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars}
    a = weights["positions"] @ weights["u"]
    assert heights == {k: pytest.approx(a[k % 11]) for k in range(-5, 6)}
    (line,) = axes.lines
    assert list(line.get_ydata()) == [0, 0, 0, 0, 0.5, 2.0, 0.5, 0, 0, 0, 0] and list(line.get_xdata()) == list(heights)
    assert [bar.get_height() > 0 for bar in shade] == [abs(k) < 4 for k in range(-5, 6)]


def test_every_layer_has_a_panel_and_only_its_tables_are_read(stage, drawn, monkeypatch):
    one = stage("encoder", *ENCODER, "seeds=1")
    result = summary(one.play())
    read, get = [], StoredWeights.__getitem__
    monkeypatch.setattr(StoredWeights, "__getitem__", lambda self, name: (read.append(name), get(self, name))[1])
    draw_weight_maps(one.folder, [result.rows[0].config_id])
    assert read == ["block0.pairs", "block1.pairs", "block2.pairs"]
    (figure,) = drawn.values()
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left").split("\n")[-1] for axes in panels] == ["layer 1", "layer 2", "layer 3"] * 4
    first = [axes.get_title(loc="left").split("\n")[0] for axes in panels[::3]]
    assert first == [
        "relative vectors p_k",
        "norms of the relative vectors p_k",
        "uniform vectors c_s",
        "norms of the uniform vectors c_s",
    ]
    assert "seed 0, the only one with a score; ema weights after step 2" in figure.get_suptitle()
    (row,) = result.rows
    table = load(one.folder, row.config_id, 0, "ema")["block2.pairs"]
    relative = 2 * (2 + 1 + 5) - 1
    assert len(table) == relative + 2
    assert np.array_equal(panels[2].images[0].get_array(), table[:relative])
    assert panels[2].images[0].get_extent() == [0.5, 4.5, 7.5, -7.5]
    assert [bar.get_height() for bar in panels[5].patches] == pytest.approx(np.linalg.norm(table[:relative], axis=1))
    assert np.array_equal(panels[8].images[0].get_array(), table[relative:])
    tables = [load(one.folder, row.config_id, 0, "ema")[f"block{layer}.pairs"] for layer in range(3)]
    for start, part in ((0, slice(0, relative)), (6, slice(relative, None))):  # one scale for all layers
        top = [float(np.abs(table[part]).max()) for table in tables]
        norms = [float(np.linalg.norm(table[part], axis=1).max()) for table in tables]
        assert len(set(top)) == 3 and len(set(norms)) == 3
        assert {axes.images[0].get_clim() for axes in panels[start : start + 3]} == {(-max(top), max(top))}
        (limits,) = {axes.get_ylim() for axes in panels[start + 3 : start + 6]}
        assert limits == (0.0, pytest.approx(1.05 * max(norms)))


def test_the_median_seed_is_the_lower_of_two_and_counts_no_failed_one(tmp_path, stage):
    one = stage("four", *RING, "space={model.encoding: {grid: [ape]}}", "seeds=4")
    result = summary(one.play())
    (row,) = result.rows
    band = result.bands[row.config_id, "test_loss", "raw"]
    scores = sorted((np.mean(values[:2]), seed) for seed, values in band.seeds.items())
    assert median_seed(result, row) == (scores[1][1], 4)
    assert f"seed {scores[1][1]}, the lower of the two median ones of 4 by score" in read_maps(result, row).title
    band.seeds[scores[0][1]] = (float("nan"),) * 11
    assert median_seed(result, row) == (scores[2][1], 3)


@pytest.mark.slow
def test_maps_are_drawn_when_asked_for(stage, capsys):
    one = stage("three", *RING, "space={training.learning_rate: {grid: [0.001, 0.002]}}", "seeds=1")
    result = summary(one.play())
    last, figures = result.rows[-1], one.folder / "figures"
    cli.report(one.folder, maps=[str(last.number)])
    assert f"Maps: {figures}/maps-{last.config_id}.png" in capsys.readouterr().out
    assert [path.name for path in figures.iterdir()] == [f"maps-{last.config_id}.png"]
    with pytest.raises(UserError, match="there is no configuration 9"):
        cli.report(one.folder, maps=["9"])


def test_maps_of_a_sweep_without_kept_weights_are_refused(stage):
    one = stage("plain", *RING[:-1], BOTH, "seeds=1")
    one.play()
    with pytest.raises(UserError, match=r"no weights were kept \(resources\.keep_weights\)"):
        draw_weight_maps(one.folder, ["0"])
    assert not list(one.folder.glob("figures/maps-*"))


@pytest.mark.slow
def test_a_model_without_maps_has_no_figure(stage):
    one = stage("attention", KEEP)
    one.play()
    assert draw_weight_maps(one.folder, ["0"]) == ["#0: there are no maps of its weights"]


def test_a_damaged_file_is_named(stage):
    one = stage("damaged", *RING, BOTH, "seeds=1")
    state = one.play()
    lost = summary(state).rows[0]
    path = kept_weights(state)[lost.config_id, 0].path
    data = bytearray(path.read_bytes())
    data[-9] ^= 4
    path.write_bytes(data)
    with pytest.raises(DamagedWeights, match=str(path)):
        draw_weight_maps(one.folder, [lost.config_id])
