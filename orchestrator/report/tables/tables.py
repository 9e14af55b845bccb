"""The tables of a report as text: columns of cells and the sentences above them, for terminal and page alike."""

import math
import statistics
from collections.abc import Sequence

from orchestrator.report.tables.order_sentence import order_sentence
from orchestrator.results.confirmed import Confirmed
from orchestrator.results.scoring.evaluation_choice import BEST
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.wording import command, compact_value, death_sentence, label, short_keys, spans, three_digits


def headlines(result: Summary) -> list[str]:
    """The sentences above the tables: how far the sweep is, how it was selected and what was not used."""
    lines = [state_sentence(result), *counts(result)]
    if not result.rows:
        return lines
    lines += [selection_sentence(result), *first_sentence(result), *order_sentence(result, complete=True)]
    if result.objective.threshold is not None:
        meets = "at most" if result.objective.direction == "minimize" else "at least"
        lines.append(
            f"Reach: the greatest length at which the median of {curve_name(result)}, there and at every shorter "
            f"length, is {meets} {result.objective.threshold:g}"
        )
    forms = {row.form for row in result.rows if row.form}
    if len(forms) == 1:
        lines.append(f"Form of the trained program: {forms.pop()}")
    return lines + list(result.notes)


def state_sentence(result: Summary) -> str:
    """Whether the sweep is finished, and the way on where it is not."""
    way_on = command("resume", result.folder)
    state = {
        "complete": "finished",
        "failed": "finished, and no configuration succeeded",
        "interrupted": f"UNFINISHED (interrupted; continue it with: {way_on})",
    }.get(result.status, f"UNFINISHED (still running, or its driver died; continue it with: {way_on})")
    return f"Sweep {result.name} (study {result.study}): {state}"


def counts(result: Summary) -> list[str]:
    """How many configurations and seeds have ended, how many seeds failed and of what, which packs died."""
    line = (
        f"{result.configurations_finished} of {result.planned} configurations have all their seeds; "
        f"seeds ended: {result.seeds_run}, failed: {result.seeds_failed}"
    )
    if result.seeds_failed:
        diverged = result.seeds_failed - result.seeds_crashed
        line += f" ({_POLICY[result.objective.failed_seeds]}); crashed: {result.seeds_crashed}, diverged: {diverged}"
    lines = [line, *_stopped(result), *([death_sentence(result.deaths, result.folder)] if result.deaths else [])]
    if result.informed is not None:
        informed, drawn = result.informed
        lines.append(f"Drawn by tpe: {informed} of {drawn} configurations by results, the others at random")
    return lines


def _stopped(result: Summary) -> list[str]:
    """How many seeds stopped early, and when."""
    if not result.may_stop:
        return []
    sentence = f"Stopped early, good enough on validation inputs: {len(result.stopped_at)} of {result.seeds_run} seeds"
    return [f"{sentence}{median_step(result.stopped_at)}"]


def median_step(stopped_at: Sequence[int]) -> str:
    """When seeds stopped, as the end of a sentence: ", median at step 1,200"; empty where none did."""
    return f", median at step {statistics.median(stopped_at):,g}" if stopped_at else ""


def selection_sentence(result: Summary) -> str:
    """What configurations were selected by, at which lengths, and which lengths had no say."""
    (metric, average), objective, one = result.objective_curve, result.objective, _common_groups(result)
    test = f"lengths {spans(one.test)}" if one else "the lengths beyond (they differ between configurations)"
    unused = f"{test} were not used for selection" if one is None or one.test else "no other lengths were evaluated"
    return (
        f"Selected by {metric} of the {average} average, {objective.reduce} over lengths {spans(objective.lengths)}, "
        + ("each seed at the evaluation they choose, " if objective.evaluation == BEST else "")
        + f"median over seeds ({objective.direction}); {unused}"
        + (f"; trained on {spans(one.trained)}" if one and one.trained else "")
        + (f"; no length of {metric} was trained on" if one and not one.trained else "")
    )


def first_sentence(result: Summary, code: str = "") -> list[str]:
    """The one sentence that calls a configuration best: on which lengths it was selected, and what it does beyond them.

    Nothing else in a report calls one that: being first where one was chosen for being first proves little. `code` goes
    around its label.
    """
    row = next((row for row in result.rows if row.rank == 1), None)
    if row is None or row.score is None or not math.isfinite(row.score):
        return []
    so_far = "" if result.finished else " so far"
    chosen = f"lengths {spans(result.objective.lengths)}, the lengths it was selected on"
    equals = sum(other.score == row.score for other in result.rows if other.rank is not None) - 1
    tied = f", tied with {equals} other{'' if equals == 1 else 's'}" if equals else ""
    head = f"Best{so_far} on {chosen}: {code}{label(row.number)}{code} with score {three_digits(row.score)}{tied}"
    if row.test is not None and row.groups.test:
        lengths = spans(row.groups.test)
        tail = f"on the test lengths {lengths}, not used to select it: {quartiles_cell(row.test, ' ', result.infinite)}"
    else:
        tail = "it has no test lengths, so nothing tells how good it is on others"
    trained = ""
    if row.trained is not None and row.groups.trained:
        trained = (
            f"on the trained lengths {spans(row.groups.trained)}: {quartiles_cell(row.trained, ' ', result.infinite)}; "
        )
    return [f"{head} ({_values(row, result)}); {trained}{tail}"]


