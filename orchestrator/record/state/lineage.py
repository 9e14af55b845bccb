"""Which sweeps of a storage folder confirm which, and which seeds they have used: read from the ledgers' first records.

A confirmation keeps in its provenance, under `confirms`, the sweep it took its configurations from, by name and
specification hash, and the root: the sweep at which a chain of confirmations began.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import DamagedLedger, LedgerError
from orchestrator.record.ledger.fields import wrong_field
from orchestrator.record.ledger.records import LEDGER_FILE, Record, read_first_record
from orchestrator.record.state.state import SweepState

CONFIRMS = "confirms"


@dataclass(frozen=True)
class Identity:
    """A sweep by name and specification hash; the same sweep run again has the same one."""

    sweep: str
    spec_hash: str


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A sweep beside another one: what its first record says of its origin and its seeds."""

    folder: Path
    identity: Identity
    confirms: dict[str, Any] | None
    seeds: tuple[int, ...]

    @property
    def parent(self) -> Identity | None:
        """The sweep it confirms, None for a search."""
        return _identity(self.confirms) if self.confirms else None

    @property
    def root(self) -> Identity:
        """Where its chain of confirmations began; itself for a search."""
        return _identity(self.confirms["root"]) if self.confirms else self.identity


def relative(folder: Path) -> Relative:
    """The sweep in `folder`; raises what reading its ledger raises."""
    return _relative(folder, read_first_record(folder))


def relatives(storage: Path, *, damaged: bool) -> Iterator[Relative]:
    """Every sweep in the storage folder, by name. Unreadable ledgers are an error with `damaged`, else left out."""
    for ledger in sorted(storage.glob(f"*/{LEDGER_FILE}")):
        try:
            yield relative(ledger.parent)
        except LedgerError:
            if damaged:
                raise


def confirmations_of(state: SweepState) -> list[Relative]:
    """The sweeps beside `state` that confirm it, by name."""
    own = Identity(state.name, state.spec_hash)
    return [one for one in relatives(state.folder.resolve().parent, damaged=False) if one.parent == own]


def searches_of(state: SweepState) -> list[Relative]:
    """The sweep beside a confirmation that it confirms, if it is still there."""
    parent = relative(state.folder).parent
    return [one for one in relatives(state.folder.resolve().parent, damaged=False) if one.identity == parent]


def planned_seeds(state: SweepState) -> set[int]:
    """The seeds of a sweep: those of its specification and of every member."""
    return {*state.spec.get("seeds", ()), *(seed for seeds in state.seeds().values() for seed in seeds)}


def used_seeds(state: SweepState) -> dict[int, str]:
    """Every seed that the sweep, or any sweep of its chain of confirmations, has used, and by which sweep.

    A ledger in the storage folder that cannot be read is an error: whether its seeds are used cannot be known.
    """
    used: dict[int, str] = {}

    def note(seeds: Iterable[int], name: str) -> None:
        used.update((seed, name) for seed in sorted(seeds) if seed not in used)

    own = relative(state.folder)
    note(planned_seeds(state), state.name)
    for one in relatives(state.folder.resolve().parent, damaged=True):
        if one.root == own.root:
            note(one.seeds, one.identity.sweep)
    for earlier in (own.confirms or {}).get("used_seeds", ()):  # also of sweeps that are no longer there
        note([earlier], own.root.sweep)
    return used


def _relative(folder: Path, first: Record) -> Relative:
    fields = first.fields
    if problem := wrong_field(first.kind, fields):
        raise DamagedLedger(folder / LEDGER_FILE, 1, problem)
    return Relative(
        folder=folder,
        identity=Identity(fields["name"], fields["spec_hash"]),
        confirms=fields["provenance"].get(CONFIRMS),
        seeds=tuple(fields["spec"].get("seeds", ())),
    )


def _identity(named: dict[str, Any]) -> Identity:
    return Identity(named["sweep"], named["spec_hash"])
