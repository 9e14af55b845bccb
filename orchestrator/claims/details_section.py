"""Write the folded part of a page: the rules of verdicts, and of every claim its question, registration and arms."""

import math
from collections.abc import Sequence

import numpy as np

from orchestrator.claims.arm_values import ArmValues, compute_seed_medians
from orchestrator.claims.claim_descriptions import (
    describe_bound,
    describe_lengths,
    describe_metrics,
    describe_question,
    format_effect,
    name_effect,
)
from orchestrator.claims.judgement import CONTROL_FAILED, HELD, NOT_LEARNED, Judgement
from orchestrator.claims.markdown import fold, make_markdown_table
from orchestrator.claims.registration import describe_registration, list_changes
from orchestrator.claims.repeated_tests import find_judged_test, group_tests, name_judged_tests, name_tests
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.record.state.lineage import IMPORTED
from orchestrator.record.state.repackings import sum_seconds
from orchestrator.text.wording import (
    NOT_REACHED,
    compact_value,
    format_count,
    format_duration,
    format_number,
    format_ranges,
)
from search_spaces.grammar.claims import Claim, ClaimsFile

VERDICT_RULES = """\
Verdicts are about these sweeps and no others. **held** and **contradicted**: the whole 95 % interval lies on one side
of the null value, and p is below .05 after Holm's correction over every claim that was ever asked on this page. **no
effect within ±x**: the whole interval is that close to 0. **undecided**: tested, but the interval has values on both
sides, or p is too large. **not tested**: the control failed, too few seeds learned the task, or the sweep is missing.
Effects are over all seeds: a seed that failed, or did not learn the task, counts as the worst value of any seed. The
effect over the seeds that learned is shown beside it. Two values at the same end of the metric could hardly differ, so
such a pair is no evidence that there is no effect. Claims of this study are controls, and questions that the paper does
not ask in this form; a claim of this kind may decide a headline. A claim that was asked again has one verdict, over the
seeds of all its tests; if a later test changed more than the seeds, its seeds alone are judged and its text is shown.
Each test counts in the correction. Values at several lengths are averaged. The interval of a median ends at the values
of two seeds and needs at least six seeds; that of a mean is Student's. p is that of the sign test (for no effect, of
two one-sided sign tests), of Student's test for means, and of the exact test for shares; for a search it is that of
least squares or of the interval of the rank correlation. All choices were made at the selection lengths.
"""
ARMS_HEADER = ("claim", "arm", "values", "configuration", "average", "seeds", "median", "mean", "range")


def make_details_section(file: ClaimsFile, judgements: Sequence[Judgement]) -> str:
    """Return the folded part as Markdown: the rules of verdicts, every claim by sweep, and every arm."""
    # Claims about one sweep are grouped, below its size and cost.
    parts = [VERDICT_RULES, describe_bounds(file), describe_removed_claims(file)]
    tests_by_id = {judgement.claim.id: tests for tests in group_tests(judgements) for judgement in tests}
    by_sweep: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_sweep.setdefault(judgement.claim.sweep, []).append(judgement)
    for name, group in by_sweep.items():
        lines = [f"- {describe_judgement(judgement, file, tests_by_id[judgement.claim.id])}" for judgement in group]
        parts.append("\n".join([describe_tested_sweep(name, group[0].sweep, file), "", *lines]))

    # Every arm has a row in one table, because tables are easier to compare than sentences.
    rows = [row for judgement in judgements for row in make_arm_rows(judgement)]
    parts.append(make_markdown_table(ARMS_HEADER, rows) if rows else "")
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts if part)
    return "## Details\n\n" + fold("How a verdict comes about, every question, its registration and its arms", text)


def describe_bounds(file: ClaimsFile) -> str:
    """Return a sentence on the bounds of no effect with their reasons; empty without any."""
    bounds = [
        f"of {describe_metrics([rule.metric])} ±{rule.within:g}, because {rule.because}" for rule in file.no_effect
    ]
    return f"The bound of no effect is {'; '.join(bounds)}." if bounds else ""


def describe_removed_claims(file: ClaimsFile) -> str:
    """Return the claims that were removed from the page, with reasons, as Markdown; empty without any."""
    lines = [f"- {', '.join(group.claims)}: {group.because}" for group in file.removed]
    introduction = f"Asked before and removed since; the correction is over {file.family} claims, these included:"
    return "\n".join([introduction, "", *lines]) if lines else ""


