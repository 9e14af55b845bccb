"""What a sweep answers, in three plain sentences: what ran, which configuration is best, and what mattered."""

import math

from orchestrator.record.state.parts import STOPPED
from orchestrator.report.tables.effects import EffectLine, effect_lines
from orchestrator.report.tables.sentences import FAILED_SEEDS
from orchestrator.results.analysis import effects_on_score, shows_effects, why_no_effects
from orchestrator.results.confirmed import Confirmed, read_confirmations, read_search_labels
from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.intervals import FEWEST_FOR_MEDIAN, median
from orchestrator.wording import counted, first_few, format_values, label, lengths_in_words, short_keys, three_digits

CONFOUNDED = "hyperparameters change along with one another, and none can be judged by itself"
STATES = {"complete": "finished", "failed": "finished without a result", "running": "running", STOPPED: STOPPED}


MOST_NAMED = 3  # hyperparameters with a clear effect, configurations of a confirmation


def answers(result: Summary, *, values: bool = True) -> list[str]:
    """Return the three sentences, and one for each confirmation; of an empty sweep the first alone.

    With `values` the best configuration is named with its searched values.
    """
    if not result.rows:
        return [what_ran(result)]
    sentences = [what_ran(result), which_is_best(result, values=values), what_mattered(result)]
    return sentences + [_confirmed(result, one) for one in read_confirmations(result)]


def what_ran(result: Summary) -> str:
    """Return the state of the sweep, how many configurations and seeds ran, and how many failed."""
    failed = "none failed"
    if result.seeds_failed:
        diverged = result.seeds_failed - result.seeds_crashed
        policy = FAILED_SEEDS[result.objective.failed_seeds]
        failed = f"{result.seeds_failed} failed ({diverged} diverged, {result.seeds_crashed} crashed; {policy})"
    done, planned = result.configurations_finished, result.planned
    of = counted(planned, "configuration") if done == planned else f"{done} of {counted(planned, 'configuration')}"
    pruned = sum(row.pruned_at is not None for row in result.rows)
    early = f", {len(result.stopped_at)} stopped early because they were good enough" if result.may_stop else ""
    ran = "have ended" if result.status == "running" else "ran"
    return (
        f"{STATES.get(result.status, result.status).capitalize()}: {of} with {result.seeds_in_words}"
        + (f", {pruned} pruned" if pruned else "")
        + f"; {result.seeds_run} seeds {ran}, {failed}{early}."
        + (
            f" {result.state.message[:1].upper()}{result.state.message[1:]}."
            if result.status == "interrupted" and result.state.message
            else ""
        )
    )


def which_is_best(result: Summary, *, values: bool = True) -> str:
    """Return the configuration ranked first by the selection lengths, and what it reaches on the test lengths."""
    row = next((row for row in result.rows if row.rank == 1), None)
    if row is None or row.score is None or not math.isfinite(row.score):
        return (
            "No configuration has a finite score yet."
            if not result.finished
            else "No configuration has a finite score."
        )
    tied = sum(other.score == row.score for other in result.rows if other.rank is not None) - 1
    name = label(row.number)
    if in_search := read_search_labels(result.state.provenance).get(row.number):
        name += f" ({in_search} in the search)"
    shown = format_values(row.values, result.searched) if values else ""
    so_far = "" if result.finished else " so far"
    statistic = "" if result.objective.seeds == "median" else f"{result.objective.statistic} of "
    chosen = (
        f"Best by the {lengths_in_words(result.objective.lengths, 'selection ')}{so_far} is {name}"
        + (f" ({shown})" if shown else "")
        + f", with {statistic}{result.judged_name} {three_digits(row.score, result.infinite)}"
        + (f", tied with {counted(tied, 'other')}" if tied else "")
    )
    if row.test is None or not row.groups.test:
        return f"{chosen}; no test lengths were evaluated, so nothing tells how good it is on others."
    return f"{chosen}; on the {lengths_in_words(row.groups.test, 'test ')} it reaches {_at_test(result, row)}."


