"""The search score and the confirmed score of the same configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.record.state.state import SweepState
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.text.wording import format_label, format_ranges, join_first_few

if TYPE_CHECKING:  # a driver reads labels from here, without pandas
    from orchestrator.results.comparing.seed_comparisons import SeedComparison


@dataclass(frozen=True, kw_only=True)
class ConfirmationRow:
    """A confirmed configuration: its rank in the search, and its scores in the search and on fresh seeds."""

    config_id: str
    number: int | None
    values: dict[str, Any]
    search_rank: int
    search: Quartiles
    confirmed: Quartiles | None
    confirmed_rank: int | None
    search_test: Quartiles | None
    confirmed_test: Quartiles | None
    seeds_run: int
    seeds_failed: int


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """A confirmation of the search `parent`; `unfinished` is its status, empty if it has finished.

    `reused_seeds` are the seeds that the search has used since. `changed_code` are the parts of the code that differ
    from the search. `search_size` counts the configurations of the search. `rows` are in the order of the search.
    `comparison` compares the first two configurations of the search on the seeds of the confirmation; it is None if
    they cannot be compared.
    """

    name: str
    folder: Path
    parent: str
    seeds: tuple[int, ...]
    reused_seeds: tuple[int, ...]
    changed_code: tuple[str, ...]
    unfinished: str
    search_size: int
    rows: tuple[ConfirmationRow, ...]
    comparison: SeedComparison | None

    @property
    def leaders(self) -> tuple[ConfirmationRow, ...]:
        """The configurations with the best confirmed score; empty before the end, or if none has a score."""
        best = {row.confirmed.median for row in self.rows if row.confirmed and row.confirmed_rank == 1}
        if self.unfinished:
            return ()
        return tuple(row for row in self.rows if row.confirmed and row.confirmed.median in best)

    @property
    def sentence(self) -> str:
        """The configurations and seeds as a sentence, and whether the seeds are independent of the selection."""
        # A confirmation is no longer independent if the search has used its seeds since, or if the code has changed.
        status = f" ({self.unfinished})" if self.unfinished else ""
        seeds_note = "which no selection used"
        if self.reused_seeds:
            seeds_note = (
                f"of which the search has since used {format_ranges(self.reused_seeds)}: not "
                "independent of the selection"
            )
        if self.changed_code:
            parts = join_first_few(self.changed_code)
            seeds_note += f", and with other code than the search ({parts}): not a score of the same configurations"

        # The usual choice, the first few by rank, needs no list of labels.
        are_first = [row.search_rank for row in self.rows] == list(range(1, len(self.rows) + 1))
        names = f"the first {len(self.rows)}" if are_first else ", ".join(format_label(row.number) for row in self.rows)
        count = f"{names} of {self.search_size} configurations"
        return (
            f"Sweep {self.name}{status} trained {count} of {self.parent} again: the confirmed score is on seeds "
            f"{format_ranges(self.seeds)}, {seeds_note}"
        )


def read_search_labels(provenance: Mapping[str, Any]) -> dict[int, str]:
    """Return the search labels of the configurations of a confirmation by their number; empty for a search."""
    recorded = provenance.get(CONFIRMS, {}).get("configurations", ())
    return {number: format_label(configuration.get("number")) for number, configuration in enumerate(recorded)}


def match_search(state: SweepState) -> list[tuple[Mapping[str, Any], str | None]]:
    """Return the search's record of each confirmed configuration, with its config_id here (None if not drawn).

    They are matched by order, because older versions computed config_ids differently.
    """
    recorded = state.provenance.get(CONFIRMS, {}).get("configurations", ())
    return [
        (configuration, state.draws[number].config_id if number in state.draws else None)
        for number, configuration in enumerate(recorded)
    ]
