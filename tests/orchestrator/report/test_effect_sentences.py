"""The sentence on hyperparameters that mattered."""

import math
import re
import statistics
from dataclasses import replace

import pytest

from orchestrator.report.effect_sentences import describe_effects
from orchestrator.report.sentences import make_answers
from orchestrator.results.analysis import compute_score_effects
from orchestrator.results.make_summary import summarize
from tests.orchestrator.report.conftest import draws, noisy


def test_only_effects_whose_interval_excludes_zero_matter(twelve, tmp_path, synthetic_sweep):
    effect = next(effect for effect in compute_score_effects(twelve) if effect.key == "training.learning_rate")
    shown = describe_effects(twelve)
    assert ": higher lr is worse (" in shown
    assert f"rank correlation {effect.correlation:+.3g}, 95 % [{effect.low:+.3g}, " in shown
    assert "inconclusive: dropout" in describe_effects(twelve)  # it is drawn without regard to the score

    def unmoved(number, seed, average, metric, lengths, step):
        return 0.1 + 0.01 * (number * 5 % 7) + 0.001 * lengths

    values = [{"training.learning_rate": 0.001 * (1 + n % 4), "model.dropout": 0.1 * (n % 3)} for n in range(9)]
    result = summarize(synthetic_sweep(tmp_path / "none", values, 2, unmoved))
    strongest = max(compute_score_effects(result), key=lambda effect: abs(effect.correlation))
    sentence = describe_effects(result)
    assert sentence.startswith("No hyperparameter has a clear effect")
    assert f"{strongest.correlation:+#.3g}, 95 % [{strongest.low:+#.3g}, {strongest.high:+#.3g}]" in sentence


