"""Find the confirmations of a sweep in its storage folder, and compare their scores with those of the search."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestrator.errors import LengthwiseError
from orchestrator.record.state.lineage import CONFIRMS, find_confirmations, find_confirmed_sweeps, list_planned_seeds
from orchestrator.record.state.state import SweepState
from orchestrator.results.confirmed import Confirmation, ConfirmationRow, match_search
from orchestrator.results.pack_environments import differing_code, record_configurations
from orchestrator.results.summarise import summarise
from orchestrator.results.summary import REMEMBERED, Row, Summary
from orchestrator.statistics.quartiles import Quartiles


@lru_cache(REMEMBERED)
def read_confirmations(result: Summary) -> tuple[Confirmation, ...]:
    """Return the confirmations of a sweep that are in its storage folder; if it is one itself, it comes first.

    Confirmations whose ledger or curves cannot be read are left out; their own reports raise the error.
    """
    state, confirmations = result.state, list[Confirmation]()
    if CONFIRMS in state.provenance:
        searches = [search.folder for search in find_confirmed_sweeps(state)]
        confirmations.append(_confirmed(result, SweepState.load(searches[0]) if searches else None))
    for confirmation in find_confirmations(state):
        try:
            confirmations.append(_confirmed(summarise(SweepState.load(confirmation.folder)), state))
        except LengthwiseError:
            continue
    return tuple(confirmations)


def _confirmed(result: Summary, search: SweepState | None) -> Confirmation:
    """Return a confirmation from its own summary; `search` is the state of its search, if it is found."""
    confirms, seeds = result.state.provenance[CONFIRMS], tuple(sorted(list_planned_seeds(result.state)))
    rows = result.by_config_id
    return Confirmation(
        name=result.name,
        folder=result.folder,
        parent=confirms["sweep"],
        seeds=seeds,
        reused_seeds=tuple(sorted(set(seeds) & list_planned_seeds(search))) if search else (),
        other_code=_other_code(result, search) if search else (),
        unfinished="" if result.finished else result.status,
        searched=confirms["of"],
        rows=tuple(_confirmed_row(rows.get(name or ""), recorded) for recorded, name in match_search(result.state)),
    )


def _other_code(result: Summary, search: SweepState) -> tuple[str, ...]:
    """Return the parts of the code that differ between a confirmation and its search."""
    then, keys = record_configurations(search), dict[str, tuple[str | None, str | None]]()
    for recorded, name in match_search(result.state):
        before, current = then.get(recorded["config_id"]), result.recorded.get(name or "")
        keys |= differing_code(before.code, current.code) if before and current else {}
    return tuple(sorted(keys))


def _confirmed_row(row: Row | None, recorded: Mapping[str, Any]) -> ConfirmationRow:
    done = row is not None and row.complete
    return ConfirmationRow(
        config_id=recorded["config_id"],
        number=recorded.get("number"),
        values=recorded["values"],
        search_rank=recorded["rank"],
        search=_quartiles(recorded["score"]),
        confirmed=row.scored if row is not None and done else None,
        search_test=_quartiles(recorded["test"]) if recorded["test"] else None,
        confirmed_test=row.test if row is not None and done else None,
        seeds_run=row.seeds_run if row is not None else 0,
        seeds_failed=row.seeds_failed if row is not None else 0,
    )


def _quartiles(recorded: Sequence[float]) -> Quartiles:
    """Return recorded quartiles, in which the median comes first."""
    median, q25, q75 = recorded
    return Quartiles(q25=q25, median=median, q75=q75)
