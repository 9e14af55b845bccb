"""Values of categorical keys against each other: as by hand with pandas and scipy; test lengths choose nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.comparing import value_comparisons
from orchestrator.results.comparing.value_comparisons import compare_values
from orchestrator.results.summarise import summary

NORMS, RATES = ("none", "pre", "post"), (0.001, 0.003, 0.01)
SPEC = {
    "space": {"model.norm": {"grid": list(NORMS)}, "training.learning_rate": {"grid": list(RATES)}},
    "search.sampler": "grid",
}
POINTS = [{"model.norm": norm, "training.learning_rate": rate} for norm in NORMS for rate in RATES]


def crossing(number, seed, average, metric, lengths, step):
    """The learning rate that is right at the selection lengths is the worst one at the test lengths; norms differ."""
    norm, rate = divmod(number, 3)
    noise = np.random.default_rng([number, seed]).normal(0, 0.004)
    at_selection, at_test = 0.1 + 0.02 * ((rate - norm) % 3), 0.5 - 0.05 * ((rate - norm) % 3)
    return np.where(lengths > 7, at_test + 0.1 * norm, at_selection + 0.01 * norm) + 0.01 * seed + noise


def by_hand(result):
    """Return the chosen configuration of each norm, and p of each pair, corrected, from the table of curves."""
    curves = read_curves(SweepState.load(result.folder))
    judged = curves[(curves.metric == "total_variation") & (curves.average == "ema") & (curves.step == 100)]
    judged = judged.astype({"config_id": str})
    norm_of = {row.config_id: row.values["model.norm"] for row in result.rows}
    score = judged[judged.length.isin([6, 7])].groupby(["config_id", "seed"]).value.mean().groupby("config_id").median()
    chosen = {norm: min((one for one in score.index if norm_of[one] == norm), key=score.get) for norm in NORMS}
    test = judged[judged.length > 7].groupby(["config_id", "seed"]).value.mean().unstack("seed")
    order = sorted(NORMS, key=lambda norm: score[chosen[norm]])
    p = {}
    for first, second in combinations(order, 2):
        difference = test.loc[chosen[second]] - test.loc[chosen[first]]
        sign_p = stats.binomtest(int((difference < 0).sum()), len(difference)).pvalue
        p[first, second] = sign_p, float(np.median(difference))
    return chosen, p


def holm_by_hand(p):
    """Return every p times the number of those that are at least as large, but never less than a smaller one's."""
    return {
        name: min(1.0, max(other * sum(x >= other for x in p.values()) for other in p.values() if other <= one))
        for name, one in p.items()
    }


def agrees(result):
    (found,) = compare_values(result)
    chosen, p = by_hand(result)
    corrected = holm_by_hand({names: both[0] for names, both in p.items()})
    if {one.value: one.row.config_id for one in found.values} != chosen:
        return False
    for earlier, later, one in found.pairs:
        names = (found.values[earlier].value, found.values[later].value)
        assert one.question.lengths == (8, 9, 10, 11) and one.outcome.paired and one.tests == 3
        assert (one.outcome.p, one.outcome.difference) == pytest.approx(p[names], rel=1e-5)
        assert one.holm_p == pytest.approx(corrected[names])
    return True


@pytest.fixture(scope="module")
def nine(tmp_path_factory, synthetic_sweep):
    return summary(synthetic_sweep(tmp_path_factory.mktemp("built") / "nine", POINTS, 8, crossing, spec=SPEC))


def test_each_value_is_at_its_first_configuration_and_compared_over_seeds(nine):
    assert agrees(nine)
    (found,) = compare_values(nine)
    assert found.key == "model.norm" and [one.configurations for one in found.values] == [3, 3, 3]
    # at the test lengths these are the worst of each norm, and the order is the same: nothing was chosen there
    assert [(one.value, one.row.values["training.learning_rate"]) for one in found.values] == [
        *(("none", 0.001), ("pre", 0.003), ("post", 0.01)),
    ]


def test_a_choice_at_the_test_lengths_would_be_noticed(nine, monkeypatch):
    compare = value_comparisons._compare

    def peeking(result, key, ranked, written):
        by_test = {name: sorted(rows, key=lambda row: row.test.median) for name, rows in ranked.items()}
        return compare(result, key, by_test, written)

    monkeypatch.setattr(value_comparisons, "_compare", peeking)
    value_comparisons.compare_values.cache_clear()
    assert not agrees(nine)
    value_comparisons.compare_values.cache_clear()


def test_numbers_alone_have_no_such_comparison_and_sections_do(tmp_path, synthetic_sweep, simple_curve):
    spec = {"space": {"training.learning_rate": {"grid": list(RATES)}}, "search.sampler": "grid"}
    points = [{"training.learning_rate": rate} for rate in RATES]
    assert compare_values(summary(synthetic_sweep(tmp_path / "n", points, 3, simple_curve, spec=spec))) == ()
    schedules = [{"name": "cosine"}, {"name": "cosine", "warmup": 10}]
    spec = {"space": {"training.schedule": {"grid": schedules}}, "search.sampler": "grid", "training.schedule": {}}
    points = [{"training.schedule": one} for one in schedules]
    result = summary(synthetic_sweep(tmp_path / "s", points, 6, simple_curve, spec=spec))
    (found,) = compare_values(result)
    assert found.key == "training.schedule" and found.values[0].value == {"name": "cosine"}


def test_a_value_without_a_score_is_named(tmp_path, synthetic_sweep, simple_curve):
    points = [{"model.norm": norm} for norm in NORMS]
    spec = {"space": {"model.norm": {"grid": list(NORMS)}}, "search.sampler": "grid"}
    lost = {(1, seed): 10 for seed in range(6)}
    result = summary(synthetic_sweep(tmp_path / "lost", points, 6, simple_curve, lost, spec=spec))
    (found,) = compare_values(result)
    assert found.unranked == ("pre",)
