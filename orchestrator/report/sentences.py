"""Write the sentences of a report: what ran, which configuration is best, what mattered, how it was judged.

report.html, the screen and MLflow's note begin with `make_answers`.
"""

import math
import re

from orchestrator.errors import LengthwiseError
from orchestrator.record.state.entities import STOPPED
from orchestrator.record.state.lineage import CONFIRMS, can_add_seeds
from orchestrator.report.confirmation_sentences import describe_confirmation, describe_confirmation_briefly
from orchestrator.report.effect_sentences import describe_effects
from orchestrator.report.tables.columns import Cells
from orchestrator.report.tables.configuration_tables import OTHERS, compute_median_of_others
from orchestrator.report.tables.seed_comparison_table import describe_verdict
from orchestrator.results.analysis import (
    DEPENDENCE_REASONS,
    compare_orders,
    shows_effects,
)
from orchestrator.results.comparing.seed_comparisons import (
    FIRST_TWO,
    GROUPS,
    SeedComparison,
    Side,
    compare_sides,
    make_question,
)
from orchestrator.results.confirmation import make_label, read_search_labels
from orchestrator.results.race_rounds import describe_race
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.results.scoring.evaluation_choice import BEST
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.search_design import count_informed
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN, Estimate, estimate_median
from orchestrator.text.wording import (
    format_command,
    format_count,
    format_label,
    format_lengths,
    format_number,
    format_ranges,
    format_values,
    join_first_few,
)

ENOUGH_SEEDS = 10  # an interval takes 6; with 10 one seed may differ, and a band has up to 25 lengths
MAX_BETTER = 5  # named configurations that are better at the test lengths
MIN_FOR_AGREEMENT = 3  # configurations
STATES = {"complete": "finished", "failed": "finished without a result", "running": "running", STOPPED: STOPPED}
FAILED_SEEDS = {
    "worst": "a failed seed counts as the worst value",
    "exclude": "medians are over the seeds that did not fail",
    "fail": "a configuration with a failed seed fails",
}


def make_answers(summary: Summary, *, with_values: bool = True) -> list[str]:
    """Return sentences on the status, the best configuration, its confirmations, and the effects of hyperparameters.

    An empty sweep has only the status. `with_values` names the searched values of the best configuration. Without it,
    there is room only for the last confirmation, whose scores are named because no table follows. Without a
    confirmation, the first configuration is compared with the next, as report.html does beside its curves.
    """
    # An empty sweep has no best configuration and no effects.
    if not summary.rows:
        return [describe_status(summary)]
    confirmations = read_confirmations(summary)
    sentences = [
        describe_status(summary),
        describe_best(summary, with_values=with_values),
        *(
            describe_confirmation(summary, confirmation, with_scores=not with_values)
            for confirmation in (confirmations if with_values else confirmations[-1:])
        ),
        *(() if with_values or confirmations else describe_lead(summary)),
        *describe_lost(summary),
    ]

    # A confirmation has too few configurations for effects.
    if shows_effects(summary) or not read_search_labels(summary.state.provenance):
        sentences.append(describe_effects(summary, with_values=with_values))
    return sentences


def make_short_answer(summary: Summary) -> str:
    """Return the answer in two or three lines, for a phone; empty before a configuration has a finite score."""
    # Ties have no best configuration.
    ranked = [row for row in summary.rows if row.rank is not None]
    if not ranked or ranked[0].score is None or not math.isfinite(ranked[0].score):
        return ""
    label = make_label(summary.state.provenance, ranked[0].number)
    if len(ranked) > 1 and all(row.score == ranked[0].score for row in ranked):
        return "No configuration is ahead."

    score = format_number(ranked[0].score, summary.infinity_text)
    answer = f"{label} is first{'' if summary.has_ended else ' so far'}, with {summary.judged_name} {score}"
    if (test := ranked[0].test_quartiles) is not None and not math.isnan(test.median):
        at_test = format_lengths(ranked[0].groups.test, "test ")
        answer += f", and {format_number(test.median, summary.infinity_text)} at the {at_test}"

    # The answer of a confirmation replaces or follows that of the search.
    finished = [confirmation for confirmation in read_confirmations(summary) if confirmation.comparison]
    if not finished:
        return f"{answer}. {_describe_lead_briefly(summary)}".strip()
    confirmed = describe_confirmation_briefly(finished[-1])
    return confirmed if read_search_labels(summary.state.provenance) else f"{answer}. {confirmed}"


