"""The tables of a report as text: columns of cells and the sentences above them, for terminal and page alike."""

import math
from collections.abc import Sequence

from orchestrator.confirmed import Confirmed
from orchestrator.length_groups import LengthGroups, spans
from orchestrator.summary import Effect, Quartiles, Row, Summary
from orchestrator.wording import compact_value, short_keys, three_digits


def headlines(result: Summary) -> list[str]:
    """The sentences above the tables: how far the sweep is, how it was selected, what was not used, the best."""
    metric, average = result.objective_curve
    objective = result.objective
    state = {
        "complete": "finished",
        "failed": "finished, and no configuration succeeded",
        "interrupted": "UNFINISHED (interrupted; continue it with: lengthwise resume)",
    }.get(result.status, "UNFINISHED (still running, or its driver died; continue it with: lengthwise resume)")
    lines = [
        f"Sweep {result.name} (study {result.study}): {state}",
        f"{result.configurations_finished} of {result.planned} configurations have all their seeds; "
        f"seeds ended: {result.seeds_run}, failed: {result.seeds_failed}"
        + (f" ({_POLICY[objective.failed_seeds]})" if result.seeds_failed else ""),
    ]
    if not result.rows:
        return lines
    one = _common_groups(result)
    test = f"lengths {spans(one.test)}" if one else "the lengths beyond (they differ between configurations)"
    unused = f"{test} were not used for selection" if one is None or one.test else "no other lengths were evaluated"
    lines.append(
        f"Selected by {metric} of the {average} average, {objective.reduce} over lengths {spans(objective.lengths)}, "
        f"median over seeds ({objective.direction}); {unused}" + (f"; trained on {spans(one.trained)}" if one else "")
    )
    best = next((row for row in result.rows if row.rank == 1), None)
    if best is not None and best.score is not None and math.isfinite(best.score):
        so_far = "" if result.finished else " so far"
        lines.append(f"Best{so_far}: {best.config_id} with score {three_digits(best.score)} ({_values(best, result)})")
    if result.threshold is not None:
        meets = "at most" if objective.direction == "minimize" else "at least"
        lines.append(
            f"Reach: the greatest length at which the median of {curve_name(result)}, there and at every shorter "
            f"length, is {meets} {result.threshold:g}"
        )
    forms = {row.form for row in result.rows if row.form}
    if len(forms) == 1:
        lines.append(f"Form of the trained program: {forms.pop()}")
    return lines + list(result.notes)


_POLICY = {
    "worst": "a failed seed counts as the worst value",
    "exclude": "medians are over the seeds that did not fail",
    "fail": "a configuration with a failed seed fails",
}


Columns = dict[str, list[str]]


def curve_name(result: Summary) -> str:
    """The metric and average that configurations are ranked by."""
    metric, average = result.objective_curve
    return f"{metric} ({average})"


def place_columns(rows: Sequence[Row]) -> Columns:
    """Rank and config_id."""
    return {
        "#": [str(row.rank) if row.rank else "failed" if row.failed else "..." for row in rows],
        "configuration": [row.config_id for row in rows],
    }


def value_columns(result: Summary, rows: Sequence[Row]) -> Columns:
    """One column per searched key."""
    names = short_keys(list(result.searched))
    return {
        name: [compact_value(row.values[key]) if key in row.values else "-" for row in rows]
        for key, name in names.items()
    }


def result_columns(result: Summary, rows: Sequence[Row], new_line: str) -> Columns:
    """Score, median and quartiles (parted by `new_line`) at trained, selection and test lengths, reach, seeds."""
    one = _common_groups(result)
    columns: Columns = {"score": [three_digits(row.score) for row in rows]}
    for group in ("trained", "selection", "test"):
        name = f"{group} {spans(getattr(one, group))}" if one else group
        columns[name] = [_quartiles(getattr(row, group), new_line) for row in rows]
    if result.threshold is not None:
        columns["reach"] = [
            str(row.generalization_length) if row.generalization_length is not None else "-" for row in rows
        ]
    columns["seeds"] = [
        str(row.seeds_run) if row.complete else f"{row.seeds_run} of {row.seeds_planned}" for row in rows
    ]
    columns["failed"] = [str(row.seeds_failed) for row in rows]
    if len({row.form for row in result.rows}) > 1:
        columns["form"] = [row.form or "-" for row in rows]
    return columns


