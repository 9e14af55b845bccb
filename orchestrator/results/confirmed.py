"""Search score and confirmed score of the same configurations, side by side, for the reports of both sweeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from orchestrator.errors import LengthwiseError
from orchestrator.record.state.lineage import CONFIRMS, confirmations_of, planned_seeds, searches_of
from orchestrator.record.state.state import SweepState
from orchestrator.results.ran_under import differing_code, record_configurations
from orchestrator.results.summarise import summary
from orchestrator.results.summary import REMEMBERED, Row, Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.wording import first_few, label, spans


@dataclass(frozen=True, kw_only=True)
class ConfirmedRow:
    """One configuration: its rank in the search, its score there and on fresh seeds, at selection and test lengths."""

    config_id: str
    number: int | None
    values: dict[str, Any]
    search_rank: int
    search: Quartiles
    confirmed: Quartiles | None
    search_test: Quartiles | None
    confirmed_test: Quartiles | None
    seeds_run: int
    seeds_failed: int


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """One confirmation of a sweep; `unfinished` is its state, empty if it has finished.

    `again_used` are the seeds that the search has used since. `searched` counts the configurations of the search.
    `other_code` names the parts of the code that differ between the confirmation and the search.
    """

    name: str
    folder: Path
    parent: str
    seeds: tuple[int, ...]
    again_used: tuple[int, ...]
    other_code: tuple[str, ...]
    unfinished: str
    searched: int
    rows: tuple[ConfirmedRow, ...]

    @property
    def sentence(self) -> str:
        """Which configurations were confirmed on which seeds, and whether these are independent of the selection."""
        state = f" ({self.unfinished})" if self.unfinished else ""
        worth = "which no selection used"
        if self.again_used:
            worth = f"of which the search has since used {spans(self.again_used)}: not independent of the selection"
        first = [row.search_rank for row in self.rows] == list(range(1, len(self.rows) + 1))
        named = f"the first {len(self.rows)}" if first else ", ".join(label(row.number) for row in self.rows)
        if self.other_code:
            parts = first_few(self.other_code)
            worth += f", and with other code than the search ({parts}): not a score of the same configurations"
        count = f"{named} of {self.searched} configurations"
        return (
            f"Sweep {self.name}{state} trained {count} of {self.parent} again: the confirmed score is on seeds "
            f"{spans(self.seeds)}, {worth}"
        )


def read_search_labels(provenance: Mapping[str, Any]) -> dict[int, str]:
    """Return the labels in the search of the configurations of a confirmation, by number; empty for a search."""
    recorded = provenance.get(CONFIRMS, {}).get("configurations", ())
    return {number: label(configuration.get("number")) for number, configuration in enumerate(recorded)}


def match_search(state: SweepState) -> list[tuple[Mapping[str, Any], str | None]]:
    """Return the record of each confirmed configuration in its search, with its config_id here (None if not drawn).

    They are matched by order, not by config_id: an older search may have named its configurations by another rule.
    """
    recorded = state.provenance.get(CONFIRMS, {}).get("configurations", ())
    return [
        (configuration, state.draws[i].config_id if i in state.draws else None)
        for i, configuration in enumerate(recorded)
    ]


@lru_cache(REMEMBERED)
def read_confirmations(result: Summary) -> tuple[Confirmed, ...]:
    """Return the confirmations of a sweep that are in its storage folder; if it is one itself, it comes first.

    Confirmations whose ledger or curves cannot be read are left out; their own reports raise the error.
    """
    state, confirmations = result.state, list[Confirmed]()
    if CONFIRMS in state.provenance:
        searches = [search.folder for search in searches_of(state)]
        confirmations.append(_confirmed(result, SweepState.load(searches[0]) if searches else None))
    for confirmation in confirmations_of(state):
        try:
            confirmations.append(_confirmed(summary(SweepState.load(confirmation.folder)), state))
        except LengthwiseError:
            continue
    return tuple(confirmations)


def _confirmed(result: Summary, search: SweepState | None) -> Confirmed:
    """Return a confirmation from its own summary; `search` is the state of its search, if it is found."""
    confirms, seeds = result.state.provenance[CONFIRMS], tuple(sorted(planned_seeds(result.state)))
    rows = result.by_config_id
    return Confirmed(
        name=result.name,
        folder=result.folder,
        parent=confirms["sweep"],
        seeds=seeds,
        again_used=tuple(sorted(set(seeds) & planned_seeds(search))) if search else (),
        other_code=_other_code(result, search) if search else (),
        unfinished="" if result.finished else result.status,
        searched=confirms["of"],
        rows=tuple(_confirmed_row(rows.get(name or ""), recorded) for recorded, name in match_search(result.state)),
    )


def _other_code(result: Summary, search: SweepState) -> tuple[str, ...]:
    """Return the parts of the code that differ between a confirmation and its search."""
    then, keys = record_configurations(search), dict[str, tuple[str | None, str | None]]()
    for recorded, name in match_search(result.state):
        before, now = then.get(recorded["config_id"]), result.recorded.get(name or "")
        keys |= differing_code(before.code, now.code) if before and now else {}
    return tuple(sorted(keys))


def _confirmed_row(row: Row | None, recorded: Mapping[str, Any]) -> ConfirmedRow:
    done = row is not None and row.complete
    return ConfirmedRow(
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
