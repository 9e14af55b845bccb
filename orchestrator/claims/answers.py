"""Answer the seven questions of claims from the values of one or two arms."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from orchestrator.claims.arm_values import (
    ArmValues,
    compute_configuration_medians,
    compute_saturated_share,
    compute_seed_medians,
    divide_values,
    pair_arms,
    reaches_threshold,
    replace_failed_by_worst,
    subtract_values,
)
from orchestrator.claims.seed_tests import (
    Answer,
    answer_and_extrapolate,
    answer_mean,
    answer_median,
    answer_rows,
    compute_equivalence_p,
    compute_sign_p,
    cover_answers,
    describe_saturation,
    snap_to_bounds,
)
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.errors import UserError
from orchestrator.results.scoring.search_design import read_design
from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.partial_effects import compute_partial_effects
from orchestrator.statistics.effects.rank_effects import compute_effects
from orchestrator.statistics.intervals import (
    MIN_FOR_CORRELATION,
    MIN_FOR_MEDIAN,
    compute_correlation_p,
)
from orchestrator.statistics.quartiles import Floats
from search_spaces.grammar.claims import Claim


def answer_question(claim: Claim, sweep: SweepCurves, arms: list[ArmValues], *, learned_only: bool) -> Answer:
    """Return the answer to a claim's question over all seeds, or over those that learned in all arms.

    Over all seeds, failed and unlearned seeds count as the worst of all (`replace_failed_by_worst`) and as not
    successful. For a trend they count as the sweep's objective says. A seed that failed or never reached a threshold
    needs infinitely many steps. In an arm relative to another arm, without a worst value, a failed seed may have any
    value.

    Raises UserError for arms whose configurations cannot be paired, and for a trend of a key that was not searched.
    """
    n_trained = max(arm.seeds for arm in arms)
    if learned_only:
        arms = _select_learned(arms)
    elif claim.metric[0].startswith("steps_to_"):
        arms = [replace(arm, values=arm.values.fillna(math.inf)) for arm in arms]
    elif claim.question not in ("trend", "share", "fisher"):
        arms = replace_failed_by_worst(arms)

    answer = _ANSWER_FUNCTIONS[claim.question](claim, sweep, arms)
    return replace(answer, n_trained=n_trained if answer.unit == "seeds" else answer.n_trained)


def _select_learned(arms: list[ArmValues]) -> list[ArmValues]:
    """Return the arms with only the seeds that learned in every configuration of every arm."""
    learned = [arm.is_learned.groupby(level="seed").all() for arm in arms]
    all_learned = pd.concat(learned, axis=1, join="inner").all(axis=1)
    seeds = all_learned.index[all_learned]

    def select_rows(rows: Any) -> Any:
        return rows[rows.index.get_level_values("seed").isin(seeds)]

    return [
        replace(
            arm,
            values=select_rows(arm.values),
            is_learned=select_rows(arm.is_learned),
            is_at_floor=select_rows(arm.is_at_floor),
            is_at_ceiling=select_rows(arm.is_at_ceiling),
        )
        for arm in arms
    ]


def _answer_difference(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer:
    """Answer by the first arm minus the second, seed by seed: the median over seeds and the sign test.

    The claim may instead ask for the mean over seeds and Student's test, or for the median over configurations. An
    interval within the negligible differences has the p-value of an equivalence test. Its null hypothesis, a difference
    that is not negligible, contradicts the null hypothesis of no difference. Saturated pairs do not support
    equivalence (`compute_saturated_share`).
    """
    # A mean is judged by Student's test, which has no test of equivalence.
    bound = claim.no_effect_bound
    differences = subtract_values(*pair_arms(arms))
    if claim.statistic == "mean":
        return answer_rows(answer_mean, differences)
    saturated_share = compute_saturated_share(arms) if bound is not None else 0.0

    # An interval within the bounds shows that there is no effect, so p is then taken from the equivalence test.
    def compute_answer(values: Floats) -> Answer:
        values = values if bound is None else snap_to_bounds(values, -bound, bound)
        answer = answer_median(values, null=0.0)
        if bound is not None and -bound <= answer.low and answer.high <= bound:
            return replace(
                answer,
                p=compute_equivalence_p(values, -bound, bound, saturated_share),
                detail=describe_saturation(saturated_share),
            )
        return answer

    if claim.unit is None:
        return answer_rows(compute_answer, differences)

    # Configurations are independent samples only if they were drawn at random.
    design = read_design(sweep.state)
    if design.kind != "random":
        raise UserError(
            f"sweep {sweep.name}: unit: configurations needs a random search, whose configurations are independent"
        )

    units = compute_configuration_medians(differences)
    return replace(answer_and_extrapolate(compute_answer, units), unit=design.unit, n_trained=len(arms[0].contexts))


def _answer_equivalence(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer:
    """Answer whether two arms, or an arm and `around`, differ by at most `within`.

    An interval outside of this range has the p-value of the sign test against the nearer end.
    """
    # A single arm is compared with `around`.
    rows = arms[0].values
    saturated_share = 0.0
    if len(arms) == 2:
        saturated_share = compute_saturated_share(arms)
        first, second = pair_arms(arms)
        rows = subtract_values(first, second)

    center, half_width = claim.around or 0.0, claim.within or 0.0
    lower, upper = center - half_width, center + half_width

    def compute_answer(values: Floats) -> Answer:
        values = snap_to_bounds(values, lower, upper)
        answer = answer_median(values, null=center)
        if answer.high < lower or answer.low > upper:
            return replace(answer, p=compute_sign_p(values, lower if answer.high < lower else upper))
        return replace(
            answer,
            p=compute_equivalence_p(values, lower, upper, saturated_share),
            detail=describe_saturation(saturated_share),
        )

    return answer_rows(compute_answer, rows)


def _answer_bound(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer:
    """Answer by the median over seeds against a bound."""
    return answer_rows(lambda values: answer_median(values, null=claim.bound or 0.0), arms[0].values)


def _answer_ratio(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer:
    """Answer by the first arm over the second, seed by seed.

    Steps to a threshold are known up to the steps between evaluations, and a seed that never reached it needs more than
    all trained steps. So ratios of steps have a smallest and a largest possible value: the interval covers both, and
    the effect is between their medians.
    """
    first, second = pair_arms(arms)
    null = choose_null(claim)
    if not claim.metric[0].startswith("steps_to_"):
        return answer_rows(lambda values: answer_median(values, null), divide_values(first, second))

    # The smallest ratio divides the minimum of the first by the maximum of the second, the largest vice versa.
    (low_1, high_1), (low_2, high_2) = (
        _bound_steps(steps, arm, sweep) for steps, arm in zip((first, second), arms, strict=True)
    )
    reached = " and ".join(f"{int(np.isfinite(arm.values).sum())} of {len(arm.values)}" for arm in arms)

    def compute_answer(smallest: Floats, largest: Floats) -> Answer:
        covered = cover_answers(answer_median(smallest, null), answer_median(largest, null))
        return replace(covered, detail=f"steps are known to one evaluation; reached by {reached}")

    return answer_and_extrapolate(
        compute_answer,
        compute_seed_medians(divide_values(low_1, high_2)),
        compute_seed_medians(divide_values(high_1, low_2)),
    )


def _bound_steps(
    steps: "pd.Series[float]", arm: ArmValues, sweep: SweepCurves
) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Return the minimum and the maximum of the steps that each seed of an arm may have needed, as two series."""
    intervals = {context: sweep.read_evaluation_interval(config_id) for config_id, context in arm.contexts.items()}
    trained_steps = {context: sweep.steps[config_id] for config_id, context in arm.contexts.items()}
    contexts = steps.index.get_level_values("context")
    return (steps - contexts.map(intervals)).where(np.isfinite(steps), contexts.map(trained_steps)), steps