def describe_tested_sweep(name: str, sweep: SweepCurves | None, file: ClaimsFile) -> str:
    """Return a paragraph on size and cost of a sweep, and on its differences from the sweep file."""
    if sweep is None:
        return f"**`{name}`** is not run yet or not finished."

    # Imported results have no training time.
    core_time = f"{format_duration(sum_seconds(sweep.state.packs, sweep.state.repackings))} of one core"
    cost = "imported" if IMPORTED in sweep.state.provenance else core_time
    failures = f", {format_count(sweep.failed_count, 'member')} failed" if sweep.failed_count else ""
    lowest, highest = min(sweep.steps.values()), max(sweep.steps.values())
    steps = f"{lowest:,} steps" if lowest == highest else f"{lowest:,} to {highest:,} steps"
    configurations = format_count(len(sweep.state.configurations), "configuration")
    size = f"{configurations}, {format_count(len(sweep.seeds), 'seed')}{failures}, {steps}"
    paragraph = f"**`{name}`** ({size}; {cost}{_describe_stopped(sweep)})"

    # An edited sweep file no longer describes the sweep that was run.
    if changes := list_changes(sweep.state, file):
        changed = "; ".join(f"{key} was {recorded}, now {current}" for key, recorded, current in changes)
        paragraph += f". The sweep was begun with other values than its file has now: {changed}."
    return paragraph


def describe_judgement(judgement: Judgement, file: ClaimsFile, tests: Sequence[Judgement]) -> str:
    """Return a line of Markdown on a claim: question, registration, effect, other estimates."""
    claim, sweep = judgement.claim, judgement.sweep
    sentences = [f"**{claim.id}**: {describe_question(claim)}"]
    if len(tests) > 1:
        sentences.append(_describe_repeats(tests))

    # The deciding effect comes first, then estimates that decide nothing.
    if sweep is not None:
        shown_before = file.seen.get(claim.sweep, 0)
        registration = describe_registration(claim, sweep.state, sweep.registered, shown_before)
        sentences += [
            f"It was {registration}.",
            f"{name_effect(claim)}{_describe_pooling(judgement)}: {format_effect(claim, judgement.answer)}"
            f"{_describe_p(judgement)}.",
        ]
        if judgement.unpooled_answer is not None:
            sentences.append(f"Over its own seeds alone: {format_effect(claim, judgement.unpooled_answer)}.")
        if judgement.learned_answer is not None:
            sentences.append(f"{_describe_learned(claim)}: {format_effect(claim, judgement.learned_answer)}.")
        if judgement.measured_answer is not None:
            measured = format_effect(claim, judgement.measured_answer)
            sentences.append(f"With the values of unlearned seeds as measured, which decides nothing: {measured}.")
        if judgement.other_statistic_answer is not None:
            name = "Median" if claim.statistic == "mean" else "Mean"
            sentences.append(f"{name} over all seeds: {format_effect(claim, judgement.other_statistic_answer)}.")
    sentences += [" ".join(claim.note.split()), describe_remedy(judgement)]
    return " ".join(sentence for sentence in sentences if sentence)


def _describe_stopped(sweep: SweepCurves) -> str:
    """Return the number of members that stopped early, and after how many of their steps; empty if none did."""
    shares = [
        100 * member.stopped_at / sweep.steps[config_id]
        for config_id, configuration in sweep.state.configurations.items()
        for member in configuration.members.values()
        if member.stopped_at
    ]
    if not shares:
        return ""
    first, last = (format_number(statistic(shares)) for statistic in (min, max))
    count = f"{len(shares)} of {len(sweep.state.members)}"
    span = first if first == last else f"{first} to {last}"
    return f"; {count} members stopped early by their rule, after {span} % of their steps"


def _describe_repeats(tests: Sequence[Judgement]) -> str:
    """Return sentences on the tests of a claim: their number, their changes, and the judged ones."""
    names = ", then ".join(name_tests(tests))
    return f"Asked {len(tests)} times: {names}. Judged by {name_judged_tests(find_judged_test(tests))}."


