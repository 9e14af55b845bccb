"""The tables of configurations, and of search scores beside confirmed scores."""

import json
import math
import statistics
from collections.abc import Callable, Collection
from functools import partial
from operator import attrgetter
from typing import Any

from orchestrator.record.state.labels import make_label
from orchestrator.report.tables.columns import (
    MISSING_TEXT,
    Column,
    Columns,
    Records,
    Section,
    format_cell,
    make_cells,
    make_records,
    parse_columns,
)
from orchestrator.results.confirmation import Confirmation, read_search_labels
from orchestrator.results.outcomes import get_searched_value
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.wording import (
    compact_value,
    format_label,
    format_number,
    format_ranges,
    format_steps,
    shorten_keys,
)

CONFIG_ID, IN_SEARCH = "config_id", "in search"
OTHERS = "others"  # the seeds that did not fail


def format_ranks(summary: Summary) -> dict[str, str]:
    """Return the rank of every ranked configuration as text by config_id; equal scores share the first rank: "1=".

    Ranks as numbers, in files and for commands, are all different: the number of the configuration decides.
    """
    first_by_score = dict[tuple[float | None, int], list[int]]()
    for row in summary.rows:
        if row.rank is not None:
            first_by_score.setdefault((row.score, row.rounds), []).append(row.rank)
    ranks = {key: f"{min(tied)}=" if len(tied) > 1 else f"{tied[0]}" for key, tied in first_by_score.items()}
    return {row.config_id: ranks[row.score, row.rounds] for row in summary.rows if row.rank is not None}


def make_identity_columns(summary: Summary) -> Columns:
    """Return the columns that identify a configuration: rank, label, config_id, and number."""
    ranks = format_ranks(summary)
    provenance = summary.state.provenance
    own_numbers = "number" if read_search_labels(provenance) else ""  # for commands, where labels are of the search
    return [
        Column("rank", lambda row: row.rank or "", "rank", lambda row: ranks.get(row.config_id, row.why_unranked)),
        Column("label", lambda row: make_label(provenance, row.number)),
        Column(CONFIG_ID, attrgetter("config_id"), "config_id"),
        Column(own_numbers, attrgetter("number"), "number"),
    ]


def make_value_columns(summary: Summary) -> Columns:
    """Return a column for each searched key, headed by the short key unless another column has this heading."""
    # A short key must not look like another column.
    headings = {column.heading for column in (*make_identity_columns(summary), *make_result_columns(summary))}

    def make_column(key: str, short: str) -> Column:
        return Column(
            key if short in headings else short,
            lambda row: _encode_value(get_searched_value(summary, row, key, "")),
            key,
            lambda row: compact_value(get_searched_value(summary, row, key, MISSING_TEXT)),
        )

    return [make_column(key, short) for key, short in shorten_keys([*summary.searched]).items()]


def make_result_columns(summary: Summary) -> Columns:
    """Return the columns of results: score, medians by group of lengths and distribution, reach, counts of seeds."""
    # The page leaves out columns without any value, so every possible group and distribution has its columns.
    groups = [
        Column(
            group,
            attrgetter(f"{group}_quartiles"),
            f"{group}_median",
            partial(_describe_outcome, summary, group),
            quartiles=True,
        )
        for group in ("trained", "selection", "test")
    ]
    distribution_columns = [
        Column(f"{metric} {group}", _read_other_distribution(metric, group), f"{metric}_{group}_median", quartiles=True)
        for metric, group in dict.fromkeys(key for row in summary.rows for key in row.other_distributions)
    ]

    # Only some sweeps have a reach, rounds of a race, or early stopping.
    reach = "reach" if summary.objective.threshold is not None else ""
    rounds = "rounds" if summary.race else ""
    stopped = [
        Column("stopped", attrgetter("stop_steps"), text=_describe_stopped),
        Column("", lambda row: len(row.stop_steps), "seeds_stopped"),
        Column("", lambda row: statistics.median(row.stop_steps) if row.stop_steps else "", "stopped_at_median"),
    ]
    return [
        Column(
            "score",
            attrgetter("score_quartiles"),
            "score",
            lambda row: format_number(row.score, summary.infinity_text),
            True,
        ),
        *groups,
        *distribution_columns,
        Column(reach, attrgetter("generalization_length"), "generalization_length"),
        Column(rounds, attrgetter("rounds")),
        *parse_columns("area_beyond seeds_planned"),
        Column(
            "seeds",
            attrgetter("seeds_run"),
            "seeds_run",
            lambda row: str(row.seeds_run) if row.is_complete else f"{row.seeds_run} of {row.seeds_planned}",
        ),
        Column("failed", attrgetter("seeds_failed"), "seeds_failed"),
        *parse_columns("seeds_crashed"),
        *(stopped if summary.has_early_stops else ()),
        *(parse_columns("rounds pruned_at" if summary.race.rungs else "rounds") if summary.race else ()),
        *parse_columns("complete=is_complete failed=has_failed"),
        Column(
            "form" if len({row.form for row in summary.rows}) > 1 else "",
            attrgetter("form"),
            "form",
            lambda row: row.form or MISSING_TEXT,
        ),
    ]


