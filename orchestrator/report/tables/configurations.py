"""The columns of the table of configurations, and the table of search score beside confirmed score."""

import statistics
from collections.abc import Callable
from operator import attrgetter

from orchestrator.report.tables.columns import NONE, Columns, Section, make_cells, quartile_text
from orchestrator.results.confirmed import Confirmed, read_search_labels
from orchestrator.results.outcomes import searched_value
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.wording import compact_value, label, short_keys, spans, three_digits

CONFIG_ID, IN_SEARCH = "config_id", "in search"


def place_columns(result: Summary) -> Columns:
    """Return the columns rank, label, label in the search (of a confirmation) and config_id."""
    in_search = read_search_labels(result.state.provenance)
    return {
        "rank": lambda row: str(row.rank) if row.rank else row.unranked,
        "label": lambda row: label(row.number),
        IN_SEARCH: lambda row: in_search.get(row.number, "-"),
        CONFIG_ID: lambda row: row.config_id,
    }


def value_columns(result: Summary) -> Columns:
    """Return one column per searched key, by its whole key where the short one is the heading of another column."""
    headings = {*place_columns(result), *result_columns(result, lengths=False)}

    def value(key: str) -> Callable[[Row], str]:
        return lambda row: compact_value(searched_value(result, row, key, NONE))

    short = short_keys(list(result.searched))
    return {key if name in headings else name: value(key) for key, name in short.items()}


def result_columns(result: Summary, *, lengths: bool = True) -> Columns:
    """Return score, medians at trained, selection and test lengths, reach and counts of seeds.

    The judged metric on other distributions follows. Headings name the `lengths` if all configurations have the same.
    """
    infinite = result.infinite

    def heading(group: str, groups: set[LengthGroups], metric: str = "") -> str:
        name = f"{metric} {group}".strip()
        return f"{name} {spans(getattr(next(iter(groups)), group))}" if lengths and len(groups) == 1 else name

    columns: Columns = {"score": lambda row: three_digits(row.score, infinite)}
    common = {row.groups for row in result.rows}
    for group in ("trained", "selection", "test"):
        columns[heading(group, common)] = quartile_text(attrgetter(group), infinite)
    for metric, group in dict.fromkeys(one for row in result.rows for one in row.other_distributions):
        measured = {result.groups(row, metric) for row in result.rows if (metric, group) in row.other_distributions}
        columns[heading(group, measured, metric)] = quartile_text(read_other_distribution(metric, group), infinite)
    if result.objective.threshold is not None:
        columns["reach"] = lambda row: "-" if row.generalization_length is None else str(row.generalization_length)
    if result.race is not None:
        columns["rounds"] = lambda row: str(row.rounds)
    columns["seeds"] = lambda row: str(row.seeds_run) if row.complete else f"{row.seeds_run} of {row.seeds_planned}"
    columns["failed"] = lambda row: str(row.seeds_failed)
    if result.may_stop:
        columns["stopped"] = _stopped
    if len({row.form for row in result.rows}) > 1:
        columns["form"] = lambda row: row.form or "-"
    return columns


def read_other_distribution(metric: str, group: str) -> Callable[[Row], Quartiles | None]:
    """Return a function that reads the judged metric on another distribution from a row."""
    return lambda row: row.other_distributions.get((metric, group))


def _stopped(row: Row) -> str:
    steps = row.stopped_at
    return f"{len(steps)} [{statistics.median(steps):,g}]" if steps else "0"


def confirmation_section(result: Summary, one: Confirmed) -> Section:
    """Return search score beside confirmed score, at the selection and at the test lengths."""

    names = short_keys(list(dict.fromkeys(key for row in one.rows for key in row.values)))
    columns: Columns = {
        "search rank": lambda row: str(row.search_rank),
        IN_SEARCH: lambda row: label(row.number),
        "search score": quartile_text(attrgetter("search"), result.infinite),
        "confirmed score": quartile_text(attrgetter("confirmed"), result.infinite),
        "test, search": quartile_text(attrgetter("search_test"), result.infinite),
        "test, confirmed": quartile_text(attrgetter("confirmed_test"), result.infinite),
        "seeds": lambda row: str(row.seeds_run),
        "failed": lambda row: str(row.seeds_failed),
        "searched values": lambda row: (
            ", ".join(f"{names[k]} {compact_value(v)}" for k, v in row.values.items()) or "-"
        ),
    }
    return Section(
        heading="Search score and confirmed score", cells=make_cells(one.rows, columns), paragraphs=[f"{one.sentence}."]
    )
