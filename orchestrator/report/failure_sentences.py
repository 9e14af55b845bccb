"""Write the sentences on failed seeds: which configurations they make the worst, and which values they share."""

import math
import re

from orchestrator.record.state.labels import make_label
from orchestrator.record.state.lineage import IMPORTED
from orchestrator.report.tables.configuration_tables import compute_median_of_others
from orchestrator.results.failure_values import MAX_KEYS, describe_shared_values
from orchestrator.results.seed_failures import describe_retry, format_steps
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_number, group_errors, join_first_few

FAILED_SEEDS = {  # by objective.failed_seeds
    "worst": "counted as worst",
    "exclude": "left out of the medians",
    "fail": "their configurations fail",
}
MAX_ERROR = 120  # characters of an error beside the number of failed seeds
_EXIT_CODE = re.compile(r"^exit code -?\d+[^:]*: ")


def describe_failed_count(summary: Summary, *, with_error: bool = True) -> str:
    """Return the number of failed seeds with their kinds, and how the policy counts them: "3 failed (1 diverged ...)".

    `with_error` adds the most frequent error of those that crashed, and the steps at which seeds diverged.
    """
    # The exit code says nothing beside an error; all reasons are further down on the page.
    crashed = sum(row.seeds_crashed for row in summary.rows)
    diverged = summary.seeds_failed - crashed
    errors = [*group_errors((error, pack_id) for pack_id, error in summary.state.failed_packs)]
    text = _EXIT_CODE.sub("", errors[0]) if errors else ""
    reason = _cut_error(text)
    parts = [f"{crashed} crashed"] if crashed else []
    if crashed and reason and with_error:
        parts = [f"{crashed} crashed{', such as' if len(errors) > 1 else ':'} {reason}"]
    steps = {member.failed_at for member in summary.state.members if member.failed_at is not None}
    when = f" at {format_steps(steps)}" if with_error and steps else ""
    parts += [f"{diverged} diverged{when}"] if diverged else []
    return f"{summary.seeds_failed} failed ({'; '.join([*parts, *_describe_policy(summary)])})"


def _describe_policy(summary: Summary) -> list[str]:
    """Return how failed seeds count in medians, as text; empty if all seeds failed."""
    return [] if summary.have_all_failed else [FAILED_SEEDS[summary.objective.failed_seeds]]


def name_kinds(crashed: int, diverged: int) -> str:
    """Return what failed seeds did, as a verb: "crashed", "diverged", or "failed (4 crashed, 10 diverged)"."""
    if crashed and diverged:
        return f"failed ({crashed} crashed, {diverged} diverged)"
    return "crashed" if crashed else "diverged"


def _cut_error(text: str) -> str:
    """Return an error without its last words, or the end of its last long word, if it is longer than MAX_ERROR."""
    if len(text) <= MAX_ERROR:
        return text
    cut = text[: MAX_ERROR - 3]
    words = cut.rpartition(" ")[0]
    return f"{words if 2 * len(words) > MAX_ERROR else cut}..."


def describe_shared(summary: Summary, max_keys: int = MAX_KEYS) -> list[str]:
    """Return sentences on the values of hyperparameters that all crashed, or all diverged, seeds share."""
    return [f"{label.capitalize()}: {text}." for label, text in describe_shared_values(summary.state, max_keys)]


def advise_on_failures(summary: Summary) -> list[str]:
    """Return sentences on what to do about crashed seeds, by which command, and about diverged ones.

    Empty for imported results. A running sweep cannot be resumed, so then only diverged seeds are named.
    """
    if IMPORTED in summary.state.provenance:
        return []
    crashed = sum(row.seeds_crashed for row in summary.rows)
    diverged = summary.seeds_failed - crashed
    sentences = []
    if crashed and summary.status != "running" and (retry := describe_retry(summary.state)):
        sentences.append(f"{retry[0].upper()}{retry[1:]}")
    if diverged:
        seeds, are = ("A diverged seed is a result", "is") if diverged == 1 else ("Diverged seeds are results", "are")
        policy = "".join(f" ({text})" for text in _describe_policy(summary))
        sentences.append(f"{seeds}{policy} and {are} not retried; to run other code, give the sweep another --name.")
    return sentences


def describe_lost(summary: Summary) -> list[str]:
    """Return a sentence on configurations that failed seeds alone rank as the worst; empty if there are none."""
    lost_rows = [
        row
        for row in summary.rows
        if row.seeds_failed and row.score is not None and math.isinf(row.score) and row.is_complete
    ]
    scores = [row.score for row in summary.rows if row.score is not None and math.isfinite(row.score)]
    worst = (max if summary.objective.direction == "minimize" else min)(scores, default=math.nan)
    texts, texts_anyway = list[str](), list[str]()
    for row in lost_rows:
        if (median := compute_median_of_others(summary, row, summary.objective.lengths)) is not None:
            label = make_label(summary.state.provenance, row.number)
            is_last_anyway = median > worst if summary.objective.direction == "minimize" else median < worst
            (texts_anyway if is_last_anyway else texts).append(
                f"{label} ({row.seeds_failed} of {row.seeds_run}; the others reach {format_number(median)})"
            )
    if not texts and not texts_anyway:
        return []

    # Without any finite score there is nothing to be behind. Failed seeds are the cause only if the others would not
    # be last by themselves.
    if not scores:
        return [f"Too many seeds failed for a score: {join_first_few(texts)}."]
    sentences = [f"Last because seeds failed: {join_first_few(texts)}."] if texts else []
    sentences += [f"Last also without the seeds that failed: {join_first_few(texts_anyway)}."] if texts_anyway else []
    return [" ".join([*sentences, "Effects count them as the worst."])]
