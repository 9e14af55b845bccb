"""Effects in the report of synthetic sweeps: what was planted is found, what was not is not, and intervals cover."""

import math

import numpy as np
import pytest

from orchestrator.report.csv_tables import make_effect_records
from orchestrator.report.tables.effect_table import list_effect_notes
from orchestrator.results.analysis import compute_score_effects, compute_test_effects
from orchestrator.results.make_summary import summarize


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
        configuration = values[number]
        rate = -0.1 * (math.log10(configuration["training.learning_rate"]) + 3)
        beyond = np.where(lengths > 7, 0.5 * configuration["model.dropout"], 0.0)
        base = 0.4 + rate + beyond + 0.08 * (configuration["model.norm"] == "pre") + noise[number] + 0.002 * seed
        return base + (0.01 if average == "raw" else 0.0)

    return curve


@pytest.fixture(scope="module")
def planted(tmp_path_factory, synthetic_sweep):
    """Forty-eight configurations of three seeds."""
    rng = np.random.default_rng(7)
    values = drawn_values(rng, 48)
    return summarize(
        synthetic_sweep(tmp_path_factory.mktemp("built") / "planted", values, 3, planted_curve(values, rng))
    )


def by_key(effects):
    return {effect.key: effect for effect in effects}


@pytest.mark.slow
def test_planted_effects_are_found_at_the_lengths_they_were_planted_at(planted):
    selection, test = by_key(compute_score_effects(planted)), by_key(compute_test_effects(planted))
    assert planted.test_lengths == (8, 9, 10, 11)
    for effects in (selection, test):
        assert effects["training.learning_rate"].high < 0 and effects["training.learning_rate"].n == 48
        (rate,) = effects["training.learning_rate"].partial.slopes
        assert rate.high < -0.3 and effects["training.learning_rate"].partial.n == 48
        norms = {slope.value: slope for slope in effects["model.norm"].partial.slopes}
        assert norms["pre"].low > 0 and norms["post"].low < 0 < norms["post"].high
        assert effects["training.batch_size"].low < 0 < effects["training.batch_size"].high
    assert selection["model.dropout"].low < 0 < selection["model.dropout"].high
    assert test["model.dropout"].low > 0.3 and test["model.dropout"].partial.slopes[0].low > 0.3


def test_importance_is_a_share_and_goes_to_what_was_planted(planted):
    for effects, first in (
        (compute_score_effects(planted), "training.learning_rate"),
        (compute_test_effects(planted), "model.dropout"),
    ):
        shares = {effect.key: effect.importance.share for effect in effects}
        assert sum(shares.values()) == pytest.approx(1) and max(shares, key=shares.get) == first
        assert shares["training.batch_size"] < 0.1
    again = compute_score_effects.__wrapped__(planted)
    assert [effect.importance for effect in again] == [effect.importance for effect in compute_score_effects(planted)]


def test_notes_say_what_slopes_and_importance_are(planted):
    notes = " ".join(list_effect_notes(planted))
    assert "in standard deviations; n = 48." in notes and "add up to 1 even without any effect" in notes
    assert "not given" not in notes


def test_csv_has_a_line_for_each_outcome_key_and_value(planted):
    lines = make_effect_records(planted)
    named = [(line["outcome"], line["hyperparameter"], line["value"]) for line in lines]
    per_outcome = [("model.dropout", ""), ("model.norm", "post"), ("model.norm", "pre")]
    per_outcome += [("training.batch_size", ""), ("training.learning_rate", "")]
    assert named == [(outcome, *rest) for outcome in ("selection", "test") for rest in per_outcome]
    assert {line["lengths"] for line in lines} == {"6-7", "8-11"}


def test_too_few_configurations_are_said_to_be_too_few(small_sweep):
    result = summarize(small_sweep)
    assert all(math.isnan(effect.importance.share) for effect in compute_score_effects(result))
    notes = list_effect_notes(result)
    (note,) = [note for note in notes if note.startswith("Importance (fANOVA): none for")]
    assert "6 configurations are too few for the importance of 3 hyperparameters (at least 24)" in note
    for key in result.searched:
        assert key in note