def what_mattered(result: Summary) -> str:
    """Return which hyperparameters have a clear effect on the score, or why nothing can be said.

    One interval of each hyperparameter counts, or one of each value: other lengths, and slopes with the others held
    fixed, would be further chances for an interval to exclude 0.
    """
    if result.status == "running":
        return "What mattered is said when the sweep has ended."
    if not shows_effects(result):
        return why_no_effects(result) or "No hyperparameter was compared, so nothing can be said about what mattered."
    names = short_keys([effect.key for effect in effects_on_score(result)])
    on_score = [line for line in effect_lines(result) if line.outcome.effects == effects_on_score(result)]
    lines = [line for line in on_score if line.effect.matched and line.intervals]
    if not lines:
        reasons = {effect.reason if effect.matched else CONFOUNDED for effect in effects_on_score(result)}
        why = f": {reasons.pop()}" if len(reasons) == 1 else ""
        return f"Nothing can be said about what mattered{why or ': no effect has an interval'}."
    # Of a key with several values that differ clearly from the first, the best one is named.
    sign, clear = -1.0 if result.objective.direction == "minimize" else 1.0, dict[str, str]()
    gains = {id(line): sign * line.difference.difference if line.difference else 0.0 for line in lines}
    for line in sorted(lines, key=lambda line: -gains[id(line)] if math.isfinite(gains[id(line)]) else 0.0):
        if number := _clear(result, line):
            clear.setdefault(names[line.effect.key], number)
    rest = [name for name in names.values() if name not in clear]
    if not clear:
        return f"No hyperparameter has a clear effect on the score: every 95 % interval contains 0 ({first_few(rest)})."
    shown = first_few([f"{name} ({clear[name]})" for name in names.values() if name in clear], MOST_NAMED)
    inconclusive = f"; inconclusive: {first_few(rest)}" if rest else ""
    return f"What mattered at {lines[0].outcome.at_lengths}: {shown}{inconclusive}."


def _confirmed(result: Summary, one: Confirmed) -> str:
    """Return what a confirmation came to: the scores in the search beside those on fresh seeds."""
    scores = [
        f"{label(row.number)} {three_digits(row.search.median, result.infinite)} in the search and "
        + (
            f"{three_digits(row.confirmed.median, result.infinite)} on fresh seeds"
            if row.confirmed
            else "not ended yet"
        )
        for row in one.rows
    ]
    return f"{one.sentence}; {first_few(scores, MOST_NAMED)}."


def _clear(result: Summary, line: EffectLine) -> str:
    """Return which way an effect goes with the interval that excludes 0, empty without one."""
    rises = "worse" if result.objective.direction == "minimize" else "better"
    falls = "better" if rises == "worse" else "worse"
    if line.difference:
        what, by, value = line.difference.value, "by", line.difference.difference
        low, high = line.difference.low, line.difference.high
    elif line.value and line.slope:  # one value of a key that has no numbers
        what, by, value = line.value, "by", line.slope.coefficient
        low, high = line.slope.low, line.slope.high
    else:
        what, by, value = line.value or "higher", "rank correlation", line.effect.correlation
        low, high = line.effect.low, line.effect.high
    if low <= 0 <= high or math.isnan(low):
        return ""
    than = f" than {line.difference.against}" if line.difference else ""
    return f"{what} is {rises if value > 0 else falls}{than}, {by} {value:+.3g} [{low:+.3g}, {high:+.3g}]"


def _at_test(result: Summary, row: Row) -> str:
    """Return the median on the test lengths, with its 95 % interval if there are enough seeds, else with quartiles."""
    assert row.test is not None
    infinite, shown = result.infinite, three_digits(row.test.median, result.infinite)
    band = result.bands[row.config_id, *result.objective_curve]
    values = band.seed_values(row.groups.test, "mean").values()
    if len(values) >= FEWEST_FOR_MEDIAN and not any(map(math.isnan, values)):
        found = median(values)
        return f"{shown} (95 % interval {three_digits(found.low, infinite)} to {three_digits(found.high, infinite)})"
    q25, q75 = (three_digits(value, infinite) for value in (row.test.q25, row.test.q75))
    return f"{shown} (quartiles {q25} to {q75}; {counted(len(values), 'seed')})"
