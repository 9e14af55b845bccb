"""Trends: what a searched key does to the score, over draws, units of the search or seeds."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from orchestrator.errors import UserError
from orchestrator.results.analysis import compute_score_effects
from orchestrator.results.make_summary import summarize
from orchestrator.statistics.intervals import estimate_correlation
from tests.orchestrator.claims.conftest import Judge, claim
from trainers.config.member import MemberConfig

RANDOM = """\
name: made_up
study: made_up
task: {name: set_complement, vocabulary: 10, train_length: 4, target: sampled}
model: {name: attention_only, width: 8, norm: none, dropout: 0.0}
training: {steps: 100, batch_size: 8, learning_rate: 0.001, averages: {raw: {}}}
space:
  model.dropout: {uniform: [0.0, 0.6]}
  training.learning_rate: {log_uniform: [1.0e-4, 1.0e-2]}
  model.norm: {choice: [none, post]}
search: {sampler: random, configurations: 30}
seeds: 3
evaluation: {every: 50, lengths: [1, 5, 6, 7, 8]}
objective: {metric: total_variation, average: raw, lengths: [5, 6], direction: minimize}
"""
TREND = {"question": "trend", "arms": {"search": {"configurations": "all"}}, "compare": ["search"]}


def noisy(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
    """Larger with dropout, and smaller with post-norm; at the selection lengths the other way round."""
    noise = 0.1 * np.random.default_rng(int(member.model.dropout * 1e9)).normal()
    clean = member.model.dropout - 0.3 * (member.model.norm == "post")
    return float(clean * (-1 if length in (5, 6) else 1) + noise + 0.01 * member.seed)


def test_a_trend_is_the_rank_correlation_of_configurations(judge_claims: Judge) -> None:
    asked = claim(**TREND, key="model.dropout", expect="larger")
    judged = judge_claims(noisy, asked, seeds=3, sweep=RANDOM)["pre_norm"]
    state = judged.sweep.state
    dropouts = [configuration.values["model.dropout"] for configuration in state.configurations.values()]
    posts = [configuration.values["model.norm"] == "post" for configuration in state.configurations.values()]
    noise = [0.1 * np.random.default_rng(int(d * 1e9)).normal() for d in dropouts]
    scores = [d - 0.3 * post + e for d, post, e in zip(dropouts, posts, noise, strict=True)]
    assert judged.answer.effect == pytest.approx(stats.spearmanr(dropouts, scores).statistic, abs=1e-4)
    assert judged.answer.n == 30 and judged.answer.unit == "configurations" and judged.verdict == "held"
    other = judge_claims(noisy, {**asked, "expect": "smaller"}, seeds=3, sweep=RANDOM)["pre_norm"]
    assert other.verdict == "contradicted"


def test_a_trend_with_the_others_held_fixed_is_least_squares_on_ranks(judge_claims: Judge) -> None:
    asked = claim(**TREND, key="model.norm", category="post", hold_others=True)
    judged = judge_claims(noisy, asked, seeds=3, sweep=RANDOM)["pre_norm"]
    assert judged.verdict == "held"
    values = [configuration.values for configuration in judged.sweep.state.configurations.values()]
    post = np.array([assigned["model.norm"] == "post" for assigned in values], dtype=float)
    arm = judged.arms["search"] if judged.arms else None
    scores = [np.median(arm.values.xs(context, level="context")) for context in arm.contexts.values()]

    def ranks(numbers: list[float]) -> np.ndarray:
        return stats.zscore(stats.rankdata(numbers), ddof=1)

    columns = [ranks([assigned[key] for assigned in values]) for key in ("model.dropout", "training.learning_rate")]
    design = np.column_stack([np.ones(30), post, *columns])
    fitted = np.linalg.lstsq(design, ranks(scores), rcond=None)[0]
    assert judged.answer.effect == pytest.approx(fitted[1], rel=0.05)


GRID = RANDOM.replace("model.norm: {choice: [none, post]}", "model.norm: {grid: [none, pre, post]}").replace(
    "configurations: 30", "configurations: 24"
)


def test_a_trend_counts_the_units_of_the_search_as_reports_do(judge_claims: Judge) -> None:
    asked = claim(**TREND, key="model.dropout", expect="larger")
    judgement = judge_claims(noisy, asked, seeds=3, sweep=GRID)["pre_norm"]
    of_report = {effect.key: effect for effect in compute_score_effects(summarize(judgement.sweep.state))}[
        "model.dropout"
    ]
    assert (
        (judgement.answer.n, judgement.answer.unit, judgement.answer.n_trained)
        == (8, "draws", 8)
        == (of_report.n, of_report.unit, 8)
    )
    tpe = RANDOM.replace("sampler: random, configurations: 30", "sampler: tpe, configurations: 30")
    judgement = judge_claims(noisy, asked, seeds=3, sweep=tpe)["pre_norm"]
    assert math.isnan(judgement.answer.low) and judgement.verdict == "not tested"


LISTED = (
    RANDOM.replace("{log_uniform: [1.0e-4, 1.0e-2]}", "{grid: [0.001, 0.002, 0.003, 0.004]}")
    .replace("model.norm: {choice: [none, post]}\n", "model.norm: {grid: [none, post]}\n")
    .replace("  model.dropout: {uniform: [0.0, 0.6]}\n", "")
    .replace("sampler: random, configurations: 30", "sampler: grid")
)


def test_a_trend_over_a_grid_is_taken_seed_by_seed(judge_claims: Judge) -> None:
    def rising(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        up = member.training.learning_rate * (-1 if member.seed == 0 else 1)
        return 0.5 + up + 0.001 * member.seed + 0.1 * (member.model.norm == "post")

    asked = claim(**TREND, key="training.learning_rate", expect="larger")
    judgement = judge_claims(rising, asked, seeds=9, sweep=LISTED)["pre_norm"]
    assert (judgement.answer.effect, judgement.answer.n, judgement.answer.unit) == (1.0, 9, "seeds")
    assert judgement.answer.p == pytest.approx(stats.binomtest(8, 9).pvalue) and judgement.verdict == "held"
    with pytest.raises(UserError, match=r"are compared within seeds.*leave hold_others out"):
        judge_claims(rising, claim(**TREND, key="training.learning_rate", hold_others=True), seeds=9, sweep=LISTED)


def test_a_trend_leaves_out_configurations_in_which_no_seed_learned(judge_claims: Judge) -> None:
    rule = {"metric": "total_variation", "most": 0.1}
    asked = claim(**TREND, key="model.dropout", learned=rule)
    judgement = judge_claims(lambda *_: 0.5, asked, seeds=3, sweep=RANDOM)["pre_norm"]
    assert judgement.verdict_text.startswith("not tested")


def test_p_of_a_correlation_is_below_5_percent_just_where_its_interval_leaves_0_out(judge_claims: Judge) -> None:
    """Two claims with 24 draws, whose interval begins just above 0: undecided after Holm's correction."""
    drawn: dict[float, float] = {}

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return drawn[member.model.dropout]

    sweep = RANDOM.replace("configurations: 30", "configurations: 24")
    asked = [claim(**TREND, id=name, key="model.dropout", expect="larger") for name in ("one", "two")]
    members = judge_claims(noisy, *asked, seeds=3, sweep=sweep)["one"].sweep
    keys = [configuration.values["model.dropout"] for configuration in members.state.configurations.values()]
    ranks, scores_by_low = stats.rankdata(keys), {}
    for seed in range(150):
        scores = ranks * 0.04 + np.random.default_rng(seed).normal(size=24) * 0.6
        if (correlation := estimate_correlation(keys, scores)).low > 0:
            scores_by_low[correlation.low] = scores
    drawn.update(zip(keys, scores_by_low[min(scores_by_low)], strict=True))
    judged = judge_claims(value, *asked, seeds=3, sweep=sweep)["one"]
    assert 0 < judged.answer.low < 0.03 and 0.03 < judged.answer.p < 0.05
    assert judged.holm_p == pytest.approx(2 * judged.answer.p) and judged.verdict == "undecided"


