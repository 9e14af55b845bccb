"""Write the sentences of a report on a confirmation: which configuration is first on fresh seeds, and by how much."""

from orchestrator.report.tables.seed_comparison_table import describe_verdict
from orchestrator.results.confirmation import Confirmation
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_count, format_label, format_number, format_ranges, join_first_few

MAX_SHOWN_SCORES = 3  # scores of configurations


def describe_confirmation(summary: Summary, confirmation: Confirmation, *, with_scores: bool) -> str:
    """Return sentences on a confirmation: which is first on fresh seeds, a comparison there, and both scores.

    Without `with_scores` the scores are shown only instead of an unknown order.
    """
    # A score of the search is partly luck, which the score on fresh seeds beside it shows.
    scores = [
        f"{format_label(row.number)} "
        + (format_number(row.confirmed.median, summary.infinity_text) if row.confirmed else "not ended yet")
        + f" ({format_number(row.search.median, summary.infinity_text)} in the search)"
        for row in confirmation.rows
    ]
    scores_text = join_first_few(scores, MAX_SHOWN_SCORES)
    seeds = _describe_seeds(confirmation)
    standing = _describe_standing(confirmation)
    if standing and summary.name == confirmation.name:
        standing += f" (labels of {confirmation.parent})"
    sentences = [f"Confirmation by {confirmation.name}: on {seeds} {standing or scores_text}."]

    # The verdict comes before the scores, which a terminal may cut. Its metric is named in the answer before.
    if confirmation.comparison:
        first, second = (format_label(row.number) for row in confirmation.rows[:2])
        sentences.append(describe_verdict(confirmation.comparison, first, second, with_metric=False))
    sentences += [f"Scores: {scores_text}."] if standing and with_scores else []

    # Repeat caveats (unfinished, reused seeds, changed code) beside the scores; otherwise the section below is enough.
    has_caveat = confirmation.unfinished or confirmation.reused_seeds or confirmation.changed_code
    return " ".join([*sentences, *([f"{confirmation.sentence}."] if has_caveat else [])])


def describe_confirmation_briefly(confirmation: Confirmation) -> str:
    """Return the answer of a finished confirmation, without numbers: "#8 stays first on fresh seeds 10-19 ...".

    The comparison is of the first two configurations of the search.
    """
    assert confirmation.comparison is not None
    first, second = (format_label(row.number) for row in confirmation.rows[:2])
    verdict = {
        "first": f"{first} is better than {second}",
        "second": f"{second} is better than {first}",
        "equal": f"no difference between {first} and {second}",
    }.get(confirmation.comparison.verdict, f"{first} against {second} is inconclusive")
    if confirmation.comparison.question.direction == "none":
        verdict = verdict.replace("better", "lower")

    # Reused seeds or changed code weaken a confirmation, so even an answer in two lines says it.
    seeds = _describe_seeds(confirmation)
    caveats = ["not independent of the selection"] * bool(confirmation.reused_seeds)
    caveats += ["with other code than the search"] * bool(confirmation.changed_code)
    caveat = f" ({', '.join(caveats)})" if caveats else ""
    standing = _describe_standing(confirmation)
    return f"On {seeds} {standing}; {verdict}{caveat}." if standing else f"On {seeds} {verdict}{caveat}."


def describe_confirmed_pair(confirmation: Confirmation) -> str:
    """Return the comparison of the search's first two configurations on fresh seeds, as a sentence."""
    assert confirmation.comparison is not None
    first, second = (format_label(row.number) for row in confirmation.rows[:2])
    seeds = _describe_seeds(confirmation)
    verdict = describe_verdict(confirmation.comparison, first, second, with_metric=False)
    return f"On {seeds}: {verdict[0].lower()}{verdict[1:]}"


def _describe_seeds(confirmation: Confirmation) -> str:
    """Return the seeds of a confirmation as text: "fresh seeds 10-19"."""
    return f"{'other' if confirmation.reused_seeds else 'fresh'} seeds {format_ranges(confirmation.seeds)}"


def _describe_standing(confirmation: Confirmation) -> str:
    """Return as text whether the search's first configuration is first in its confirmation; empty if unknown."""
    leaders = confirmation.leaders
    first = confirmation.rows[0]
    if len(confirmation.rows) < 2 or not leaders:
        return ""
    if first not in leaders:
        names = ", ".join(format_label(row.number) for row in leaders)
        return f"{names} {'is' if len(leaders) == 1 else 'are'} first instead of {format_label(first.number)}"
    tied = f", tied with {format_count(len(leaders) - 1, 'other')}" if len(leaders) > 1 else ""
    return f"{format_label(first.number)} stays first{tied}"
