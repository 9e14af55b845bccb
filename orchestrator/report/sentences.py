"""Write the answers of a report: what ran, which configuration is best, and what mattered.

report.html, the screen and MLflow's note begin with `make_answers`.
"""

import math

from orchestrator.record.state.entities import STOPPED_BY_BUDGET
from orchestrator.record.state.labels import make_label
from orchestrator.report.confirmation_sentences import describe_confirmation, describe_confirmation_briefly
from orchestrator.report.effect_sentences import describe_effects
from orchestrator.report.failure_sentences import describe_failed_count, describe_lost, describe_shared
from orchestrator.report.judging_notes import describe_threshold
from orchestrator.report.lead_sentences import describe_lead, describe_lead_briefly
from orchestrator.results.analysis import shows_effects
from orchestrator.results.confirmation import read_search_labels
from orchestrator.results.failure_values import MAX_KEYS
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.results.sweep_status import shorten_end_message
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN, estimate_median
from orchestrator.text.wording import (
    describe_better,
    format_count,
    format_lengths,
    format_number,
    format_values,
)

STATES = {
    "complete": "finished",
    "failed": "finished without a result",
    "running": "running",
    STOPPED_BY_BUDGET: STOPPED_BY_BUDGET,
}


def make_answers(summary: Summary, *, with_values: bool = True, with_lead: bool = False) -> list[str]:
    """Return sentences on the status, the best configuration, its confirmations, and the effects of hyperparameters.

    An empty sweep has only the status. `with_values` names the searched values of the best configuration. Without it,
    there is room only for the last confirmation, whose scores are named because no table follows, and for one
    hyperparameter of failed seeds, whose errors are named below the table. `with_lead` compares the first configuration
    of a sweep without a confirmation with the next, as report.html does beside its curves.
    """
    # An empty sweep has no best configuration and no effects.
    if not summary.rows:
        return [describe_status(summary, with_error=with_values)]
    confirmations = read_confirmations(summary)
    lost = describe_lost(summary)
    has_score = any(row.score is not None and math.isfinite(row.score) for row in summary.rows)
    sentences = [
        describe_status(summary, with_error=with_values),
        *(() if lost and not has_score and with_values else [describe_best(summary, with_values=with_values)]),
        *(
            describe_confirmation(summary, confirmation, with_scores=not with_values)
            for confirmation in (confirmations if with_values else confirmations[-1:])
        ),
        *(describe_lead(summary) if with_lead and not confirmations else ()),
        *(lost if with_values else ()),
        *describe_shared(summary, MAX_KEYS if with_values else 1),
    ]

    # A confirmation has too few configurations for effects, a sweep of one configuration has none to ask for. A sweep
    # without a score, which another sentence says, may still get one while it runs.
    is_search = summary.planned_configurations > 1 and not read_search_labels(summary.state.provenance)
    may_score = not lost and summary.status == "running"
    if (has_score or may_score) and (shows_effects(summary) or is_search):
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
    answer += f" ({describe_better(summary.objective.direction)})"
    if (test := ranked[0].test_quartiles) is not None and not math.isnan(test.median):
        at_test = format_lengths(ranked[0].groups.test, "test")
        answer += f", and {format_number(test.median, summary.infinity_text)} at the {at_test}"

    # The answer of a confirmation replaces or follows the answer of the search.
    finished = [confirmation for confirmation in read_confirmations(summary) if confirmation.comparison]
    if not finished:
        return f"{answer}. {describe_lead_briefly(summary)}".strip()
    confirmed = describe_confirmation_briefly(finished[-1])
    return confirmed if read_search_labels(summary.state.provenance) else f"{answer}. {confirmed}"


def describe_status(summary: Summary, *, with_error: bool = True) -> str:
    """Return the state of the sweep, how many configurations and seeds ran, how many failed, and the first error."""
    # The policy decides what failed seeds do to the scores, so it is named beside their number.
    failed = describe_failed_count(summary, with_error=with_error) if summary.seeds_failed else "none failed"

    # Pruned and stopped members have fewer steps on purpose, which is no failure.
    done = summary.complete_configurations
    planned = summary.planned_configurations
    count = (
        format_count(planned, "configuration")
        if done == planned
        else f"{done} of {format_count(planned, 'configuration')}"
    )
    pruned = sum(row.pruned_at is not None for row in summary.rows)
    stopped = f", {len(summary.stop_steps)} stopped early because they were good enough"
    early = stopped if summary.has_early_stops else ""
    extended = " (extended)" if len(summary.state.specs) > 1 else ""  # a note says what this means for intervals
    ended = "has ended" if summary.seeds_run == 1 else "have ended"
    ran = ended if summary.status == "running" else "ran"
    return (
        f"{STATES.get(summary.status, summary.status).capitalize()}: {count} with {summary.seeds_in_words}{extended}"
        + (f", {pruned} pruned" if pruned else "")
        + (f"; {format_count(summary.seeds_run, 'seed')} {ran}, {failed}{early}." if summary.seeds_run else "")
        + ("" if summary.seeds_run else "; no seed has ended.")
        + (
            f" {end_message[:1].upper()}{end_message[1:]}."
            if summary.status == "interrupted" and (end_message := shorten_end_message(summary.state))
            else ""
        )
        + "".join(f" {warning}." for warning in summary.warnings)
    )


