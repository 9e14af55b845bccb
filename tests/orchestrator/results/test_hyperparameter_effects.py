"""Effects in the report of synthetic sweeps: what was planted is found, what was not is not, and intervals cover."""

import math
import shutil

import numpy as np
import pytest

from orchestrator.report.csv_tables import average_lines, effect_lines
from orchestrator.report.effect_tables import effect_columns, effect_notes
from orchestrator.results.hyperparameter_effects import effects_on
from orchestrator.results.summary import summary
from orchestrator.statistics import medians as statistics
from orchestrator.statistics.trend import binned_medians


def drawn_values(rng, count):
    """Rate and dropout log-uniform and uniform, three norms, two batch sizes, all independent."""
    return [
        {
            "training.learning_rate": float(f"{10 ** rng.uniform(-4, -2):.6g}"),
            "model.dropout": float(f"{rng.uniform(0, 0.6):.6g}"),
            "model.norm": str(rng.choice(["none", "pre", "post"])),
            "training.batch_size": int(rng.choice([16, 32])),
        }
        for _ in range(count)
    ]


def planted_curve(values, rng):
    """At the selection lengths 6 and 7 the rate matters, at the test lengths beyond also dropout; norm pre is worse."""
    noise = rng.normal(0, 0.02, len(values))

    def curve(number, seed, average, metric, lengths, step):
        one = values[number]
        rate = -0.1 * (math.log10(one["training.learning_rate"]) + 3)
        beyond = np.where(lengths > 7, 0.5 * one["model.dropout"], 0.0)
        base = 0.4 + rate + beyond + 0.08 * (one["model.norm"] == "pre") + noise[number] + 0.002 * seed
        return base + (0.01 if average == "raw" else 0.0)

    return curve


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Forty-eight configurations of three seeds."""
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    spec = spec_from_file_location("sweep_builder", Path(__file__).parents[1] / "conftest.py")
    builder = module_from_spec(spec)
    spec.loader.exec_module(builder)
    rng = np.random.default_rng(7)
    values = drawn_values(rng, 48)
    folder = tmp_path_factory.mktemp("planted") / "planted"
    yield summary(builder.build_sweep(folder, values, 3, planted_curve(values, rng)))
    shutil.rmtree(folder)


def by_key(effects):
    return {effect.key: effect for effect in effects}


def test_planted_effects_are_found_at_the_lengths_they_were_planted_at(planted):
    selection, test = by_key(planted.effects), by_key(planted.test_effects)
    assert planted.test_lengths == (8, 9, 10, 11)
    for effects in (selection, test):
        assert effects["training.learning_rate"].high < 0 and effects["training.learning_rate"].n == 48
        (rate,) = effects["training.learning_rate"].partial
        assert rate.high < -0.3 and effects["training.learning_rate"].partial_n == 48
        norms = {one.value: one for one in effects["model.norm"].partial}
        assert norms["pre"].low > 0 and norms["post"].low < 0 < norms["post"].high
        assert effects["training.batch_size"].low < 0 < effects["training.batch_size"].high
    assert selection["model.dropout"].low < 0 < selection["model.dropout"].high
    assert test["model.dropout"].low > 0.3 and test["model.dropout"].partial[0].low > 0.3


def test_importance_is_a_share_and_goes_to_what_was_planted(planted):
    for effects, first in ((planted.effects, "training.learning_rate"), (planted.test_effects, "model.dropout")):
        shares = {effect.key: effect.importance for effect in effects}
        assert sum(shares.values()) == pytest.approx(1) and max(shares, key=shares.get) == first
        assert shares["training.batch_size"] < 0.1
    again = effects_on(planted._values(), {row.config_id: row.score for row in planted.rows})
    assert [effect.importance for effect in again] == [effect.importance for effect in planted.effects]


def test_the_table_has_both_outcomes_with_interval_n_and_importance(planted):
    columns = effect_columns(planted)
    assert columns["at lengths"] == ["selection 6-7", "test 8-11"] * 4 and columns["n"] == [
        effect.count for effect in planted.effects for _ in range(2)
    ]
    assert set(columns["n"]) == {"48", "48, 2 values", "48, 3 values"}
    assert columns["hyperparameter"][::2] == sorted(planted.searched) and set(columns["hyperparameter"][1::2]) == {""}
    rate = columns["hyperparameter"].index("training.learning_rate")
    effect = by_key(planted.effects)["training.learning_rate"]
    (partial,) = effect.partial
    cell = f"{effect.correlation:+.2f} [{effect.low:+.2f}, {effect.high:+.2f}]"
    assert columns["rank correlation [95 %]"][rate] == cell
    cell = f"{partial.coefficient:+.2f} [{partial.low:+.2f}, {partial.high:+.2f}]"
    assert columns["standardised slope, others held [95 %]"][rate] == cell
    assert columns["importance"][rate] == f"{effect.importance:.2f}"
    notes = " ".join(effect_notes(planted))
    assert "in standard deviations; n = 48." in notes and "add up to 1 also where nothing has an effect" in notes
    assert "not given" not in notes


def test_csv_has_a_line_for_each_outcome_key_and_value(planted):
    lines = effect_lines(planted)
    named = [(line["outcome"], line["hyperparameter"], line["partial_value"]) for line in lines]
    per_outcome = [("model.dropout", ""), ("model.norm", "post"), ("model.norm", "pre")]
    per_outcome += [("training.batch_size", ""), ("training.learning_rate", "")]
    assert named == [(outcome, *rest) for outcome in ("selection", "test") for rest in per_outcome]
    assert {line["lengths"] for line in lines} == {"6-7", "8-11"}
    averages = average_lines(planted)
    assert [(line["group"], line["average"], line["against"], line["n"]) for line in averages] == [
        (group, "raw", "ema", 144) for group in ("trained", "selection", "test")
    ]
    assert all(line["difference"] == pytest.approx(0.01, abs=1e-6) for line in averages)


def test_too_few_configurations_are_said_to_be_too_few(small_sweep):
    result = summary(small_sweep)
    assert all(math.isnan(effect.importance) for effect in result.effects)
    assert "importance" not in effect_columns(result)
    notes = effect_notes(result)
    (said,) = [note for note in notes if note.startswith("Importance (fANOVA): not given for")]
    assert "n = 6 is too few for the importance of 3 hyperparameters (at least 24)" in said
    for key in result.searched:
        assert key in said


@pytest.mark.parametrize(
    ("count", "keys", "score", "reason"),
    [
        (19, ("x", "y"), lambda n: n, "n = 19 is too few for the importance of 2 hyperparameters (at least 20)"),
        (30, ("x",), lambda n: n, "it is the only one that varies"),
        (30, ("x", "y"), lambda n: 1.0, "the score is the same everywhere"),
        (0, (), None, None),
    ],
)
def test_importance_says_why_it_is_missing(count, keys, score, reason):
    rng = np.random.default_rng(0)
    values = {f"c{n}": {key: float(rng.random()) for key in keys} for n in range(count)}
    table = statistics.importances(values, {name: score(n) for n, name in enumerate(values)})
    assert table["importance"].isna().all() and set(table["reason"]) == ({reason} if reason else set())


def test_importance_leaves_out_what_cannot_be_compared_and_takes_infinite_scores():
    rng = np.random.default_rng(1)
    values = {
        f"c{n}": {"x": n % 10, "same": 3, "kind": "abc"[n % 3]} | ({"some": n} if n % 2 else {}) for n in range(30)
    }
    scores = {name: math.inf if one["x"] == 9 else one["x"] + 0.1 * rng.normal() for name, one in values.items()}
    table = statistics.importances(values, {**scores, "c0": None}).set_index("hyperparameter")
    assert table.loc["same", "reason"] == "it is the same everywhere"
    assert table.loc["some", "reason"] == "some configurations do not have it"
    assert table.loc["x", "importance"] > 0.8 and table.loc["x", "n"] == 29
    assert table.loc["kind", "importance"] == pytest.approx(1 - table.loc["x", "importance"])


SWEEPS, PER_SWEEP = 150, 30


def test_intervals_hold_zero_in_about_95_of_100_sweeps_without_an_effect():
    """Binomial bounds around 0.95 for 300 intervals are 0.92 to 0.98; the bootstrap is known to be a little narrow."""
    rng = np.random.default_rng(11)
    held = {"correlation": [], "partial": []}
    for _ in range(SWEEPS):
        values, scores = sweep_of(rng, effect=0.0)
        for row in statistics.effects(values, scores, resamples=500).to_dict("records"):
            held["correlation"].append(row["low"] <= 0 <= row["high"])
        for row in statistics.partial_effects(values, scores).to_dict("records"):
            held["partial"].append(row["low"] <= 0 <= row["high"])
    assert 0.90 <= np.mean(held["correlation"]) <= 0.98
    assert 0.92 <= np.mean(held["partial"]) <= 0.98


def test_intervals_cover_a_planted_effect_and_tell_it_from_none():
    """The truth is Spearman's correlation in a sweep of 20,000 configurations of the same kind."""
    rng = np.random.default_rng(12)
    values, scores = sweep_of(rng, effect=1.0, count=20_000)
    ranks = [
        np.argsort(np.argsort(column)) for column in ([one["x"] for one in values.values()], list(scores.values()))
    ]
    truth = float(np.corrcoef(ranks)[0, 1])
    assert 0.5 < truth < 0.8
    covered, found, false_alarms = [], [], []
    for _ in range(SWEEPS):
        values, scores = sweep_of(rng, effect=1.0)
        x, y = statistics.effects(values, scores, resamples=500).to_dict("records")
        covered.append(x["low"] <= truth <= x["high"])
        found.append(x["low"] > 0)
        false_alarms.append(not y["low"] <= 0 <= y["high"])
    assert 0.90 <= np.mean(covered) <= 0.99
    assert np.mean(found) > 0.95 and np.mean(false_alarms) < 0.12