def test_effects_of_medians_that_look_equal_come_last_with_their_size(tmp_path, synthetic_sweep):
    def barely(number, seed, average, metric, lengths, step):
        return 0.5 + 1e-5 * number + 0.0 * lengths

    values = [{"training.learning_rate": 0.001 * (1 + number)} for number in range(9)]
    spec = {"space": {"training.learning_rate": {"uniform": [0.001, 0.01]}}}
    flat = summarize(synthetic_sweep(tmp_path / "flat", values, 2, barely, spec=spec))
    for with_values in (True, False):
        shown = describe_effects(flat, with_values=with_values)
        assert "worse" not in shown and "mattered" not in shown and "lr (medians differ by 5e-05)" in shown

    # Nothing is small about a half whose median seed failed.
    lost = {(number, seed): 10 for number in (0, 1, 4, 5, 7, 8) for seed in range(2)}
    failed = describe_effects(summarize(synthetic_sweep(tmp_path / "failed", values, 2, barely, lost, spec=spec)))
    assert "differ by" not in failed

    # Beside an effect that shows, it is the last.
    def both(number, seed, average, metric, lengths, step):
        return 0.4997 + 0.0008 * (number // 8 > 3) + 0.0003 * (number % 8 > 3) + 0.0 * lengths

    values = [
        {"training.learning_rate": 0.001 * (1 + number // 8), "model.dropout": 0.1 * (number % 8)}
        for number in range(64)
    ]
    spec = {"space": {name: {"uniform": [0.0, 0.9]} for name in values[0]}}
    shown = describe_effects(summarize(synthetic_sweep(tmp_path / "two", values, 2, both, spec=spec)))
    first, _, last = shown.partition("; too small to show")
    assert "higher lr is worse (median 0.500 if under" in first and "dropout (medians differ by 0.0003)" in last


def test_missing_effects_are_explained(tmp_path, synthetic_sweep, simple_curve):
    two = summarize(synthetic_sweep(tmp_path / "two", draws(2), 2, noisy))
    assert "2 configurations are too few for an interval (at least 8)" in describe_effects(two)
    spec = {"search.sampler": "listed", "search.listed": draws(4), "space": {}}
    listed = summarize(synthetic_sweep(tmp_path / "listed", draws(4), 8, noisy, spec=spec))
    assert any(effect.differences for effect in compute_score_effects(listed))
    assert describe_effects(listed).endswith("hyperparameters change together, so none can be judged alone.")
    result = summarize(synthetic_sweep(tmp_path / "one", [{}], 3, simple_curve))
    assert "hyperparameter" not in " ".join(make_answers(result) + make_answers(replace(result, status="running")))
    race = replace(result, design=replace(result.design, survivors=True))
    assert "pruned all other" in describe_effects(race) and "compared" not in describe_effects(race)
    running = replace(two, status="running")
    assert "too few" not in describe_effects(running)

    # Before any score there is nothing to say, except that it comes.
    state = synthetic_sweep(tmp_path / "unscored", draws(2), 2, noisy, ended=False, stop_after_step=0)
    unscored = summarize(state)
    assert unscored.status == "interrupted" and describe_effects(unscored) not in make_answers(unscored)
    running = replace(unscored, status="running")
    assert describe_effects(running) in make_answers(running)


def test_the_best_value_of_a_grid_is_named(tmp_path, synthetic_sweep):
    """The second of four rates is better than the first by 0.1, the third by 0.3, the fourth worse by 0.1."""

    def by_rate(number, seed, average, metric, lengths, step):
        return 0.6 - (0.0, 0.1, 0.3, -0.1)[number] + 0.001 * lengths + 0.001 * (seed * (number + 3) % 5)

    rates = [0.001, 0.003, 0.01, 0.03]
    spec = {"search.sampler": "grid", "space": {"training.learning_rate": {"grid": rates}}}
    values = [{"training.learning_rate": rate} for rate in rates]
    result = summarize(synthetic_sweep(tmp_path / "rates", values, 8, by_rate, spec=spec))
    effect = compute_score_effects(result)[0]
    best, first = (f"{effect.medians[value]:.3f} with {value}" for value in ("0.01", "0.001"))
    assert f"lr 0.01 is better than 0.001 (median {best}, {first}; difference -0.3" in describe_effects(result)


def test_every_value_of_a_grid_with_a_clear_difference_is_named(tmp_path, synthetic_sweep):
    """Of the five rates after the first, two are better, two worse, and one is better in every second seed only."""

    def by_rate(number, seed, average, metric, lengths, step):
        shift = (0.0, 0.1, 0.3, 0.01 * (-1) ** seed, -0.1, -0.2)[number]
        return 0.6 - shift + 0.001 * lengths + 0.001 * (seed * (number + 3) % 5)

    rates = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
    for count in (5, 6):
        spec = {"search.sampler": "grid", "space": {"training.learning_rate": {"grid": rates[:count]}}}
        values = [{"training.learning_rate": rate} for rate in rates[:count]]
        result = summarize(synthetic_sweep(tmp_path / str(count), values, 8, by_rate, spec=spec))
        clear, _, rest = describe_effects(result).partition("; inconclusive: ")
        named = re.findall(r"lr ([\d.]+) is (better|worse) than 0.001", clear)
        worse = [("0.1", "worse"), ("0.3", "worse")][: count - 4]
        assert named == [("0.01", "better"), ("0.003", "better"), *worse] and rest == "lr 0.03."


def test_a_value_whose_seeds_failed_has_no_size_and_a_trend_of_a_grid_is_an_effect(tmp_path, synthetic_sweep):
    """The score falls with the rate in every seed, but each rate is no better than the first in one seed at least."""

    def by_rate(number, seed, average, metric, lengths, step):
        is_exception = number == (3 if seed == 7 else 1 + seed % 2)
        return 0.6 - (0.0 if is_exception and number == 3 else -0.01 if is_exception else 0.02 * number) + 0.0 * lengths

    rates = [0.01, 1.0, 3.0, 30.0]
    values = [{"training.learning_rate": rate} for rate in rates]
    spec = {"search.sampler": "grid", "space": {"training.learning_rate": {"grid": rates}}}
    for diverged, died in ((0, 0), (8, 0), (0, 1), (2, 1)):
        lost = {(3, seed): 20 for seed in range(diverged)}
        folder = tmp_path / f"{diverged}_{died}"
        result = summarize(synthetic_sweep(folder, values, 8, by_rate, lost, died=[3] * died, spec=spec))
        (effect,) = compute_score_effects(result)
        kinds = {(8, 0): "diverged", (0, 1): "crashed", (2, 1): "failed (6 crashed, 2 diverged)"}
        text = f"lr 30 is worse than 0.01 (at least half of the seeds with 30 {kinds.get((diverged, died))})"
        if not diverged + died:
            assert effect.high < 0 and all(difference.high >= 0 for difference in effect.differences)
            text = f"higher lr is better (rank correlation {effect.correlation:+#.3g}, 95 % ["
        assert text in describe_effects(result) and "inf" not in describe_effects(result)


@pytest.mark.parametrize(("direction", "word"), [("maximize", "best"), ("minimize", "worst")])
def test_a_best_value_in_the_middle_is_an_effect(tmp_path, synthetic_sweep, direction, word):
    """The score is a tent over the logarithm of the rate, so that its rank correlation is about 0."""
    rates = [10.0 ** (-4 + 2 * (number * 7 % 24) / 23) for number in range(24)]

    def tent(number, seed, average, metric, lengths, step):
        return 0.8 - 0.3 * abs(math.log10(rates[number]) + 3) + 0.002 * seed + 0.0 * lengths

    values = [{"training.learning_rate": rate} for rate in rates]
    spec = {"space": {"training.learning_rate": {"log_uniform": [1e-4, 1e-2]}}, "objective.direction": direction}
    result = summarize(synthetic_sweep(tmp_path / "tent", values, 2, tent, spec=spec))
    (effect,) = compute_score_effects(result)
    assert effect.low < 0 < effect.high and effect.middle.high < -0.8
    inside, outside = (
        statistics.median(row.score for row in result.rows if (6 <= sorted(rates).index(row.values[key]) < 18) == half)
        for key in ("training.learning_rate",)
        for half in (True, False)
    )
    shown = describe_effects(result)
    assert f"lr is {word} in the middle (median {inside:.3f} from " in shown and f", {outside:.3f} outside; " in shown