def _answer_share(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer:
    """Answer by the share of seeds that succeed, with its exact interval (Clopper and Pearson, 1934)."""
    successful = _find_successes(claim, arms[0])
    null = choose_null(claim)

    def compute_answer(successful: NDArray[np.bool_]) -> Answer:
        hits, n = int(successful.sum()), len(successful)
        test = stats.binomtest(hits, n, null)
        low, high = test.proportion_ci(0.95, method="exact")
        return Answer(effect=hits / n, low=low, high=high, p=test.pvalue, null=null, n=n, detail=f"{hits} of {n}")

    return answer_and_extrapolate(compute_answer, successful.to_numpy()) if len(successful) else Answer(null=null)


def _answer_fisher(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer:
    """Answer by the difference of two shares of seeds: Fisher's exact test, Newcombe's interval (1998, method 10)."""
    successes = [_find_successes(claim, arm).to_numpy() for arm in arms]

    def compute_answer(*successful: NDArray[np.bool_]) -> Answer:
        counts = [(int(arm.sum()), len(arm)) for arm in successful]  # successful seeds and all seeds of each arm
        p = stats.fisher_exact([[hits, n - hits] for hits, n in counts]).pvalue

        # Newcombe's interval combines the Wilson intervals of both shares.
        (low_1, high_1), (low_2, high_2) = (
            stats.binomtest(hits, n).proportion_ci(0.95, method="wilson") for hits, n in counts
        )
        first, second = (hits / n for hits, n in counts)
        low = first - second - math.hypot(first - low_1, high_2 - second)
        high = first - second + math.hypot(high_1 - first, second - low_2)
        detail = " against ".join(f"{hits} of {n}" for hits, n in counts)
        return Answer(effect=first - second, low=low, high=high, p=p, n=min(n for _, n in counts), detail=detail)

    return answer_and_extrapolate(compute_answer, *successes) if all(map(len, successes)) else Answer()


def _answer_trend(claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> Answer:
    """Answer by the rank correlation of a searched key with the median over seeds of each configuration.

    `n` counts the independent units of the design of the search, as in reports. With `hold_others` the effect is the
    slope with the other searched keys, except keys of weight averages, held fixed, in standard deviations of ranks.
    """
    # The values of the key are the positions of the trend, so the sweep must have searched it.
    key = str(claim.key)
    arm = arms[0]
    searched = {config_id: dict(sweep.state.configurations[config_id].values) for config_id in arm.config_ids}
    searched_keys = dict.fromkeys(searched_key for values in searched.values() for searched_key in values)
    if key not in searched_keys:
        raise UserError(f"sweep {sweep.name}: {key} was not searched; allowed: {', '.join(searched_keys) or 'none'}")

    # A configuration whose seeds all failed has no value, so the trend leaves it out.
    design = read_design(sweep.state)
    by_context = dict(list(arm.values.groupby(level="context")))
    seed_values: dict[str, dict[int, float]] = {
        config_id: {int(str(seed)): float(value) for seed, value in by_context[context].droplevel("context").items()}
        for config_id, context in arm.contexts.items()
        if context in by_context
    }

    # Differences and ratios of arms have no better direction, so no metrics are named for them.
    definition = claim.arms[arm.name]
    metrics = () if definition.minus or definition.over else definition.metric or claim.metric
    medians = {
        config_id: sweep.compute_median(seed_values.get(config_id, {}).values(), metrics) for config_id in arm.contexts
    }
    is_within_units = design.compares_within_units(key)
    if claim.hold_others:
        answer = _estimate_slope(claim, sweep, design, searched, medians)
    else:
        effect = next(effect for effect in compute_effects(searched, medians, design, seed_values) if effect.key == key)
        p = (
            effect.correlation_p
            if is_within_units
            else compute_correlation_p(effect.correlation, effect.low, effect.high, effect.n)
        )
        answer = Answer(
            effect=effect.correlation, low=effect.low, high=effect.high, p=p, n=effect.n, reason=effect.reason or ""
        )
    return replace(
        answer,
        n_trained=len({design.get_unit(config_id, 0) for config_id in searched}),
        n_needed=MIN_FOR_MEDIAN if is_within_units else MIN_FOR_CORRELATION,
        unit=design.unit,
    )


def _estimate_slope(
    claim: Claim,
    sweep: SweepCurves,
    design: Design,
    searched: Mapping[str, Mapping[str, Any]],
    medians: Mapping[str, float],
) -> Answer:
    """Return the slope of the searched key of a trend with the other searched keys held fixed.

    Raises UserError for a key that is compared within units, and for a category without a chosen value.
    """
    key = str(claim.key)
    if design.compares_within_units(key):
        raise UserError(
            f"sweep {sweep.name}: the values of {key} are compared within {design.unit}, which share the other "
            "keys; leave hold_others out"
        )

    # Weight averages do not change the training, so they need not be held fixed.
    average_keys = {other for values in searched.values() for other in values if ".averages." in other and other != key}
    held_fixed = {
        config_id: {name: value for name, value in values.items() if name not in average_keys}
        for config_id, values in searched.items()
    }
    partial = compute_partial_effects(held_fixed, medians, design)[key]
    slopes = [slope for slope in partial.slopes if claim.category in (None, slope.value)]
    if not partial.slopes:
        return Answer(n=partial.n, reason=partial.reason or "")
    if len(slopes) != 1:
        raise UserError(f"sweep {sweep.name}: {key} is a category; allowed: one of its values as `category`")
    slope = slopes[0]
    return Answer(
        effect=slope.coefficient, low=slope.low, high=slope.high, p=slope.p, n=partial.n, reason=partial.reason or ""
    )


def choose_null(claim: Claim) -> float:
    """Return the value without an effect: the claim's bound, a half of a share, 1 of a ratio, else `around` or 0."""
    if claim.bound is not None:
        return claim.bound
    return {"share": 0.5, "ratio": 1.0}.get(claim.question, claim.around or 0.0)


def _find_successes(claim: Claim, arm: ArmValues) -> "pd.Series[bool]":
    """Return whether each seed succeeds in every configuration of an arm."""
    assert claim.success is not None
    return (reaches_threshold(claim.success, arm.values) & arm.is_learned).groupby(level="seed").all()


_ANSWER_FUNCTIONS: dict[str, Callable[[Claim, SweepCurves, list[ArmValues]], Answer]] = {
    "difference": _answer_difference,
    "equivalence": _answer_equivalence,
    "bound": _answer_bound,
    "ratio": _answer_ratio,
    "share": _answer_share,
    "fisher": _answer_fisher,
    "trend": _answer_trend,
}