def make_configuration_records(summary: Summary) -> Records:
    """Return a line of report.csv for every configuration, by rank."""
    return make_records(
        summary.rows, [*make_identity_columns(summary), *make_value_columns(summary), *make_result_columns(summary)]
    )


def _read_other_distribution(metric: str, group: str) -> Callable[[ConfigurationResult], Any]:
    """Return a function that reads the quartiles of a metric on another distribution."""
    return lambda row: row.other_distributions.get((metric, group))


def _describe_outcome(summary: Summary, group: str, row: ConfigurationResult) -> str:
    """Return the quartiles at a group of lengths, and the other seeds' median if failed seeds made it infinite."""
    quartiles = getattr(row, f"{group}_quartiles")
    text = format_cell(quartiles, summary.infinity_text)
    if not row.seeds_failed or quartiles is None or not math.isinf(quartiles.median):
        return text

    # Quartiles say nothing here, but the seeds that did not fail may have learned well.
    median = compute_median_of_others(summary, row, getattr(row.groups, group))
    infinite = format_number(quartiles.median, summary.infinity_text)
    return text if median is None else f"{infinite} ({OTHERS} {format_number(median)})"


def compute_median_of_others(summary: Summary, row: ConfigurationResult, lengths: Collection[int]) -> float | None:
    """Return the median over the seeds that did not fail, of their means over `lengths`; None if all failed.

    None, too, for a metric that seeds may never reach: then the median is not infinite for failed seeds alone.
    """
    if summary.objective.metric in summary.unreached_metrics:
        return None
    band = summary.find_judged_band(row)
    values = band.reduce_seed_curves(lengths, "mean").values() if band else ()
    finished = [value for value in values if math.isfinite(value)]
    return statistics.median(finished) if finished else None


def _describe_stopped(row: ConfigurationResult) -> str:
    """Return how many seeds stopped early, with the median of their steps."""
    steps = row.stop_steps
    return f"{len(steps)} [{format_steps(statistics.median(steps))}]" if steps else "0"


def _encode_value(value: Any) -> Any:
    """Return a value for a CSV cell: texts and numbers unchanged, others as JSON."""
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else json.dumps(value)


def _make_confirmation_columns(confirmation: Confirmation) -> Columns:
    """Return the columns of a confirmation: scores in the search beside confirmed scores."""
    names = shorten_keys(list(dict.fromkeys(key for row in confirmation.rows for key in row.values)))

    # Searched values are a single column on the page, by their short keys.
    def describe_values(row: Any) -> str:
        return ", ".join(f"{names[key]} {compact_value(value)}" for key, value in row.values.items()) or MISSING_TEXT

    return [
        # The file names the sweeps in every line, because it may have several confirmations.
        Column("", lambda row: confirmation.name, "confirmation"),
        Column("", lambda row: confirmation.parent, "search"),
        *parse_columns("config_id"),
        Column("search rank", attrgetter("search_rank"), "search_rank"),
        Column(IN_SEARCH, lambda row: format_label(row.number)),
        Column("", lambda row: json.dumps(row.values, ensure_ascii=False), "values"),
        Column("search score", attrgetter("search"), "search_score", quartiles=True),
        Column("confirmed score", attrgetter("confirmed"), "confirmed_score", quartiles=True),
        Column("test, search", attrgetter("search_test"), "search_test", quartiles=True),
        Column("test, confirmed", attrgetter("confirmed_test"), "confirmed_test", quartiles=True),
        Column("", lambda row: format_ranges(confirmation.seeds), "seeds"),
        Column("seeds", attrgetter("seeds_run"), "seeds_run"),
        Column("failed", attrgetter("seeds_failed"), "seeds_failed"),
        Column("searched values", describe_values),
    ]


def make_confirmation_section(summary: Summary, confirmation: Confirmation) -> Section:
    """Return the section with search scores beside confirmed scores, at the selection and at the test lengths."""
    return Section(
        heading="Search score and confirmed score",
        cells=make_cells(confirmation.rows, _make_confirmation_columns(confirmation), summary.infinity_text),
        paragraphs=[f"{confirmation.sentence}."],
    )


def make_confirmation_records(summary: Summary) -> Records:
    """Return a line of confirmed.csv for every configuration of every confirmation."""
    confirmations = read_confirmations(summary)
    return [
        line
        for confirmation in confirmations
        for line in make_records(confirmation.rows, _make_confirmation_columns(confirmation))
    ]