def _describe_pooling(judgement: Judgement) -> str:
    """Return a note that a seed's value is a median over configurations; empty for a single one, and for a trend."""
    configurations = max((len(arm.config_ids) for arm in (judgement.arms or {}).values()), default=1)
    if configurations == 1 or judgement.claim.question == "trend" or judgement.claim.unit is not None:
        return ""
    nouns = {"difference": "differences", "equivalence": "differences", "ratio": "ratios"}
    is_paired = len(judgement.claim.compare) == 2 and judgement.claim.question in nouns
    quantity = f"its {nouns[judgement.claim.question]}" if is_paired else "it"
    return f", each the median of {quantity} in {configurations} configurations"


def _describe_learned(claim: Claim) -> str:
    """Return the introduction of the effect over seeds that learned the task, with the threshold."""
    assert claim.learned is not None
    rule = claim.learned
    prefixes = {"mean": "", "min": "the smallest ", "max": "the largest "}
    metric = f"{prefixes[rule.reduce]}{describe_metrics(rule.metric)}"
    lengths = describe_lengths(rule.lengths)
    condition = f"{metric} at {lengths} {describe_bound(rule)}"
    return f"Over the seeds that learned the task, with {condition} in every arm, which decides nothing"


def make_arm_rows(judgement: Judgement) -> list[tuple[str, ...]]:
    """Return a row for each arm: configurations, seeds, seeds that learned, median, mean and range over seeds.

    The statistics of a trend are over every configuration and seed.
    """
    claim, sweep = judgement.claim, judgement.sweep
    rows: list[tuple[str, ...]] = []
    if sweep is None:
        return []
    for arm in (judgement.arms or {}).values():
        # A trend is estimated from all members, other questions from a value per seed.
        member_values = arm.values.dropna().to_numpy(dtype=np.float64)
        values = member_values if claim.question == "trend" else compute_seed_medians(arm.values)
        numbers = format_ranges([sweep.state.configurations[config_id].number for config_id in arm.config_ids])
        median, mean, lowest, highest = (
            (format_number(float(statistic(values)), NOT_REACHED) for statistic in (np.median, np.mean, np.min, np.max))
            if len(values)
            else ("-", "-", "-", "-")
        )

        seeds = f"{arm.seeds}, {arm.seeds_learned} learned" if claim.learned else f"{arm.seeds}"
        settings = _describe_configuration(claim, sweep, arm)
        span = f"{lowest} to {highest}"
        rows.append((claim.id, arm.name, settings, f"#{numbers}", arm.average, seeds, median, mean, span))
    return rows


def _describe_configuration(claim: Claim, sweep: SweepCurves, arm: ArmValues) -> str:
    """Return the values that define an arm, and the other searched values if it has only one configuration."""
    # The other values of several configurations differ, so only those that define the arm are shown.
    where = claim.arms[arm.name].where
    settings = [f"{key}: {_format_value(value)}" for key, value in where.items()]
    if len(arm.config_ids) == 1:
        chosen = "chosen " if len(sweep.find_configurations(where)) > 1 else ""
        searched = sweep.state.configurations[arm.config_ids[0]].values
        settings += [f"{chosen}{key}: {_format_value(value)}" for key, value in searched.items() if key not in where]
    return ", ".join(settings) or "any"


def _format_value(value: object) -> str:
    """Return a value, or the values of a list, as text."""
    return " and ".join(map(compact_value, value)) if isinstance(value, list | tuple) else compact_value(value)


def describe_remedy(judgement: Judgement) -> str:
    """Return a sentence with the seeds or settings that would decide a claim; empty for a decided one."""
    if judgement.is_decided or judgement.answer is None:
        return ""
    if judgement.claim.control and judgement.reason.startswith(CONTROL_FAILED):
        return f"It can be tested once {judgement.claim.control} is **{HELD}**."
    if judgement.reason.startswith(NOT_LEARNED):
        return "It can be tested with settings with which more seeds learn the trained lengths."
    return (
        f"{judgement.seeds_needed} fresh seeds, with values like these, would decide it."
        if judgement.seeds_needed
        else ""
    )


def _describe_p(judgement: Judgement) -> str:
    """Return the p-value before and after Holm's correction as text; empty if nothing was tested."""
    if judgement.answer is None or math.isnan(judgement.answer.p) or judgement.reason.startswith(NOT_LEARNED):
        return ""
    corrected = "" if math.isnan(judgement.holm_p) else f", {judgement.holm_p:.2g} after Holm's correction"
    return f"; p = {judgement.answer.p:.2g}{corrected}"
