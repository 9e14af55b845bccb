"""Search score and confirmed score of the same configurations, side by side, for the reports of both sweeps."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import LengthwiseError
from orchestrator.record.lineage import CONFIRMS, confirmations_of, planned_seeds, relative, searches_of
from orchestrator.record.state import SweepState
from orchestrator.results.summary import Quartiles, Row, Summary, summary
from orchestrator.wording import spans


@dataclass(frozen=True, kw_only=True)
class ConfirmedRow:
    """One configuration: its place in the search, its score there and on fresh seeds, at selection and test lengths."""

    config_id: str
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
    """One confirmation of one sweep; `again_used` are those of its seeds that the search has used since."""

    name: str
    folder: Path
    parent: str
    seeds: tuple[int, ...]
    again_used: tuple[int, ...]
    finished: bool
    of: int
    rows: tuple[ConfirmedRow, ...]

    @property
    def sentence(self) -> str:
        """What was confirmed on which seeds, and whether they are independent of the selection."""
        state = "" if self.finished else " (UNFINISHED)"
        worth = "which no selection used"
        if self.again_used:
            worth = f"of which the search has since used {spans(self.again_used)}: not independent of the selection"
        count = f"the first {len(self.rows)} of {self.of} configurations"
        return (
            f"Sweep {self.name}{state} trained {count} of {self.parent} again: the confirmed score is on seeds "
            f"{spans(self.seeds)}, {worth}"
        )


def read_confirmed(result: Summary) -> tuple[Confirmed, ...]:
    """What confirms a sweep among those beside it; for a confirmation, first itself against its search.

    Confirmations whose ledger or curves cannot be read are left out: they say so in their own report.
    """
    state = SweepState.load(result.folder)
    found = []
    if CONFIRMS in result.provenance:
        searches = [one.folder for one in searches_of(state)]
        found.append(_confirmed(state, result, SweepState.load(searches[0]) if searches else None))
    for one in confirmations_of(state):
        try:
            other = SweepState.load(one.folder)
            found.append(_confirmed(other, summary(other), state))
        except LengthwiseError:
            continue
    return tuple(found)


def in_search(state: SweepState) -> list[tuple[Mapping[str, Any], str | None]]:
    """What a confirmation keeps of each configuration of its search, with the config_id that it has here, if drawn.

    The configurations of a confirmation come in the order of that list. Names are not compared: the search may be older
    than the rule by which new configurations are named.
    """
    recorded = state.provenance.get(CONFIRMS, {}).get("configurations", ())
    return [(one, state.draws[i].config_id if i in state.draws else None) for i, one in enumerate(recorded)]


def _confirmed(state: SweepState, result: Summary, search: SweepState | None) -> Confirmed:
    """A confirmation from its own summary; `search` tells whether the search was extended onto its seeds since."""
    confirms, seeds = result.provenance[CONFIRMS], relative(result.folder).seeds
    rows = {row.config_id: row for row in result.rows}
    return Confirmed(
        name=result.name,
        folder=result.folder,
        parent=confirms["sweep"],
        seeds=seeds,
        again_used=tuple(sorted(set(seeds) & planned_seeds(search))) if search else (),
        finished=result.finished,
        of=confirms["of"],
        rows=tuple(_row(rows.get(name or ""), recorded) for recorded, name in in_search(state)),
    )


def _row(row: Row | None, recorded: Mapping[str, Any]) -> ConfirmedRow:
    done = row is not None and row.complete
    return ConfirmedRow(
        config_id=recorded["config_id"],
        values=recorded["values"],
        search_rank=recorded["rank"],
        search=Quartiles(*recorded["score"]),
        confirmed=Quartiles(row.score, row.score_q25, row.score_q75)
        if row is not None and done and row.score is not None
        else None,
        search_test=Quartiles(*recorded["test"]) if recorded["test"] else None,
        confirmed_test=row.test if row is not None and done else None,
        seeds_run=row.seeds_run if row is not None else 0,
        seeds_failed=row.seeds_failed if row is not None else 0,
    )
