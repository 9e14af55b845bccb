"""The sentences above the tables of a report: how far the sweep is, how it was judged, and its best configuration."""

import math
import statistics
from collections.abc import Sequence

from orchestrator.record.state.parts import STOPPED
from orchestrator.results.analysis import DEPENDENT, compare_orders
from orchestrator.results.race_rounds import race_sentence
from orchestrator.results.scoring.evaluation_choice import BEST
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.search_design import count_informed
from orchestrator.results.summary import Summary
from orchestrator.statistics.intervals import Estimate
from orchestrator.wording import command, describe_deaths, label, lengths_in_words, spans, three_digits

MOST_NAMED = 5  # configurations that are better at the test lengths
FEWEST_ORDERED = 3  # configurations from which on their order has a correlation
FAILED_SEEDS = {
    "worst": "a failed seed counts as the worst value",
    "exclude": "medians are over the seeds that did not fail",
    "fail": "a configuration with a failed seed fails",
}


def headlines(result: Summary) -> list[str]:
    """Return all sentences above the tables."""
    lines = [state_sentence(result), *count_sentences(result)]
    if not result.rows:
        return lines
    lines += [selection_sentence(result), *order_sentence(result, complete=True)]
    if result.objective.threshold is not None:
        lines.append(
            f"Reach: the greatest length at which the median of {result.judged_name}, there and at every shorter "
            f"length, is {threshold_words(result)}"
        )
    forms = {row.form for row in result.rows if row.form}
    if len(forms) == 1 and forms != {"program"}:
        lines.append(f"Form of the trained program: {forms.pop()}")
    return lines + list(result.notes)


def threshold_words(result: Summary) -> str:
    """Return the threshold of the reach in words: "at most 0.1"."""
    return f"{'at most' if result.objective.direction == 'minimize' else 'at least'} {result.objective.threshold:g}"


def state_sentence(result: Summary) -> str:
    """Return the state of the sweep; if neither finished nor running, with the command to continue it or to see how."""
    known = {"complete": "finished", "failed": "finished, and no configuration succeeded", "running": "running"}
    known[STOPPED] = f"{STOPPED}; how to continue it: {command('status', result.folder)}"
    why = f": {result.state.message}" if result.state.message else ""
    state = known.get(result.status, f"{result.status}{why}; continue it with: {command('resume', result.folder)}")
    return f"Sweep {result.name} (study {result.state.study}): {state}"


def count_sentences(result: Summary) -> list[str]:
    """Return how many configurations and seeds have ended, stopped early or failed, and which packs died."""
    line = (
        f"{result.configurations_finished} of {result.planned} configurations have all their seeds; "
        f"seeds ended: {result.seeds_run}, failed: {result.seeds_failed}"
    )
    if result.seeds_failed:
        diverged = result.seeds_failed - result.seeds_crashed
        policy = FAILED_SEEDS[result.objective.failed_seeds]
        line += f" ({policy}); crashed: {result.seeds_crashed}, diverged: {diverged}"
    axis = [] if result.axis == "length" else [f"Lengths count: {result.axis}"]
    lines = [line, *axis, *([race_sentence(result.race)] if result.race else []), *unequal_seeds(result)]
    if result.may_stop:
        stopped = f"{len(result.stopped_at)} of {result.seeds_run} seeds{median_step(result.stopped_at)}"
        lines.append(f"Stopped early, good enough on validation inputs: {stopped}")
    lines += filter(None, [describe_deaths(result.state.deaths, result.folder)])
    if result.state.spec.get("search", {}).get("sampler") == "tpe":
        drawn, informed = len(result.state.draws), count_informed(result.state)
        lines.append(f"Drawn by tpe: {informed} of {drawn} configurations by results, the others at random")
    return lines


def unequal_seeds(result: Summary) -> list[str]:
    """Return how many seeds configurations have if these differ, and which seeds medians and effects use."""
    if not result.has_unequal_seeds:
        return []
    return [
        f"Configurations have {result.seeds_in_words} each, not all the same: medians are over their own seeds, "
        "effects of hyperparameters and weight averages over the "
        f"{len(result.shared_seeds)} that all have"
    ]


def median_step(stopped_at: Sequence[int]) -> str:
    """Return when seeds stopped, as the end of a sentence: ", median at step 1,200"; empty if none did."""
    return f", median at step {statistics.median(stopped_at):,g}" if stopped_at else ""