def table_title(result: Summary) -> str:
    """What the table of configurations is ordered by."""
    return (
        f"Configurations by score at the selection lengths {spans(result.objective.lengths)}: {curve_name(result)}, "
        "median over seeds and quartiles"
    )


_POLICY = {
    "worst": "a failed seed counts as the worst value",
    "exclude": "medians are over the seeds that did not fail",
    "fail": "a configuration with a failed seed fails",
}


Columns = dict[str, list[str]]
CONFIG_ID = "config_id"  # the column that files need and a narrow terminal does not


def curve_name(result: Summary) -> str:
    """The metric and average that configurations are ranked by."""
    return result.judged_name


def place_columns(rows: Sequence[Row]) -> Columns:
    """Rank, label and config_id."""
    return {
        "rank": [str(row.rank) if row.rank else "failed" if row.failed else "..." for row in rows],
        "label": [label(row.number) for row in rows],
        CONFIG_ID: [row.config_id for row in rows],
    }


def value_columns(result: Summary, rows: Sequence[Row]) -> Columns:
    """One column per searched key."""
    names = short_keys(list(result.searched))
    return {
        name: [compact_value(row.values[key]) if key in row.values else "-" for row in rows]
        for key, name in names.items()
    }


def result_columns(result: Summary, rows: Sequence[Row], new_line: str, *, lengths: bool = True) -> Columns:
    """Score, median and quartiles (parted by `new_line`) at trained, selection and test lengths, reach, seeds.

    After these the judged metric on other distributions. Headings name the `lengths`, where all rows have the same.
    """

    def heading(group: str, of: set[LengthGroups], metric: str = "") -> str:
        name = f"{metric} {group}".strip()
        return f"{name} {spans(getattr(of.pop(), group))}" if lengths and len(of) == 1 else name

    columns: Columns = {"score": [three_digits(row.score, result.infinite) for row in rows]}
    every = {row.groups for row in result.rows}
    for group in ("trained", "selection", "test"):
        if group != "trained" or any(groups.trained for groups in every):
            cells = [quartiles_cell(getattr(row, group), new_line, result.infinite) for row in rows]
            columns[heading(group, set(every))] = cells
    for metric, group in dict.fromkeys(one for row in result.rows for one in row.beside):
        having = {result.groups(row, metric) for row in result.rows if (metric, group) in row.beside}
        cells = [quartiles_cell(row.beside.get((metric, group)), new_line, result.infinite) for row in rows]
        columns[heading(group, having, metric)] = cells
    if result.objective.threshold is not None:
        columns["reach"] = [
            str(row.generalization_length) if row.generalization_length is not None else "-" for row in rows
        ]
    columns["seeds"] = [
        str(row.seeds_run) if row.complete else f"{row.seeds_run} of {row.seeds_planned}" for row in rows
    ]
    columns["failed"] = [str(row.seeds_failed) for row in rows]
    if result.may_stop:
        columns["stopped"] = [
            f"{len(row.stopped_at)}{new_line}[{statistics.median(row.stopped_at):,g}]" if row.stopped_at else "0"
            for row in rows
        ]
    if len({row.form for row in result.rows}) > 1:
        columns["form"] = [row.form or "-" for row in rows]
    return columns


def _common_groups(result: Summary) -> LengthGroups | None:
    """The length groups when they are the same for every configuration."""
    groups = {row.groups for row in result.rows}
    return groups.pop() if len(groups) == 1 else None


def confirmed_columns(result: Summary, one: Confirmed, new_line: str) -> Columns:
    """Search score beside confirmed score, at the selection and at the test lengths."""

    def cells(of: Sequence[Quartiles | None]) -> list[str]:
        return [quartiles_cell(at, new_line, result.infinite) for at in of]

    names = short_keys(list(dict.fromkeys(key for row in one.rows for key in row.values)))
    return {
        "search rank": [str(row.search_rank) for row in one.rows],
        "label": [label(row.number) for row in one.rows],
        "search score": cells([row.search for row in one.rows]),
        "confirmed score": cells([row.confirmed for row in one.rows]),
        "test, search": cells([row.search_test for row in one.rows]),
        "test, confirmed": cells([row.confirmed_test for row in one.rows]),
        "seeds": [str(row.seeds_run) for row in one.rows],
        "failed": [str(row.seeds_failed) for row in one.rows],
        "searched values": [
            ", ".join(f"{names[key]} {compact_value(value)}" for key, value in row.values.items()) or "-"
            for row in one.rows
        ],
    }


def interval(value: float, low: float, high: float, form: str, gap: str = " ") -> str:
    """A number and its interval: interval(0.5, 0.1, 0.9, "+.2f") -> "+0.50 [+0.10, +0.90]"; "-" for NaN."""
    if math.isnan(value):
        return "-"
    return f"{value:{form}}" if math.isnan(low) else f"{value:{form}}{gap}[{low:{form}}, {high:{form}}]"


def quartiles_cell(at: Quartiles | None, new_line: str, infinite: str = "inf") -> str:
    """Median and quartiles, parted by `new_line`, infinity in words; "-" where there are none."""
    if at is None or math.isnan(at.median):
        return "-"
    q25, median, q75 = (three_digits(value, infinite) for value in at)
    return f"{median}{new_line}[{q25}, {q75}]"


def _values(row: Row, result: Summary) -> str:
    names = short_keys([key for key in result.searched if key in row.values])
    return ", ".join(f"{name} {compact_value(row.values[key])}" for key, name in names.items()) or "no searched values"