def test_p_with_the_others_held_fixed_is_that_of_least_squares(judge_claims: Judge) -> None:
    sweep = RANDOM.replace("configurations: 30", "configurations: 12")
    asked = claim(**TREND, key="model.dropout", hold_others=True, expect="larger")
    judged = judge_claims(noisy, asked, seeds=3, sweep=sweep)["pre_norm"]
    values = [configuration.values for configuration in judged.sweep.state.configurations.values()]
    arm = judged.arms["search"] if judged.arms else None
    scores = stats.rankdata([np.median(arm.values.xs(context, level="context")) for context in arm.contexts.values()])
    columns = [
        stats.rankdata([assigned[key] for assigned in values]) for key in ("model.dropout", "training.learning_rate")
    ]
    post = [assigned["model.norm"] == "post" for assigned in values]
    fit = OLS(scores, np.column_stack([np.ones(12), *columns, post])).fit()
    assert judged.answer.p == pytest.approx(fit.pvalues[1], rel=1e-6)


@pytest.mark.parametrize(("policy", "n"), [("worst", 30), ("exclude", 30), ("fail", None)])
def test_failed_seeds_count_in_a_trend_as_the_objective_says(judge_claims: Judge, policy: str, n: int | None) -> None:
    """Four of nine seeds fail in configurations with much dropout."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        fails = member.model.dropout > 0.3 and member.seed < 4
        return math.nan if fails else noisy(member, metric, average, length, step)

    sweep = RANDOM.replace("direction: minimize", f"direction: minimize, failed_seeds: {policy}")
    asked = claim(**TREND, key="model.dropout", expect="larger")
    judgement = judge_claims(value, asked, seeds=9, sweep=sweep)["pre_norm"]
    dropouts = [
        configuration.values["model.dropout"] for configuration in judgement.sweep.state.configurations.values()
    ]
    assert judgement.answer.n == (n or sum(dropout <= 0.3 for dropout in dropouts)) < 31


@pytest.mark.parametrize(("sign", "verdict", "ends"), [(1, "contradicted", (0.9, 1.0)), (-1, "held", (-1.0, -0.9))])
def test_a_trend_without_any_noise_is_judged(
    sign: int, verdict: str, ends: tuple[float, float], judge_claims: Judge
) -> None:
    judgement = judge_claims(
        lambda member, *_: 1 + sign * member.model.dropout, claim(**TREND, key="model.dropout"), seeds=3, sweep=RANDOM
    )["pre_norm"]
    assert judgement.verdict_text == verdict and 0 < judgement.answer.p < 1e-6
    assert (judgement.answer.low, judgement.answer.high) == pytest.approx(ends, abs=0.1)
    assert sign in (judgement.answer.low, judgement.answer.high)
