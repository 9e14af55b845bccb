"""tpe: what it is told, from when on it learns, and that sweeps recorded before it had a say in that go on as then."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from orchestrator.plan import optuna_draws
from search_spaces import SweepSpec, load_sweep, parse_recorded, parse_sweep

GOLDEN = json.loads((Path(__file__).parent / "golden" / "tpe_draws.json").read_text())
TEXT = """
name: drawn
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: sampled}
model: {name: attention_only, width: 8, norm: none, dropout: 0.0}
training: {steps: 60, batch_size: 8, learning_rate: 0.01, averages: {raw: {}, ema: {decay: 0.9}}}
seeds: 2
objective: {metric: total_variation, average: ema, lengths: [4], direction: minimize}
space:
  training.learning_rate: {log_uniform: [1.0e-5, 1.0]}
  model.dropout: {uniform: [0.0, 0.6]}
search: {sampler: tpe, configurations: 16}
"""


def tpe(*overrides: str) -> SweepSpec:
    return parse_sweep(TEXT, "drawn.yaml", overrides)


def planted(values: dict) -> float:
    """Best, 0, at a learning rate of 1e-2 and a dropout of 0.15."""
    return (math.log10(values["training.learning_rate"]) + 2.0) ** 2 + 10 * (values["model.dropout"] - 0.15) ** 2


def drawn(spec: SweepSpec, score=planted) -> list[dict]:
    """The values of every configuration; `score` is of values and number, or of values alone."""
    results: list[optuna_draws.EarlierResult] = []
    for numbers in optuna_draws.list_generations(spec):
        results += [
            optuna_draws.EarlierResult(values=d.values, score=score(d.values))
            for d in optuna_draws.draw_configurations(spec, numbers, results)
        ]
    return [dict(result.values) for result in results]


def test_opposite_scores_give_different_second_generations() -> None:
    spec = tpe()
    up, down = drawn(spec), drawn(spec, lambda values: -planted(values))
    assert up[:8] == down[:8], "nothing is known yet"
    assert all(a != b for a, b in zip(up[8:], down[8:], strict=True))


def test_startup_says_from_when_on_results_count() -> None:
    for startup, first in ((1, 4), (4, 4), (5, 8), (12, 12), (100, 16)):
        spec = tpe("search.generation=4", f"search.startup={startup}")
        up, down = drawn(spec), drawn(spec, lambda values: -planted(values))
        same = [a == b for a, b in zip(up, down, strict=True)]
        assert same == [True] * first + [False] * (16 - first)
        assert spec.search.count_informed(16) == 16 - first


def test_tpe_beats_random_search_on_a_planted_function() -> None:
    """Twenty repetitions of four generations: the median of the second half, paired by the seed of the search."""

    def late(sampler: str, seed: int) -> float:
        draws = drawn(tpe("search.generation=4", f"search.sampler={sampler}", f"search.seed={seed}"))
        return float(np.median([planted(values) for values in draws[len(draws) // 2 :]]))

    differences = [late("tpe", seed) - late("random", seed) for seed in range(20)]
    assert stats.wilcoxon(differences, alternative="less").pvalue < 0.01
    assert sum(difference < 0 for difference in differences) >= 15


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("lost", [None, math.inf])
def test_tpe_avoids_configurations_that_fail_or_are_infinitely_bad(direction: str, lost) -> None:
    """All learning rates above 1e-3 lose their configuration, and the others are alike."""
    sign = 1.0 if direction == "minimize" else -1.0

    def score(values: dict) -> float | None:
        bad = values["training.learning_rate"] > 1e-3
        return (None if lost is None else sign * lost) if bad else sign * (1.0 + values["model.dropout"])

    later, at_random = [], []
    for seed in range(6):
        spec = tpe(f"objective.direction={direction}", f"search.seed={seed}", "search.configurations=24")
        high_rates = [values["training.learning_rate"] > 1e-3 for values in drawn(spec, score)]
        at_random += high_rates[:8]
        later += high_rates[8:]
    assert np.mean(later) < 0.75 * np.mean(at_random)


def test_tpe_gets_the_worst_score_for_a_failed_configuration() -> None:
    spec, first = tpe(), optuna_draws.draw_configurations(tpe(), range(8))
    scores = [3.0, None, 1.0, 5.0, None, 2.0, 4.0, 6.0]

    def second(spec: SweepSpec, worst: float | None) -> list[optuna_draws.Draw]:
        filled = [worst if score is None else score for score in scores]
        results = [
            optuna_draws.EarlierResult(values=d.values, score=score) for d, score in zip(first, filled, strict=True)
        ]
        return optuna_draws.draw_configurations(spec, range(8, 16), results)

    assert second(spec, None) == second(spec, math.inf) == second(spec, 1e9)
    silent = tpe("search.failed_configurations=ignored", "search.startup=6")
    assert second(silent, None) != second(silent, math.inf)


def test_an_ignored_failed_configuration_does_not_count_as_informed() -> None:
    spec = tpe("search.generation=4", "search.failed_configurations=ignored")
    assert spec.search.count_informed(16) == 12
    assert spec.search.count_informed(16, failed=[1, 9]) == 8
    assert tpe("search.generation=4").search.count_informed(16, failed=[1, 9]) == 12


def test_a_recorded_sweep_draws_as_it_did() -> None:
    spec = parse_recorded(GOLDEN["recorded"], "events.jsonl")
    results: list[optuna_draws.EarlierResult] = []
    for numbers in optuna_draws.list_generations(spec):
        for draw in optuna_draws.draw_configurations(spec, numbers, results):
            score = abs(np.log10(draw.values["training.learning_rate"]) + 2.0)
            lost = None if draw.number % 5 == 3 else math.inf if draw.number == 6 else float(score)
            results.append(optuna_draws.EarlierResult(values=draw.values, score=lost))
    assert [result.values for result in results] == GOLDEN["draws"]
    assert (spec.search.startup, spec.search.failed_configurations) == (10, "ignored")


def test_the_keys_of_tpe_change_no_sweep_that_did_not_have_them(tmp_path: Path) -> None:
    recorded = parse_recorded(GOLDEN["recorded"], "events.jsonl")
    assert recorded == parse_recorded(recorded.resolved(), "again")
    assert "startup" not in tpe("search.sampler=random").resolved()["search"]
    assert tpe().resolved()["search"]["startup"] == 8
    path = tmp_path / "drawn.yaml"
    path.write_text(TEXT)
    assert load_sweep(path).spec_hash != tpe("search.startup=10").spec_hash


def test_too_few_configurations_for_tpe_are_noted() -> None:
    (note,) = tpe("search.configurations=8").notes
    assert "8 are too few for tpe" in note and note.startswith("--set search.configurations=8")
    assert tpe("search.configurations=9").notes == () and tpe("search.sampler=random").notes == ()


def test_keys_that_a_sampler_does_not_read_are_noted_and_change_no_hash() -> None:
    keys = {"generation": "4", "startup": "10", "failed_configurations": "ignored"}
    given = [f"search.{key}={value}" for key, value in keys.items()]
    spec = tpe("search.sampler=random", *given)
    assert spec.notes == tuple(
        f"--set {text}: search.{key}: only tpe reads it, not sampler random"
        for text, key in zip(given, keys, strict=True)
    )
    assert tpe(*given).notes == () and tpe("search.sampler=random", "search.generation=8").notes == ()
