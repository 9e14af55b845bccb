"""What `lengthwise compare SWEEP SWEEP` prints and writes: whole sweeps against the first one."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from orchestrator.report.tables.columns import Column, Columns, Lines, make_cells
from orchestrator.report.tables.seed_comparisons import (
    MOST,
    MOST_VALUES,
    comparison_columns,
    comparison_lines,
    difference_notes,
    meaning,
    pairs_needed,
)
from orchestrator.report.terminal import lay_out, prose, rich_table
from orchestrator.results.comparing.seed_comparisons import SeedComparison
from orchestrator.results.comparing.sweep_comparison import SweepComparison
from orchestrator.results.summary import Summary
from orchestrator.statistics.exact_tests import ALPHA
from orchestrator.statistics.intervals import LEVEL, fewest_for_median
from orchestrator.wording import compact_value, counted, first_few, label, short_keys, spans, three_digits

MOST_KEYS, MOST_CHARACTERS = 12, 60  # differing keys in a sentence, characters of a value


def show_sweep_comparison(compared: SweepComparison, console: Console) -> None:
    """Print the settings in which two sweeps differ, the overall difference, and that of each matched configuration."""
    for part in _parts(compared, console):
        console.print(part)


def sweep_comparison_lines(comparisons: Sequence[SweepComparison]) -> Lines:
    """Return a line for every difference: each matched configuration and all together by group, and every length.

    The columns are the names of the sweeps and those of seed_comparisons.csv. `family` says which kind of line it is.
    Intervals of lines of the family "each length" are those of the simultaneous band.
    """
    return [
        {"first_sweep": one.first.name, "second_sweep": one.second.name, **line}
        for one in comparisons
        for line in comparison_lines([*one.together, *one.by_length, *one.configurations])
    ]


def noise_sentences(compared: SweepComparison) -> list[str]:
    """Return which differences are more than seed noise: at which lengths, and in which matched configurations."""
    return [*_band_sentence(compared), *_configuration_sentence(compared)]


def _parts(compared: SweepComparison, console: Console) -> Iterator[RenderableType]:
    first, matching = compared.first, compared.matching
    for name, result in (("First", first), ("Second", compared.second)):
        yield prose(f"{name}: {_describe(result)}", console, result)
    for what, differing in (
        ("Specification", compared.specification),
        ("Code", compared.code),
        ("Environment", compared.environment),
    ):
        yield prose(f"{what}: {_differences(differing)}", console, first)
    yield prose(_match_sentence(compared), console, first)
    yield ""
    if compared.together:
        yield Text("All matched configurations together", style="bold")
        yield from _table(compared.together, [], first, console)
    yield from (prose(sentence, console, first) for sentence in noise_sentences(compared))
    if len(matching.pairs) > 1 and compared.configurations:
        group = compared.configurations[0].question.group
        shown = [one for one in compared.configurations if one.question.group == group][:MOST]
        yield ""
        yield Text("Each matched configuration", style="bold")
        yield from _table(shown, _names(compared), first, console)
        if more := len(compared.configurations) - len(shown):
            yield Text(f"... and {counted(more, 'more line')} with --csv", style="dim")
    notes = [f"Here {meaning(compared.configurations)}"] if compared.configurations else []
    notes.append(
        "All together: one value per seed, the mean over the matched configurations; only seeds that all of them have."
    )
    notes += difference_notes(compared.configurations)
    left_out = max((one.unmatched for one in compared.together), default=0)
    if left_out > min((one.unmatched for one in compared.configurations), default=0):  # else the notes above say it
        notes.append(f"All together: {counted(left_out, 'seed')} left out that not every matched configuration has.")
    yield from (prose(note, console, first, "dim") for note in notes)


def _table(
    comparisons: Sequence[SeedComparison], names: Columns, result: Summary, console: Console
) -> Iterator[RenderableType]:
    cells = make_cells(comparisons, [*names, *comparison_columns(comparisons, result.infinite)])
    yield from map(rich_table, lay_out(cells, console.width, keys=len(names) + 1))


def _names(compared: SweepComparison) -> Columns:
    sides = {(one.row.config_id, two.row.config_id): (one, two) for one, two in compared.matching.pairs}
    names = short_keys(compared.matching.keys)

    def name(place: int, one: SeedComparison) -> str:
        row = sides[one.first, one.second][place].row
        values = [f"{name} {compact_value(row.values[key])}" for key, name in names.items() if key in row.values]
        return " ".join([label(row.number), *([", ".join(values)] if len(names) <= MOST_VALUES and not place else [])])

    return [Column("first", partial(name, 0)), Column("second", partial(name, 1))]


def _describe(result: Summary) -> str:
    done = f"{result.configurations_finished} of {counted(result.planned, 'configuration')} done"
    return f"{result.name} in {result.folder} ({done}; {result.seeds_run} seeds ran, {result.seeds_failed} failed)"


def _differences(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """Return the keys with both values, "key first / second, ..."."""
    if not differing:
        return "no difference"
    values = [f"{key} {_value(one)} / {_value(other)}" for key, (one, other) in differing.items()]
    return first_few(values, MOST_KEYS)


def _value(value: Any) -> str:
    are_whole = isinstance(value, list | tuple) and value and all(type(one) is int for one in value)
    text = spans(value) if are_whole and list(value) == sorted(value) else compact_value(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."


def _match_sentence(compared: SweepComparison) -> str:
    matching = compared.matching
    keys = ", ".join(short_keys(matching.keys).values())
    matched = counted(len(matching.pairs) + matching.unfinished + matching.pruned, "configuration")
    sentence = f"{matched} with equal searched values ({keys})" if keys else f"{matched} in both, nothing was searched"
    if matching.apart:
        names = ", ".join(short_keys(matching.apart).values())
        sentence = f"{matched} with equal {keys}; they differ in {names}, so every difference is one of these keys, too"
    sentence += f"; only in the first: {matching.only_first}, only in the second: {matching.only_second}"
    sentence += f"; pruned in one of them, left out: {matching.pruned}" if matching.pruned else ""
    return sentence + (f"; not ended in both, left out: {matching.unfinished}" if matching.unfinished else "")


def _band_sentence(compared: SweepComparison) -> Iterator[str]:
    points = compared.by_length
    if not points:
        yield "The matched configurations have no lengths in common: no difference against length."
        return
    many, outcome = counted(len(points), "length"), points[0].outcome
    if not compared.has_band:
        missing = next(one.outcome for one in points if math.isnan(one.outcome.low))
        fewest = fewest_for_median(compared.band_level)
        few = missing.paired and 0 < missing.n < fewest
        too_few = f"{counted(missing.n, 'seed')} are too few for {many} at once (at least {fewest})"
        yield f"No band against length: {too_few if few else missing.reason}."
        return
    sides = {
        "higher": [one for one in points if one.outcome.low > 0],
        "lower": [one for one in points if one.outcome.high < 0],
    }
    band = f"simultaneous {100 * LEVEL:g} % band over {many}, {counted(outcome.n, 'paired seed')}"
    clear = [_clear_lengths(side, found, points) for side, found in sides.items() if found]
    if clear:
        yield f"More than seed noise ({band}): the first sweep is {'; '.join(clear)}."
    else:
        yield f"At no length is the difference more than seed noise ({band})."


def _clear_lengths(side: str, found: Sequence[SeedComparison], points: Sequence[SeedComparison]) -> str:
    largest = max(found, key=lambda one: abs(one.outcome.difference))
    difference, length = three_digits(abs(largest.outcome.difference)), largest.question.lengths[0]
    worse = {"minimize": "higher", "maximize": "lower"}.get(largest.question.direction)
    judged = "" if worse is None else " (worse)" if side == worse else " (better)"
    lengths = spans([one.question.lengths[0] for one in found])
    where = "all lengths" if len(found) == len(points) else f"lengths {lengths}"
    return f"{side}{judged} at {where}, by up to {difference} at length {length}"


def _configuration_sentence(compared: SweepComparison) -> Iterator[str]:
    """Yield how many matched configurations differ after Holm's correction, at the first group of lengths."""
    tested = [one for one in compared.configurations if not math.isnan(one.holm_p)]
    tested = [one for one in tested if one.question.group == tested[0].question.group]
    if not tested:
        return
    numbers = {one.row.config_id: one.row.number for one, _ in compared.matching.pairs}
    differ = [label(numbers[one.first]) for one in tested if one.holm_p < ALPHA]
    group, lengths = tested[0].question.group, spans(sorted({s for one in tested for s in one.question.lengths}))
    matched = counted(len(tested), "matched configuration")
    sentence = f"Of {matched} {len(differ) or 'none'} {'differs' if len(differ) < 2 else 'differ'}"
    sentence += f" at the {group} lengths {lengths} with p < {ALPHA:g} after Holm's correction"
    sign = -1 if tested[0].question.direction == "maximize" else 1
    better = sum(sign * one.outcome.difference < 0 for one in tested if one.holm_p < ALPHA)
    how = "lower" if tested[0].question.direction == "none" else "better"
    named = f": {first_few(differ, 8)} of the first sweep, which is {how} in {better}" if differ else ""
    needed = pairs_needed(tested)
    yield f"{sentence}{named}{f' (that takes {needed} pairs of seeds)' if needed else ''}."
