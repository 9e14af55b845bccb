"""Search score and confirmed score of the same configurations, side by side, for the reports of both sweeps."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.record.state.state import SweepState
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.text.wording import first_few, label, spans


@dataclass(frozen=True, kw_only=True)
class ConfirmationRow:
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
class Confirmation:
    """One confirmation of a sweep; `unfinished` is its state, empty if it has finished.

    `reused_seeds` are the seeds that the search has used since. `searched` counts the configurations of the search.
    `other_code` names the parts of the code that differ between the confirmation and the search.
    """

    name: str
    folder: Path
    parent: str
    seeds: tuple[int, ...]
    reused_seeds: tuple[int, ...]
    other_code: tuple[str, ...]
    unfinished: str
    searched: int
    rows: tuple[ConfirmationRow, ...]

    @property
    def sentence(self) -> str:
        """Which configurations were confirmed on which seeds, and whether these are independent of the selection."""
        state = f" ({self.unfinished})" if self.unfinished else ""
        worth = "which no selection used"
        if self.reused_seeds:
            worth = f"of which the search has since used {spans(self.reused_seeds)}: not independent of the selection"
        first = [row.search_rank for row in self.rows] == list(range(1, len(self.rows) + 1))
        names = f"the first {len(self.rows)}" if first else ", ".join(label(row.number) for row in self.rows)
        if self.other_code:
            parts = first_few(self.other_code)
            worth += f", and with other code than the search ({parts}): not a score of the same configurations"
        count = f"{names} of {self.searched} configurations"
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