def sweep_of(rng, effect, count=PER_SWEEP):
    x, y = rng.random(count), rng.random(count)
    score = effect * x + 0.3 * rng.normal(size=count)
    return {f"c{n}": {"x": x[n], "y": y[n]} for n in range(count)}, {f"c{n}": score[n] for n in range(count)}


def test_the_trend_follows_a_bend_that_a_correlation_does_not_see():
    x = np.linspace(0, 1, 80)
    y = (x - 0.5) ** 2
    bins = binned_medians(x, y)
    assert len(bins) == 8 and sum(one.n for one in bins) == 80
    medians = [one.median for one in bins]
    assert medians[0] > medians[3] < medians[7] and medians == sorted(medians[:4], reverse=True) + sorted(medians[4:])
    inside = y[:10]
    assert (bins[0].x, bins[0].median) == (pytest.approx(np.median(x[:10])), pytest.approx(np.median(inside)))
    assert (bins[0].q25, bins[0].q75) == pytest.approx(tuple(np.quantile(inside, [0.25, 0.75])))


def test_equal_values_share_a_bin_and_few_have_none():
    assert binned_medians([1, 2, 3], [1, 2, 3]) == [] == binned_medians([5] * 40, range(40))
    bins = binned_medians([1] * 30 + [2] * 10, [math.inf] * 3 + [1.0] * 27 + [2.0] * 9 + [math.nan])
    assert [(one.x, one.median, one.n) for one in bins] == [(1, 1.0, 30), (2, 2.0, 9)]
