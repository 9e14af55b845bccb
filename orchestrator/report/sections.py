"""The sections of a report, in order, with their tables and notes; the page and the full terminal report show them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.report.csv_tables import EVALUATIONS_CSV, REPORT_CSV, SEED_COMPARISONS_CSV
from orchestrator.report.tables.effect_tables import comparison_columns, comparison_note, effect_columns, effect_notes
from orchestrator.report.tables.last_and_best_tables import TITLE as EVALUATIONS
from orchestrator.report.tables.last_and_best_tables import last_and_best_columns, last_and_best_notes
from orchestrator.report.tables.seed_comparison_tables import TITLE as SEEDS
from orchestrator.report.tables.seed_comparison_tables import comparison_columns as seed_columns
from orchestrator.report.tables.seed_comparison_tables import comparison_notes as seed_notes
from orchestrator.report.tables.tables import (
    Columns,
    confirmed_columns,
    place_columns,
    result_columns,
    table_title,
    value_columns,
)
from orchestrator.results.analysis import compare_weight_averages, read_confirmations, shows_effects, why_no_effects
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.summary import Summary

EFFECTS = "Effect of each hyperparameter"
FIRST_COMPARED, FIRST_PAIRS = 5, 15  # lines of a table on a terminal
ONLY_WHERE_WIDE = {"against", "members", "quartiles"}  # of the averages, which are in averages.csv and the page too


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a table may take: a page has room for all; a terminal for `rows`, and below a certain width in less."""

    rows: int | None = None
    wide: bool = True

    @property
    def gap(self) -> str:
        """What parts a number from its interval."""
        return " " if self.wide else "\n"


@dataclass(frozen=True, kw_only=True)
class Section:
    """Paragraphs, notes in small print, and tables by title; `more` says how many lines are left out, and where.

    With `breaks_headings` long headings of columns are broken on a narrow terminal.
    """

    heading: str
    tables: Mapping[str, Columns] = field(default_factory=dict)
    paragraphs: Sequence[str] = ()
    notes: Sequence[str] = ()
    more: tuple[int, str] = (0, "")
    breaks_headings: bool = False


def sections(result: Summary, layout: Layout) -> Iterator[Section]:
    """Yield the sections that have something to say; those of a page alone (figures, provenance) are not among them."""
    yield _configurations(result, layout)
    if compared := compare_seeds(result):
        shown = compared if layout.rows is None else compared[:FIRST_PAIRS]
        yield Section(
            heading=SEEDS,
            tables={SEEDS: seed_columns(result, shown, layout.gap)},
            notes=seed_notes(result, compared),
            more=(len(compared) - len(shown), SEED_COMPARISONS_CSV),
            breaks_headings=True,
        )
    for one in read_confirmations(result):
        heading = "Search score and confirmed score"
        tables = {heading: confirmed_columns(result, one, "\n")}
        yield Section(heading=heading, tables=tables, paragraphs=[f"{one.sentence}."])
    if shows_effects(result):
        yield Section(heading=EFFECTS, tables=_effects(result, layout), notes=effect_notes(result))
    elif reason := why_no_effects(result):
        yield Section(heading=EFFECTS, paragraphs=[reason])
    if compare_weight_averages(result):
        heading, columns = "Weight averages of the same trained members", comparison_columns(result, layout.gap)
        if not layout.wide:
            columns = {name: cells for name, cells in columns.items() if name not in ONLY_WHERE_WIDE}
        notes = [comparison_note(result)]
        yield Section(heading=heading, tables={heading: columns}, notes=notes, breaks_headings=True)
    if evaluations := result.last_and_best:
        shown_first = evaluations if layout.rows is None else evaluations[: min(layout.rows, FIRST_COMPARED)]
        columns = last_and_best_columns(result, shown_first, "\n" if layout.rows is None else None)
        if not layout.wide:
            del columns["rank"]  # their order
        yield Section(
            heading=EVALUATIONS,
            tables={EVALUATIONS: columns},
            notes=last_and_best_notes(result),
            more=(len(evaluations) - len(shown_first), EVALUATIONS_CSV),
            breaks_headings=True,
        )


def _configurations(result: Summary, layout: Layout) -> Section:
    """Return ranks, searched values and results; where there is no room the values in a table of their own."""
    rows, title = result.rows[: layout.rows], table_title(result)
    place, values, results = place_columns(rows), value_columns(result, rows), result_columns(result, rows, "\n")
    tables = {title: {**place, **values, **results}}
    if not layout.wide:
        if result.objective.reduce == "mean":
            del results["score"]  # the same number as the median at the selection lengths
        tables = {title: {"#": place["label"], **results}}
        tables |= {"Searched values": {**place, **values}} if values else {}
    return Section(
        heading="Configurations by score",
        tables=tables,
        notes=[title] if layout.rows is None else [],
        more=(len(result.rows) - len(rows), REPORT_CSV),
    )


def _effects(result: Summary, layout: Layout) -> dict[str, Columns]:
    """Return the effects in one table; where there is no room the medians in a table of their own."""
    page = layout.rows is None
    columns = effect_columns(result, layout.wide, layout.gap, ", " if page else "\n")
    tables = {EFFECTS if page else f"{EFFECTS} (over {result.design.unit})": columns}
    if not layout.wide and "median by value" in columns:
        tables[""] = {name: columns[name] for name in ("hyperparameter", "at lengths", "median by value")}
        del columns["median by value"]
    return tables