def describe_status(summary: Summary) -> str:
    """Return the state of the sweep, how many configurations and seeds ran, and how many failed."""
    # The policy decides what failed seeds do to the scores, so it is named beside their number.
    failed = "none failed"
    if summary.seeds_failed:
        crashed = sum(row.seeds_crashed for row in summary.rows)
        policy = FAILED_SEEDS[summary.objective.failed_seeds]
        failed = (
            f"{summary.seeds_failed} failed ({summary.seeds_failed - crashed} diverged, {crashed} crashed; {policy})"
        )

    # Pruned and stopped members have fewer steps on purpose, which is no failure.
    done = summary.complete_configurations
    planned = summary.planned_configurations
    count = (
        format_count(planned, "configuration")
        if done == planned
        else f"{done} of {format_count(planned, 'configuration')}"
    )
    pruned = sum(row.pruned_at is not None for row in summary.rows)
    early = f", {len(summary.stop_steps)} stopped early because they were good enough" if summary.may_stop else ""
    ended = "has ended" if summary.seeds_run == 1 else "have ended"
    ran = ended if summary.status == "running" else "ran"
    return (
        f"{STATES.get(summary.status, summary.status).capitalize()}: {count} with {summary.seeds_in_words}"
        + (f", {pruned} pruned" if pruned else "")
        + f"; {format_count(summary.seeds_run, 'seed')} {ran}, {failed}{early}."
        + (
            f" {summary.state.end_message[:1].upper()}{summary.state.end_message[1:]}."
            if summary.status == "interrupted" and summary.state.end_message
            else ""
        )
        + "".join(f" {warning}." for warning in summary.warnings)
    )


def describe_best(summary: Summary, *, with_values: bool = True) -> str:
    """Return a sentence on the configuration ranked first, with its score and its value at the test lengths."""
    # Before a finite score no configuration is best.
    row = next((row for row in summary.rows if row.rank == 1), None)
    if row is None or row.score is None or not math.isfinite(row.score):
        return (
            "No configuration has a finite score yet."
            if not summary.has_ended
            else "No configuration has a finite score."
        )

    # With equal scores no configuration is best; a tie for the first place is named.
    tied = sum(other.score == row.score for other in summary.rows if other.rank is not None) - 1
    values_text = format_values(row.values, summary.searched) if with_values else ""
    if tied and tied + 1 == sum(other.rank is not None for other in summary.rows) == len(summary.rows):
        return _describe_tie(summary, row.score, len(summary.rows))

    # It was chosen by its score, so the value at the test lengths is shown beside it.
    so_far = "" if summary.has_ended else " so far"
    chosen = (
        f"Best{so_far} at the {format_lengths(summary.objective.lengths, 'selection ')}: "
        f"{make_label(summary.state.provenance, row.number)}, with {_describe_score(summary, row.score)}"
        + (f" though {row.seeds_failed} of its {row.seeds_run} seeds failed" if row.seeds_failed else "")
        + (f", tied with {format_count(tied, 'other')}" if tied else "")
        + (f"; it has {values_text}" if values_text else "")
    )
    if row.test_quartiles is None or not row.groups.test:
        return f"{chosen}; no test lengths were evaluated."
    test_lengths = format_lengths(row.groups.test, "test ")
    if math.isnan(row.test_quartiles.median):
        return f"{chosen}. On the {test_lengths} it has no value."
    sentence = f"{chosen}. On the {test_lengths} it reaches {_describe_test_value(summary, row)}."
    if not with_values or summary.objective.threshold is None or row.generalization_length is None:
        return sentence  # the screen has a column of the reach

    # The reach shows how far the median stays good, which a mean over the test lengths hides.
    reach, longest = row.generalization_length, max(row.groups.test)
    if reach >= longest:
        return f"{sentence} Its median is {describe_threshold(summary)} at every length up to {longest}."
    band = summary.bands[row.config_id, *summary.objective_curve]
    at_longest = format_number(band.median[list(band.lengths).index(longest)], summary.infinity_text)
    return (
        f"{sentence} Its median is {describe_threshold(summary)} up to length {reach}, and {at_longest} at {longest}."
    )


