"""Write the notes below the answers of a report: how it was judged, counts, order at the test lengths, legends."""

import math
import re
from collections.abc import Sequence

from orchestrator.record.state.entities import STOPPED_BY_BUDGET
from orchestrator.record.state.labels import make_label
from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.report.tables.columns import Cells
from orchestrator.report.tables.configuration_tables import OTHERS, format_ranks
from orchestrator.results.analysis import (
    DEPENDENCE_REASONS,
    compare_orders,
)
from orchestrator.results.confirmation import read_search_labels
from orchestrator.results.race_rounds import describe_race
from orchestrator.results.scoring.evaluation_choice import BEST
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.search_design import count_informed
from orchestrator.results.summary import Summary
from orchestrator.statistics.intervals import Estimate
from orchestrator.text.wording import (
    format_command,
    format_lengths,
    format_number,
    format_ranges,
)

MAX_BETTER = 5  # named configurations that are better at the test lengths
MIN_FOR_AGREEMENT = 3  # configurations


def describe_columns(summary: Summary, cells: Cells) -> str:
    """Return a legend of a table of configurations: lengths of each group, quartiles, reach, and infinity if shown."""
    # Lengths that differ between configurations have no common legend.
    common_groups = summary.common_groups
    parts = []
    if common_groups and not cells.keys().isdisjoint(("trained", "selection", "test")):
        trained = _find_trained_lengths(summary, common_groups) or common_groups.trained
        texts = [f"trained {format_trained(trained, common_groups.trained)}"] if trained else []
        lengths = {"selection": summary.objective.lengths, "test": common_groups.test}
        parts += texts + [f"{name} {format_ranges(group)}" for name, group in lengths.items() if group]
    if read_search_labels(provenance := summary.state.provenance):
        parts.append(f"labels of {provenance[CONFIRMS]['sweep']}; number: what commands on this sweep take")

    # A symbol is explained only if the table shows it.
    texts = [text for column in cells.values() for text in column]
    parts += ["brackets: quartiles over seeds"] if any(" [" in text for text in texts) else []
    ranks = cells.get("rank", format_ranks(summary).values())
    tied = next((rank for rank in ranks if rank.endswith("=")), "")
    parts += [f"{tied}: equal scores"] if tied else []
    if summary.objective.threshold is not None and "reach" in cells:
        parts.append(f"reach: up to this length every median is {describe_threshold(summary)}")
    if summary.seeds_failed and summary.objective.failed_seeds == "worst":
        worst = "-inf" if summary.objective.direction == "maximize" else summary.infinity_text
        if any(re.search(rf"(?<![\w-]){worst}(?!\w)", text) for text in texts):
            parts.append(f"{worst}: failed seeds, which count as the worst value")
        if any(f"{OTHERS} " in text for text in texts):
            parts.append(f"{OTHERS}: the median of the seeds that did not fail")
    return "; ".join(filter(None, parts))


def list_judging_notes(summary: Summary) -> list[str]:
    """Return the sentences below the answers: how to continue, counts, the selection, and notes."""
    lines = [*_describe_continuation(summary), *list_count_notes(summary)]
    if not summary.rows or summary.have_all_failed:
        return lines + list(summary.notes)

    lines += [describe_selection(summary), *describe_order(summary, complete=True)]
    if summary.objective.threshold is not None:
        lines.append(
            f"Reach: the greatest length at which the median of {summary.judged_name}, there and at every shorter "
            f"length, is {describe_threshold(summary)}"
        )
    if {row.form for row in summary.rows if row.form} == {"table"}:
        lines.append("The model was computed by a faster formula (model.form: table): the same results up to rounding")
    return lines + list(summary.notes)


def describe_threshold(summary: Summary) -> str:
    """Return the threshold of the reach: "at most 0.1"."""
    return f"{'at most' if summary.objective.direction == 'minimize' else 'at least'} {summary.objective.threshold:g}"


def _describe_continuation(summary: Summary) -> list[str]:
    """Return a sentence with the command that continues a sweep; empty if it has ended or is running."""
    if summary.has_ended or summary.status == "running":
        return []
    verb = "status" if summary.status == STOPPED_BY_BUDGET else "resume"
    purpose = "To see how to continue" if verb == "status" else "Continue it with"
    return [f"{purpose}: {format_command(verb, summary.folder)}"]


def list_count_notes(summary: Summary) -> list[str]:
    """Return sentences on the unit of lengths, on a race, on unequal seeds, and on an adaptive sampler."""
    lines = [] if summary.axis == "length" else [f"Unit of length: {summary.axis}"]
    lines += [describe_race(summary.race)] if summary.race else []
    lines += describe_unequal_seeds(summary)

    # Configurations that tpe drew by results are not independent.
    if summary.state.spec.get("search", {}).get("sampler") == "tpe":
        drawn = len(summary.state.draws)
        informed = count_informed(summary.state)
        lines.append(
            f"Sampler tpe: {informed} of {drawn} configurations were chosen from earlier results, the others at random"
        )
    return lines


def describe_unequal_seeds(summary: Summary) -> list[str]:
    """Return a sentence on unequal seeds of configurations and their use; empty if all have the same."""
    if not summary.has_unequal_seeds:
        return []
    return [
        f"Configurations have different seeds ({summary.seeds_in_words} each): medians are over a configuration's own "
        f"seeds, effects of hyperparameters and weight averages over the {len(summary.shared_seeds)} common seeds"
    ]