def selection_sentence(result: Summary) -> str:
    """Return the metric and lengths by which configurations were selected, and the lengths without influence."""
    (metric, average), objective = result.objective_curve, result.objective
    groups = {row.groups for row in result.rows}
    common = groups.pop() if len(groups) == 1 else None
    unused = "the lengths beyond (they differ between configurations) were not used for selection"
    if common:
        were = "was" if len(common.test) == 1 else "were"
        unused = f"{lengths_in_words(common.test)} {were} not used for selection"
    if common and not common.test:
        unused = "no test lengths were evaluated"
    averages = {name for measured in result.measured.values() for name in measured.averages}
    of_average = "" if averages == {"raw"} else f" of the {average} average"
    over = f"{objective.reduce} over " if len(objective.lengths) > 1 else "at "
    return (
        f"Selected by {metric}{of_average}, {over}{lengths_in_words(objective.lengths)}, "
        + ("each seed at the evaluation they choose, " if objective.evaluation == BEST else "")
        + f"{objective.statistic} over seeds ({objective.direction}); {unused}"
        + (f"; {_trained_words(result, common)}" if common else "")
    )


def _trained_words(result: Summary, common: LengthGroups) -> str:
    """Return which lengths of the judged metric were trained on, and which of these were evaluated: `common.trained`.

    A ledger of 1.0.0 has only the longest one, unless all lengths were evaluated.
    """
    metric, first = result.objective.metric, result.rows[0].config_id
    distribution = result.measured[first].metrics[metric].distribution
    longest = max(one.longest_trained.get(distribution, 0) for one in result.measured.values())
    if not longest and "program" in result.state.spec:
        return "the trained lengths are not known"  # its author may not have declared any
    if not longest:
        return f"no length of {metric} was trained on"
    recorded = {one.trained.get(distribution, ()) for one in result.measured.values()}
    trained = recorded.pop() if len(recorded) == 1 else ()
    if not trained and result.state.spec.get("evaluation", {}).get("lengths", "all") == "all":
        trained = common.trained
    if trained and trained == common.trained:
        return f"trained on {spans(trained)}"
    evaluated = f"of these {spans(common.trained) if common.trained else 'none'} evaluated"
    return f"trained on {spans(trained) if trained else f'lengths up to {longest}'}, {evaluated}"


def order_sentence(result: Summary, *, complete: bool = False) -> list[str]:
    """Return how well the order at the test lengths agrees with the order by score; empty for fewer than two.

    `complete` names the configurations that are better than the first at the test lengths, which choose nothing.
    """
    labels = {row.config_id: label(row.number) for row in result.rows if row.complete and row.rank is not None}
    if len(labels) < 2:
        return []
    orders = compare_orders(result)
    if orders is None:
        return [
            "No lengths beyond training and selection were evaluated in all configurations: nothing tells whether the "
            "order by score holds there"
        ]
    lower = "lower" if result.objective.direction == "minimize" else "higher"
    scored = " with a score" if any(row.failed for row in result.rows) else ""
    better, several = orders.better, orders.others > 1
    others = f"the {orders.others} others{scored}" if several else f"the other one{scored}"
    if better:
        who = f"{len(better)} of {others}" if several else others
        most = three_digits(better[0][1], result.infinite)
        words = f"{who} {'is' if len(better) == 1 else 'are'} {lower} there, by {'up to ' * (len(better) > 1)}{most}"
    else:
        words = f"none of {others} is {lower} there" if several else f"{others} is not {lower} there"
    if complete and better:
        named = [f"{labels[name]} by {three_digits(gain, result.infinite)}" for name, gain in better[:MOST_NAMED]]
        named += [f"{len(better) - MOST_NAMED} more"] if len(better) > MOST_NAMED else []
        words += f" ({', '.join(named)}); no choice went by this"
    correlation = [_correlation(orders.correlation)] if orders.others + 1 >= FEWEST_ORDERED else []
    return [f"Order at the {lengths_in_words(result.test_lengths, 'test ')}: {'; '.join([*correlation, words])}"]


def _correlation(estimate: Estimate) -> str:
    if math.isnan(estimate.value):
        return f"no rank correlation with the scores ({estimate.reason})"
    ends = "no interval" if math.isnan(estimate.low) else f"95 % [{estimate.low:+.2f}, {estimate.high:+.2f}]"
    why = f": {estimate.reason}" if estimate.reason in DEPENDENT.values() else ""
    return f"rank correlation with the scores {estimate.value:+.2f} ({ends}, n = {estimate.n}{why})"