def describe_lead(summary: Summary) -> list[str]:
    """Return sentences that compare the first configuration with the next over their seeds; empty for ties."""
    if (comparison := _compare_lead(summary)) is None:
        return []
    first, second = (summary.by_config_id[config_id] for config_id in (comparison.first, comparison.second))
    leader, rival = format_label(first.number), format_label(second.number)
    outcome = comparison.outcome

    # Too few seeds for an interval need a command for more. An interval favours the first, chosen by the same seeds.
    if outcome.paired and math.isnan(outcome.low) and (more_seeds := make_extend_command(summary)):
        return [f"Against the next, {rival}: {outcome.reason}.", f"More seeds: {more_seeds}"]
    verdict = describe_verdict(comparison, leader, rival, with_metric=False)
    sign = -1 if comparison.question.direction == "minimize" else 1
    is_ahead = sign * outcome.difference > 0  # here, too; it was chosen at the selection lengths
    effect = ", so its lead is on average too large" if is_ahead else ", which favours it"
    favoured = f" The same seeds chose {leader}{effect}."
    is_open = math.isnan(outcome.low) or comparison.verdict == "equal"
    return [f"Against the next: {verdict}{'' if is_open else favoured}"]


def describe_lost(summary: Summary) -> list[str]:
    """Return a sentence on configurations that failed seeds alone rank as the worst; empty if there are none."""
    lost_rows = [
        row
        for row in summary.rows
        if row.seeds_failed and row.score is not None and math.isinf(row.score) and row.is_complete
    ]
    texts = []
    for row in lost_rows:
        if (median := compute_median_of_others(summary, row, summary.objective.lengths)) is not None:
            label = make_label(summary.state.provenance, row.number)
            texts.append(f"{label} ({row.seeds_failed} of {row.seeds_run}; the others reach {format_number(median)})")
    return [f"Last because seeds failed: {join_first_few(texts)}. Effects count them as the worst."] if texts else []


def _describe_lead_briefly(summary: Summary) -> str:
    """Return whether the first configuration is better than the next, without numbers; empty for ties."""
    if (comparison := _compare_lead(summary)) is None:
        return ""
    verdict = "too few seeds" if math.isnan(comparison.outcome.low) else comparison.verdict
    words = {"first": "better, on the seeds that chose it", "second": "worse", "equal": "no difference"}
    rival = format_label(summary.by_config_id[comparison.second].number)
    return f"Against the next, {rival}: {words.get(verdict, verdict)}."


def _compare_lead(summary: Summary) -> SeedComparison | None:
    """Return the comparison of the first configuration with the next over their seeds; None for ties."""
    # If all scores are equal, no configuration is first.
    rows = [row for row in summary.rows if row.is_complete and row.rank is not None]
    if len(rows) < 2 or all(row.score == rows[0].score for row in rows):
        return None
    first, second = (Side(summary, row) for row in rows[:2])
    questions = (make_question(first, second, group) for group in GROUPS)
    question = next((question for question in questions if question.lengths), None)
    if question is None:
        return None

    try:
        return compare_sides(first, second, question, FIRST_TWO)
    except LengthwiseError:  # code that is missing or not trusted; the other answers do not need it
        return None


def _describe_tie(summary: Summary, score: float, count: int) -> str:
    """Return a sentence that all configurations have the same score."""
    tied = f"all {count}" + ("" if summary.has_ended else " so far")
    lengths = format_lengths(summary.objective.lengths, "selection ")
    return f"No configuration is ahead: {tied} have {_describe_score(summary, score)} at the {lengths}."


def _describe_score(summary: Summary, score: float) -> str:
    """Return the objective with its value: "total_variation (ema) 0.0262 (lower is better)"."""
    statistic = "" if summary.objective.seeds == "median" else f"{summary.objective.statistic} of "
    better = "lower" if summary.objective.direction == "minimize" else "higher"
    return f"{statistic}{summary.judged_name} {format_number(score, summary.infinity_text)} ({better} is better)"


def describe_columns(summary: Summary, cells: Cells) -> str:
    """Return a legend of a table of configurations: lengths of each group, quartiles, reach, and infinity if shown."""
    groups = {row.groups for row in summary.rows}
    common = groups.pop() if len(groups) == 1 else None
    lengths = {"trained": common.trained, "selection": summary.objective.lengths, "test": common.test} if common else {}
    parts = [", ".join(f"{name} {format_ranges(group)}" for name, group in lengths.items() if group)]
    if read_search_labels(provenance := summary.state.provenance):
        parts.append(f"labels of {provenance[CONFIRMS]['sweep']}; number: in this sweep, for commands")

    texts = [text for column in cells.values() for text in column]
    parts += ["brackets: quartiles over seeds"] if any(" [" in text for text in texts) else []
    if summary.objective.threshold is not None:
        parts.append(f"reach: up to this length every median is {describe_threshold(summary)}")
    if summary.seeds_failed and summary.objective.failed_seeds == "worst":
        worst = "-inf" if summary.objective.direction == "maximize" else summary.infinity_text
        if any(re.search(rf"(?<![\w-]){worst}(?!\w)", text) for text in texts):
            others = f"; {OTHERS}: the median of the seeds that did not fail"
            has_others = any(f"({OTHERS} " in text for text in texts)
            parts.append(f"{worst}: failed seeds, which count as the worst value{others if has_others else ''}")
    return "; ".join(filter(None, parts))