def describe_selection(summary: Summary) -> str:
    """Return a sentence on the metric and lengths of the selection, and on the lengths that did not influence it."""
    # Readers must see that the test lengths are a fair test: the selection has not used them.
    metric, average = summary.objective_curve
    objective, common_groups = summary.objective, summary.common_groups
    unused = "the test lengths, which differ between configurations, were not used for selection"
    if common_groups:
        were = "was" if len(common_groups.test) == 1 else "were"
        unused = f"{format_lengths(common_groups.test)} {were} not used for selection"
    if common_groups and not common_groups.test:
        unused = "no test lengths were evaluated"

    # Details that every sweep of this kind shares are left out: the only average, one length, the last evaluation.
    averages = {name for measurements in summary.measurements.values() for name in measurements.averages}
    average_text = "" if averages == {"raw"} else f" of the {average} average"
    over = f"{objective.reduce} over " if len(objective.lengths) > 1 else "at "
    return (
        f"Selected by {metric}{average_text}, {over}{format_lengths(objective.lengths)}, "
        + ("each seed at its chosen evaluation, " if objective.evaluation == BEST else "")
        + f"{objective.statistic} over seeds ({objective.direction}); {unused}"
        + (f"; {_describe_trained(summary, common_groups)}" if common_groups else "")
    )


def _describe_trained(summary: Summary, common_groups: LengthGroups) -> str:
    """Return the trained lengths of the judged metric as text, with those that were evaluated (in `common_groups`).

    A ledger of 1.0.0 has only the longest trained length, unless all lengths were evaluated.
    """
    # A program may declare no trained lengths; a distribution may not be trained on.
    metric = summary.objective.metric
    first = summary.rows[0].config_id
    distribution = summary.measurements[first].metrics[metric].distribution
    longest = max(measurements.longest_trained.get(distribution, 0) for measurements in summary.measurements.values())
    if not longest and "program" in summary.state.spec:
        return "the trained lengths are unknown"  # its author may not have declared any
    if not longest:
        return f"no length of {metric} was trained on"

    trained = _find_trained_lengths(summary, common_groups)
    if trained:
        return f"trained on {format_trained(trained, common_groups.trained)}"
    return f"trained on lengths up to {longest} ({_format_evaluated(common_groups.trained)})"


def _find_trained_lengths(summary: Summary, common_groups: LengthGroups) -> tuple[int, ...]:
    """Return the trained lengths of the judged metric, evaluated or not.

    Empty if they differ between configurations, and in ledgers of 1.0.0, unless all lengths were evaluated.
    """
    metric = summary.objective.metric
    recorded = {measurements.get_trained_lengths(metric) for measurements in summary.measurements.values()}
    if len(recorded) == 1 and (trained := recorded.pop()):
        return trained
    are_all_evaluated = summary.state.spec.get("evaluation", {}).get("lengths", "all") == "all"
    return common_groups.trained if are_all_evaluated else ()


def format_trained(trained: Sequence[int], evaluated: Sequence[int]) -> str:
    """Return trained lengths as text, with the evaluated ones if these are fewer: "2-6 (evaluated at 4, 6)"."""
    return format_ranges(trained) + ("" if trained == evaluated else f" ({_format_evaluated(evaluated)})")


def _format_evaluated(lengths: Sequence[int]) -> str:
    return f"evaluated at {format_ranges(lengths)}" if lengths else "none evaluated"


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
    scored = " with a score" if any(row.has_failed for row in summary.rows) else ""
    better = orders.better
    several = orders.others > 1
    rest = f"the {orders.others} others{scored}" if several else f"the other configuration{scored}"
    if better:
        subject = f"{len(better)} of {rest}" if several else rest
        clause = f"{subject} {'is' if len(better) == 1 else 'are'} better there by the medians"
    else:
        clause = f"none of {rest} is better there" if several else f"{rest} is not better there"
    if better and not complete:
        clause += f", by {'up to ' if len(better) > 1 else ''}{format_number(better[0][1], summary.infinity_text)}"
    elif better:
        gains = [
            f"{labels[name]} by {format_number(gain, summary.infinity_text)}" for name, gain in better[:MAX_BETTER]
        ]
        gains += [f"{len(better) - MAX_BETTER} more"] if len(better) > MAX_BETTER else []
        clause += f" ({', '.join(gains)}); not used for selection"

    # A correlation of very few configurations would say nothing.
    has_correlation = orders.others + 1 >= MIN_FOR_AGREEMENT
    where = format_lengths(summary.test_lengths, "test")
    if has_correlation and not better and orders.correlation.value > 1 - 1e-9:
        return [f"At the {where} the {orders.others + 1} configurations have the same order as by score"]
    correlation = [_describe_correlation(orders.correlation)] if has_correlation else []
    return [f"Order at the {where}: {'; '.join([*correlation, clause])}"]


def _describe_correlation(estimate: Estimate) -> str:
    """Return the rank correlation with its interval as text, or why there is none."""
    if math.isnan(estimate.value):
        return f"no rank correlation with the order by score ({estimate.reason})"
    ends = "no interval" if math.isnan(estimate.low) else f"95 % [{estimate.low:+.2f}, {estimate.high:+.2f}]"
    why = f": {estimate.reason}" if estimate.reason in DEPENDENCE_REASONS.values() else ""
    return f"rank correlation with the order by score {estimate.value:+.2f} ({ends}, {estimate.n} configurations{why})"