def _common_groups(result: Summary) -> LengthGroups | None:
    """The length groups when they are the same for every configuration."""
    groups = {row.groups for row in result.rows}
    return groups.pop() if len(groups) == 1 else None


def effect_columns(result: Summary, full_names: bool = True) -> Columns:
    """The effect of each searched key on the score."""
    short = short_keys([effect.key for effect in result.effects])

    def alone(effect: Effect) -> str:
        if effect.kind == "numeric":
            text = _interval(effect.correlation, effect.low, effect.high, "+.2f")
        else:
            text = "-" if math.isnan(effect.p) else f"Kruskal-Wallis p = {effect.p:.2g}"
        return text if not effect.reason else effect.reason if text == "-" else f"{text} ({effect.reason})"

    def by_value(effect: Effect) -> str:
        pairs = [f"{value}: {three_digits(m)} (n = {effect.counts[value]})" for value, m in effect.medians.items()]
        return ", ".join(pairs) if len(pairs) < effect.n else "-"

    effects = result.effects
    columns = {
        "hyperparameter": [effect.key if full_names else short[effect.key] for effect in effects],
        "n": [str(effect.n) for effect in effects],
        "rank correlation [95 %]": [alone(effect) for effect in effects],
        "others held fixed [95 %]": [
            _interval(*effect.partial, "+.2f") if effect.partial else "-" for effect in effects
        ],
        "median score by value": [by_value(effect) for effect in effects],
    }
    return {name: cells for name, cells in columns.items() if set(cells) != {"-"}}


def comparison_columns(result: Summary) -> Columns:
    """Every two weight averages of the same members, compared."""
    pairs = result.comparisons
    return {
        "average": [one.first for one in pairs],
        "against": [one.second for one in pairs],
        "members": [str(one.n) for one in pairs],
        "median difference [95 %]": [_interval(one.difference, one.low, one.high, "#.3g") for one in pairs],
        "better on": [str(one.first_better) for one in pairs],
        "worse on": [str(one.second_better) for one in pairs],
        "Wilcoxon p": ["-" if math.isnan(one.wilcoxon_p) else f"{one.wilcoxon_p:.2g}" for one in pairs],
    }


def confirmed_columns(one: Confirmed, new_line: str) -> Columns:
    """Search score beside confirmed score, at the selection and at the test lengths."""
    names = short_keys(list(dict.fromkeys(key for row in one.rows for key in row.values)))
    return {
        "search #": [str(row.search_rank) for row in one.rows],
        "configuration": [row.config_id for row in one.rows],
        "search score": [_quartiles(row.search, new_line) for row in one.rows],
        "confirmed score": [_quartiles(row.confirmed, new_line) for row in one.rows],
        "test, search": [_quartiles(row.search_test, new_line) for row in one.rows],
        "test, confirmed": [_quartiles(row.confirmed_test, new_line) for row in one.rows],
        "seeds": [str(row.seeds_run) for row in one.rows],
        "failed": [str(row.seeds_failed) for row in one.rows],
        "searched values": [
            ", ".join(f"{names[key]} {compact_value(value)}" for key, value in row.values.items()) or "-"
            for row in one.rows
        ],
    }


def _interval(value: float, low: float, high: float, form: str) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:{form}}" if math.isnan(low) else f"{value:{form}} [{low:{form}}, {high:{form}}]"


def _quartiles(at: Quartiles | None, new_line: str) -> str:
    if at is None or math.isnan(at.median):
        return "-"
    return f"{three_digits(at.median)}{new_line}[{three_digits(at.q25)}, {three_digits(at.q75)}]"


def _values(row: Row, result: Summary) -> str:
    names = short_keys([key for key in result.searched if key in row.values])
    return ", ".join(f"{name} {compact_value(row.values[key])}" for key, name in names.items()) or "no searched values"