def _describe_test_value(summary: Summary, row: ConfigurationResult) -> str:
    """Return the median at the test lengths with its 95 % interval, or with quartiles for too few seeds."""
    # Enough seeds have an interval, fewer have quartiles.
    assert row.test_quartiles is not None
    infinity_text = summary.infinity_text
    median_text = format_number(row.test_quartiles.median, summary.infinity_text)
    band = summary.bands[row.config_id, *summary.objective_curve]
    values = band.reduce_seed_curves(row.groups.test, "mean").values()
    if len(values) >= MIN_FOR_MEDIAN and not any(map(math.isnan, values)):
        estimate = estimate_median(values)
        low, high = (format_number(end, infinity_text) for end in (estimate.low, estimate.high))
        return f"{median_text} (95 % interval {low} to {high})"
    q25, q75 = (format_number(value, infinity_text) for value in (row.test_quartiles.q25, row.test_quartiles.q75))
    return f"{median_text} (quartiles {q25} to {q75}; {format_count(len(values), 'seed')})"


def list_judging_notes(summary: Summary) -> list[str]:
    """Return the sentences below the answers: how to continue, counts, the selection, and notes."""
    lines = [*_describe_continuation(summary), *list_count_notes(summary)]
    if not summary.rows:
        return lines

    lines += [describe_selection(summary), *describe_order(summary, complete=True)]
    if summary.objective.threshold is not None:
        lines.append(
            f"Reach: the greatest length at which the median of {summary.judged_name}, there and at every shorter "
            f"length, is {describe_threshold(summary)}"
        )
    if {row.form for row in summary.rows if row.form} == {"table"}:
        lines.append(
            "Logits were computed from a table with a row for each token (model.form: table), which is exact but for "
            "rounding"
        )
    return lines + list(summary.notes)


def describe_threshold(summary: Summary) -> str:
    """Return the threshold of the reach: "at most 0.1"."""
    return f"{'at most' if summary.objective.direction == 'minimize' else 'at least'} {summary.objective.threshold:g}"


def _describe_continuation(summary: Summary) -> list[str]:
    """Return a sentence with the command that continues a sweep; empty if it has ended or is running."""
    if summary.has_ended or summary.status == "running":
        return []
    verb = "status" if summary.status == STOPPED else "resume"
    return [
        f"{'How to continue it' if verb == 'status' else 'Continue it with'}: {format_command(verb, summary.folder)}"
    ]


def make_extend_command(summary: Summary) -> str:
    """Return the command that doubles the seeds, to ENOUGH_SEEDS at least; empty if seeds cannot be added."""
    if not can_add_seeds(summary.state):
        return ""
    return f"{format_command('extend', summary.folder)} --seeds {max(ENOUGH_SEEDS, 2 * len(summary.shared_seeds))}"


def list_count_notes(summary: Summary) -> list[str]:
    """Return sentences on the unit of lengths, on a race, on unequal seeds, and on an adaptive sampler."""
    lines = [] if summary.axis == "length" else [f"Unit of length: {summary.axis}"]
    lines += [describe_race(summary.race)] if summary.race else []
    lines += describe_unequal_seeds(summary)

    # Configurations that tpe drew by results are not independent.
    if summary.state.spec.get("search", {}).get("sampler") == "tpe":
        drawn = len(summary.state.draws)
        informed = count_informed(summary.state)
        lines.append(f"Drawn by tpe: {informed} of {drawn} configurations by results, the others at random")
    return lines


def describe_unequal_seeds(summary: Summary) -> list[str]:
    """Return a sentence on unequal seeds of configurations and their use; empty if all have the same."""
    if not summary.has_unequal_seeds:
        return []
    return [
        f"Configurations have {summary.seeds_in_words} each, not all the same: medians are over the seeds of "
        f"each, effects of hyperparameters and weight averages over the {len(summary.shared_seeds)} common seeds"
    ]


