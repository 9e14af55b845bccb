"""Configurations with different numbers of seeds: own medians with their n, pairs and effects over shared seeds."""

from dataclasses import replace

import numpy as np
import pytest

from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.results.analysis import compute_score_effects, compute_test_effects
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.make_summary import summarize

RATES = [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256]


def curve(number, seed, average, metric, lengths, step):
    """Seeds from 4 on turn the order of configurations around, so that they show wherever they count."""
    level = 0.1 + 0.01 * number if seed < 4 else 0.9 - 0.05 * number
    return level + 0.001 * seed + 0.01 * np.maximum(lengths - 5, 0) - (0.005 if average == "ema" and seed < 4 else 0)


@pytest.fixture
def unequal(synthetic_sweep, tmp_path):
    """Nine configurations of seeds 0-3; numbers 0 and 1 have seeds 4-7, too."""
    spec = {"search": {"sampler": "random", "seed": 0, "generation": 8}}
    values = [{"training.learning_rate": rate} for rate in RATES]
    space = {"space": {"training.learning_rate": {"log_uniform": [0.001, 0.5]}}}

    def build(name, seeds):
        return synthetic_sweep(tmp_path / name, values, seeds, curve, spec=spec | space)

    equal, both = build("equal", 4), build("both", 8)
    return equal, both


@pytest.fixture
def results(unequal):
    """The summary of equal seeds, and of the same sweep where two configurations have twice as many."""
    equal, both = unequal
    result, every = summarize(equal), summarize(both)
    more = {row.config_id for row in every.rows if row.number < 2}
    rows = tuple(
        sorted(
            [row for row in every.rows if row.config_id in more] + [r for r in result.rows if r.config_id not in more],
            key=lambda row: row.score,
        )
    )
    rows = tuple(replace(row, rank=rank) for rank, row in enumerate(rows, start=1))
    bands = {key: (every if key[0] in more else result).bands[key] for key in result.bands}
    provenance = {name: (every if name in more else result).provenance[name] for name in result.provenance}
    return result, replace(result, rows=rows, bands=bands, provenance=provenance)


@pytest.mark.slow
def test_effects_are_those_of_the_seeds_that_all_have(results):
    equal, mixed = results
    assert mixed.has_unequal_seeds and not equal.has_unequal_seeds
    assert mixed.shared_seeds == {0, 1, 2, 3}
    scores = {row.number: row.score for row in mixed.rows}
    assert scores[0] > scores[2], "the further seeds of #0 count in its own score"
    for effects in (compute_score_effects, compute_test_effects):
        (then,), (now,) = effects(equal), effects(mixed)
        assert now.correlation == then.correlation == 1.0


def test_pairs_are_of_shared_seeds(results):
    _, mixed = results
    numbers = {row.config_id: row.number for row in mixed.rows}
    comparisons = [comparison for comparison in compare_seeds(mixed) if comparison.question.group == "selection"]
    assert comparisons
    for comparison in comparisons:
        more = [numbers[name] < 2 for name in (comparison.first, comparison.second)]
        assert comparison.outcome.n == (8 if all(more) else 4) and comparison.unmatched == (
            4 if more[0] != more[1] else 0
        )


def test_a_configuration_that_gets_seeds_has_no_score_until_they_ended(unequal):
    state = unequal[0]
    name, other = list(state.configurations)[:2]
    with Ledger.open(state.folder) as ledger:
        fields = {"spec": state.spec, "spec_hash": state.spec_hash, "provenance": {}, "seeds": {name: [4, 5]}}
        for record in (ledger.append("extend", **fields), ledger.append("extend", **fields)):  # the second adds nothing
            state.apply(record)
    for seen in (state, SweepState.load(state.folder)):
        assert (seen.list_planned_seeds(name), seen.list_planned_seeds(other)) == ((0, 1, 2, 3, 4, 5), (0, 1, 2, 3))
        assert [configuration.is_scored for configuration in seen.configurations.values()] == [False] + [True] * 8
        assert not seen.have_all_seeds_ended(seen.configurations[name]) and seen.end_status is None
    rows = {row.config_id: row for row in summarize(state).rows}
    assert rows[name].score is None and rows[other].score is not None
    (note,) = (note for note in summarize(state).notes if note.startswith("Extended"))
    assert note.startswith("Extended 2 times; ") and note.endswith(" 9 configurations and seeds 0-3")
    assert note.index("intervals") < 60  # a terminal has one line of it
