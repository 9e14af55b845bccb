"""Read the confirmations of a sweep from its storage folder, with the scores of the search."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestrator.errors import LengthwiseError
from orchestrator.record.state.lineage import CONFIRMS, collect_planned_seeds, find_confirmations, find_confirmed_sweeps
from orchestrator.record.state.state import SweepState
from orchestrator.results.comparing.seed_comparisons import SeedComparison, Side, compare_at_first_group
from orchestrator.results.confirmation import Confirmation, ConfirmationRow, match_search, read_search_labels
from orchestrator.results.make_summary import summarize
from orchestrator.results.pack_environments import find_differing_code, record_configurations
from orchestrator.results.summary import CACHED_SUMMARIES, ConfigurationResult, Summary
from orchestrator.statistics.quartiles import Quartiles


@lru_cache(CACHED_SUMMARIES)
def read_confirmations(summary: Summary) -> tuple[Confirmation, ...]:
    """Return the confirmations of a sweep in its storage folder, first the sweep itself if it is a confirmation.

    Confirmations whose ledger or curves cannot be read are left out; a report on them raises the error.
    """
    # A report on a confirmation shows this confirmation, too; its search may have been deleted.
    state = summary.state
    confirmations = list[Confirmation]()
    if CONFIRMS in state.provenance:
        searches = [search.folder for search in find_confirmed_sweeps(state)]
        confirmations.append(_make_confirmation(summary, SweepState.load(searches[0]) if searches else None))

    # A damaged confirmation must not hide the others.
    for confirmation in find_confirmations(state):
        try:
            confirmations.append(_make_confirmation(summarize(SweepState.load(confirmation.folder)), state))
        except LengthwiseError:
            continue
    return tuple(confirmations)


def has_fresh_seeds(summary: Summary) -> bool:
    """Return whether this is a confirmation on seeds that its search has not used."""
    reused = any(confirmation.reused_seeds for confirmation in read_confirmations(summary))
    return bool(read_search_labels(summary.state.provenance)) and not reused


def _make_confirmation(summary: Summary, search: SweepState | None) -> Confirmation:
    """Return a confirmation from its summary and the state of its search, None if the search is missing."""
    # Scores of the search were copied into the provenance, so they are known even if the search is gone.
    confirms = summary.state.provenance[CONFIRMS]
    seeds = tuple(sorted(collect_planned_seeds(summary.state)))
    rows = summary.by_config_id
    return Confirmation(
        name=summary.name,
        folder=summary.folder,
        parent=confirms["sweep"],
        seeds=seeds,
        reused_seeds=tuple(sorted(set(seeds) & collect_planned_seeds(search))) if search else (),
        changed_code=_list_changed_code(summary, search) if search else (),
        unfinished="" if summary.has_ended else summary.status,
        search_size=confirms["of"],
        rows=tuple(
            _make_row(rows.get(config_id or ""), recorded) for recorded, config_id in match_search(summary.state)
        ),
        comparison=_compare_first_two(summary),
    )


def _compare_first_two(summary: Summary) -> SeedComparison | None:
    """Return the comparison of the search's first two configurations on the seeds of their confirmation.

    They were ranked first before these seeds were trained, so neither is favoured. None for an unfinished confirmation,
    or if the two cannot be compared.
    """
    rows = [summary.by_config_id.get(config_id or "") for _, config_id in match_search(summary.state)[:2]]
    sides = [Side(summary, row) for row in rows if row is not None and row.is_complete]
    if not summary.has_ended or len(sides) < 2:
        return None
    return compare_at_first_group(sides[0], sides[1], "confirmation")


def _list_changed_code(summary: Summary, search: SweepState) -> tuple[str, ...]:
    """Return the parts of the code that differ between a confirmation and its search."""
    search_records = record_configurations(search)
    changed_parts = set[str]()
    for recorded, config_id in match_search(summary.state):
        searched = search_records.get(recorded["config_id"])
        confirmed = summary.provenance.get(config_id or "")
        if searched and confirmed:
            changed_parts |= find_differing_code(searched.code, confirmed.code).keys()
    return tuple(sorted(changed_parts))


def _make_row(row: ConfigurationResult | None, recorded: Mapping[str, Any]) -> ConfirmationRow:
    """Return a confirmed configuration from its row in the confirmation (None if missing) and the search's record."""
    finished_row = row if row is not None and row.is_complete else None
    return ConfirmationRow(
        config_id=recorded["config_id"],
        number=recorded.get("number"),
        values=recorded["values"],
        search_rank=recorded["rank"],
        search=_parse_quartiles(recorded["score"]),
        confirmed=finished_row.score_quartiles if finished_row else None,
        confirmed_rank=finished_row.rank if finished_row else None,
        search_test=_parse_quartiles(recorded["test"]) if recorded["test"] else None,
        confirmed_test=finished_row.test_quartiles if finished_row else None,
        seeds_run=row.seeds_run if row is not None else 0,
        seeds_failed=row.seeds_failed if row is not None else 0,
    )


def _parse_quartiles(recorded: Sequence[float]) -> Quartiles:
    """Return quartiles from a record, in which the median comes first."""
    median, q25, q75 = recorded
    return Quartiles(q25=q25, median=median, q75=q75)