def describe_best(summary: Summary, *, with_values: bool = True) -> str:
    """Return a sentence on the configuration ranked first, with its score and its value at the test lengths."""
    # Before a finite score no configuration is best.
    row = summary.first
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
        f"Best{so_far} at the {format_lengths(summary.objective.lengths, 'selection')}: "
        f"{make_label(summary.state.provenance, row.number)}, with {_describe_score(summary, row.score)}"
        + (f" though {row.seeds_failed} of its {row.seeds_run} seeds failed" if row.seeds_failed else "")
        + (f", tied with {format_count(tied, 'other')}" if tied else "")
        + (f"; it has {values_text}" if values_text else "")
    )

    # Test lengths may be missing, have no value, or be the same for all configurations.
    if row.test_quartiles is None or not row.groups.test:
        return f"{chosen}; no test lengths were evaluated."
    test_lengths = format_lengths(row.groups.test, "test")
    if math.isnan(row.test_quartiles.median):
        return f"{chosen}. On the {test_lengths} it has no value."
    sentence = f"{chosen}. On the {test_lengths} it reaches {_describe_test_value(summary, row)}."
    if _are_equal_at_test_lengths(summary):
        return f"{sentence} So do all others, so these lengths cannot tell them apart."
    if not with_values or summary.objective.threshold is None or row.generalization_length is None:
        return sentence  # the screen has a column of the reach

    # The reach shows how far the median stays good, which a mean over the test lengths hides.
    reach, longest = row.generalization_length, max(row.groups.test)
    if reach >= longest:
        return f"{sentence} Its median is {describe_threshold(summary)} at every length up to {longest}."
    band = summary.find_judged_band(row)
    assert band is not None
    at_longest = format_number(band.median[list(band.lengths).index(longest)], summary.infinity_text)
    return (
        f"{sentence} Its median is {describe_threshold(summary)} up to length {reach}, and {at_longest} at {longest}."
    )


def _are_equal_at_test_lengths(summary: Summary) -> bool:
    """Return whether at least two configurations have results, and all have the same quartiles at the test lengths."""
    quartiles = [row.test_quartiles for row in summary.rows if row.rank is not None]
    return len(quartiles) > 1 and quartiles[0] is not None and all(other == quartiles[0] for other in quartiles)


def _describe_tie(summary: Summary, score: float, count: int) -> str:
    """Return a sentence that all configurations have the same score."""
    tied = ("both" if count == 2 else f"all {count}") + ("" if summary.has_ended else " so far")
    lengths = format_lengths(summary.objective.lengths, "selection")
    return f"No configuration is ahead: {tied} have {_describe_score(summary, score)} at the {lengths}."


def _describe_score(summary: Summary, score: float) -> str:
    """Return the objective with its value: "total_variation (ema) 0.0262 (lower is better)"."""
    statistic = "" if summary.objective.seeds == "median" else f"{summary.objective.statistic} of "
    value = format_number(score, summary.infinity_text)
    return f"{statistic}{summary.judged_name} {value} ({describe_better(summary.objective.direction)})"


def _describe_test_value(summary: Summary, row: ConfigurationResult) -> str:
    """Return the median at the test lengths with its 95 % interval, or with quartiles for too few seeds."""
    # Enough seeds have an interval, fewer have quartiles.
    band = summary.find_judged_band(row)
    assert row.test_quartiles is not None and band is not None
    infinity_text = summary.infinity_text
    median_text = format_number(row.test_quartiles.median, summary.infinity_text)
    values = band.reduce_seed_curves(row.groups.test, "mean").values()
    if len(values) >= MIN_FOR_MEDIAN and not any(map(math.isnan, values)):
        estimate = estimate_median(values)
        low, high = (format_number(end, infinity_text) for end in (estimate.low, estimate.high))
        return f"{median_text} (95 % interval {low} to {high})"

    # An infinite quartile comes from failed seeds, whose number is in the sentence before.
    ends = {"lower": row.test_quartiles.q25, "upper": row.test_quartiles.q75}
    texts = {name: format_number(end, infinity_text) for name, end in ends.items()}
    quartiles = [f"quartiles {texts['lower']} to {texts['upper']}"]
    if any(map(math.isinf, ends.values())):
        quartiles = [f"{name} quartile {texts[name]}" for name, end in ends.items() if math.isfinite(end)]
    return f"{median_text} ({'; '.join([*quartiles, format_count(len(values), 'seed')])})"