def describe_selection(summary: Summary) -> str:
    """Return a sentence on the metric and lengths of the selection, and on the lengths that did not influence it."""
    metric, average = summary.objective_curve
    objective = summary.objective
    groups = {row.groups for row in summary.rows}
    common = groups.pop() if len(groups) == 1 else None
    unused = "the test lengths, which differ between configurations, were not used for selection"
    if common:
        were = "was" if len(common.test) == 1 else "were"
        unused = f"{format_lengths(common.test)} {were} not used for selection"
    if common and not common.test:
        unused = "no test lengths were evaluated"

    averages = {name for measured in summary.measurements.values() for name in measured.averages}
    average_text = "" if averages == {"raw"} else f" of the {average} average"
    over = f"{objective.reduce} over " if len(objective.lengths) > 1 else "at "
    return (
        f"Selected by {metric}{average_text}, {over}{format_lengths(objective.lengths)}, "
        + ("each seed at its chosen evaluation, " if objective.evaluation == BEST else "")
        + f"{objective.statistic} over seeds ({objective.direction}); {unused}"
        + (f"; {_describe_trained(summary, common)}" if common else "")
    )


def _describe_trained(summary: Summary, common: LengthGroups) -> str:
    """Return the trained lengths of the judged metric, with those that were evaluated (`common.trained`), as text.

    A ledger of 1.0.0 has only the longest trained length, unless all lengths were evaluated.
    """
    # A program may declare no trained lengths; a distribution may not be trained on.
    metric = summary.objective.metric
    first = summary.rows[0].config_id
    distribution = summary.measurements[first].metrics[metric].distribution
    longest = max(measured.longest_trained.get(distribution, 0) for measured in summary.measurements.values())
    if not longest and "program" in summary.state.spec:
        return "the trained lengths are unknown"  # its author may not have declared any
    if not longest:
        return f"no length of {metric} was trained on"

    recorded = {measured.trained.get(distribution, ()) for measured in summary.measurements.values()}
    trained = recorded.pop() if len(recorded) == 1 else ()
    if not trained and summary.state.spec.get("evaluation", {}).get("lengths", "all") == "all":
        trained = common.trained
    if trained and trained == common.trained:
        return f"trained on {format_ranges(trained)}"
    evaluated = f"of these {format_ranges(common.trained) if common.trained else 'none'} evaluated"
    return f"trained on {format_ranges(trained) if trained else f'lengths up to {longest}'}, {evaluated}"


def describe_order(summary: Summary, *, complete: bool = False) -> list[str]:
    """Return a sentence on the agreement of test order and score order; empty for fewer than two configurations.

    With `complete` the configurations that are better than the first at the test lengths are named.
    """
    # An order needs two ranked configurations and common test lengths.
    labels = {
        row.config_id: make_label(summary.state.provenance, row.number)
        for row in summary.rows
        if row.is_complete and row.rank is not None
    }
    if len(labels) < 2:
        return []
    orders = compare_orders(summary)
    if orders is None:
        return [
            "No test lengths were evaluated in all configurations, so it is unknown whether the order by score holds "
            "at other lengths"
        ]

    # If the selection generalizes, no other configuration is better at the test lengths.
    lower = "lower" if summary.objective.direction == "minimize" else "higher"
    scored = " with a score" if any(row.has_failed for row in summary.rows) else ""
    better = orders.better
    several = orders.others > 1
    rest = f"the {orders.others} others{scored}" if several else f"the other configuration{scored}"
    if better:
        subject = f"{len(better)} of {rest}" if several else rest
        gain_text = ("up to " * (len(better) > 1)) + format_number(better[0][1], summary.infinity_text)
        clause = f"{subject} {'is' if len(better) == 1 else 'are'} {lower} there, by {gain_text}"
    else:
        clause = f"none of {rest} is {lower} there" if several else f"{rest} is not {lower} there"
    if complete and better:
        gains = [
            f"{labels[name]} by {format_number(gain, summary.infinity_text)}" for name, gain in better[:MAX_BETTER]
        ]
        gains += [f"{len(better) - MAX_BETTER} more"] if len(better) > MAX_BETTER else []
        clause += f" ({', '.join(gains)}); not used for selection"

    # A correlation of very few configurations would say nothing.
    correlation = [_describe_correlation(orders.correlation)] if orders.others + 1 >= MIN_FOR_AGREEMENT else []
    return [f"Order at the {format_lengths(summary.test_lengths, 'test ')}: {'; '.join([*correlation, clause])}"]


def _describe_correlation(estimate: Estimate) -> str:
    """Return the rank correlation with its interval as text, or why there is none."""
    if math.isnan(estimate.value):
        return f"no rank correlation with the scores ({estimate.reason})"
    ends = "no interval" if math.isnan(estimate.low) else f"95 % [{estimate.low:+.2f}, {estimate.high:+.2f}]"
    why = f": {estimate.reason}" if estimate.reason in DEPENDENCE_REASONS.values() else ""
    return f"rank correlation with the scores {estimate.value:+.2f} ({ends}, {estimate.n} configurations{why})"
