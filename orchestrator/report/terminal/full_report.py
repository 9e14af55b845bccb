"""Every table of a sweep for a terminal: what `lengthwise report --full` prints."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from orchestrator.report.csv_tables import EVALUATIONS_CSV, REPORT_CSV, SEED_COMPARISONS_CSV
from orchestrator.report.tables.effect_tables import comparison_columns, comparison_note, effect_columns, effect_notes
from orchestrator.report.tables.last_and_best_tables import TITLE, last_and_best_columns, last_and_best_notes
from orchestrator.report.tables.seed_comparison_tables import TITLE as OVER_SEEDS
from orchestrator.report.tables.seed_comparison_tables import comparison_columns as seed_columns
from orchestrator.report.tables.seed_comparison_tables import comparison_notes as seed_notes
from orchestrator.report.tables.tables import (
    confirmed_columns,
    headlines,
    place_columns,
    result_columns,
    table_title,
    value_columns,
)
from orchestrator.report.terminal.columns import WIDE, prose, rich_table
from orchestrator.results.analysis import compare_weight_averages, read_confirmations, shows_effects, why_no_effects
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.summary import Summary

FIRST, FIRST_COMPARED, FIRST_PAIRS = 20, 5, 15
ONLY_WHERE_WIDE = {"against", "members", "quartiles"}  # of the averages, which are in averages.csv and the page too


class FullReport:
    """Lays the tables out for the width it is given: below WIDE the searched values get a table of their own."""

    def __init__(self, result: Summary, rows: int = FIRST) -> None:
        self.result, self.rows = result, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result, shown = self.result, self.result.rows[: self.rows]
        yield from (prose(line, console, result) for line in headlines(result))
        yield ""
        place, values, results = (
            place_columns(shown),
            value_columns(result, shown),
            result_columns(result, shown, "\n"),
        )
        title = table_title(result)
        wide = options.max_width >= WIDE
        if wide:
            yield rich_table(title, {**place, **values, **results})
        else:
            if result.objective.reduce == "mean":
                results.pop("score")  # the same number as the median at the selection lengths
            yield rich_table(title, {"#": place["label"], **results})
            if values:
                yield ""
                yield rich_table("Searched values", {**place, **values})
        if len(result.rows) > self.rows:
            yield Text(f"... and {len(result.rows) - self.rows} more in {REPORT_CSV}", style="dim")
        yield from self._over_seeds(console, wide)
        for one in read_confirmations(result):
            yield ""
            yield rich_table("Search score and confirmed score", confirmed_columns(result, one, "\n"))
            yield prose(f"{one.sentence}.", console, result)
        if shows_effects(result):
            yield ""
            yield from self._effects(console, wide)
        elif reason := why_no_effects(result):
            yield ""
            yield prose(reason, console, result)
        if compare_weight_averages(result):
            yield ""
            columns = comparison_columns(result, " " if wide else "\n")
            kept = columns if wide else {name: columns[name] for name in columns if name not in ONLY_WHERE_WIDE}
            yield rich_table("Weight averages of the same trained members", kept, wide)
            yield prose(comparison_note(result), console, result, "dim")
        if result.last_and_best:
            yield ""
            first = result.last_and_best[: min(self.rows, FIRST_COMPARED)]
            columns = last_and_best_columns(result, first)
            columns = columns if wide else {name: columns[name] for name in columns if name != "rank"}  # their order
            yield rich_table(TITLE, columns, wide)
            if (left := len(result.last_and_best) - len(first)) > 0:
                yield Text(f"... and {left} more in {EVALUATIONS_CSV}", style="dim")
            yield from (prose(note, console, result, "dim") for note in last_and_best_notes(result))
        drawn = sorted(
            path
            for kind in ("evaluations", "comparison", "score-", "pair-", "steps-", "family-", "maps-")
            for path in result.folder.glob(f"figures/{kind}*.png")
        )
        if drawn:
            yield ""
            yield Text("Figures")
            yield from (Text(f"  {path}", no_wrap=True, overflow="ignore") for path in drawn)

    def _over_seeds(self, console: Console, wide: bool) -> Iterator[RenderableType]:
        """Configurations against each other, the first lines; the notes are about all of them."""
        found = compare_seeds(self.result)
        if not found:
            return
        columns = seed_columns(self.result, found[:FIRST_PAIRS], " " if wide else "\n")
        yield ""
        yield rich_table(OVER_SEEDS, columns, wide)
        if (left := len(found) - FIRST_PAIRS) > 0:
            yield Text(f"... and {left} more in {SEED_COMPARISONS_CSV}", style="dim")
        yield from (prose(note, console, self.result, "dim") for note in seed_notes(self.result, found))

    def _effects(self, console: Console, wide: bool) -> Iterator[RenderableType]:
        """The effects in one table; below WIDE the medians get a table of their own."""
        columns = effect_columns(self.result, wide, " " if wide else "\n", "\n")
        medians = {} if wide else {name: columns.pop(name) for name in ("median by value",) if name in columns}
        yield rich_table(f"Effect of each hyperparameter (over {self.result.design.unit})", columns)
        if medians:
            yield ""
            yield rich_table("", {name: columns[name] for name in ("hyperparameter", "at lengths")} | medians)
        yield from (prose(note, console, self.result, "dim") for note in effect_notes(self.result))
