"""Where a sweep comes from: the sweep that it confirms or continues, or imported results; and which seeds were used.

A confirmation keeps in its provenance, under `confirms`, the sweep it took its configurations from, by name and
specification hash, and the root: the sweep at which a chain of confirmations began. A sweep that trains another one's
members for more steps keeps, under `continues`, the folder of that sweep and the pack of each member there. Imported
results keep, under `imported`, their source, and of its `program` the SHA-256 of the table.
"""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import DamagedLedger, LedgerError, UserError
from orchestrator.record.ledger.fields import find_problem
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.ledger.records import LEDGER_FILE, read_first_record
from orchestrator.record.state.parts import PackState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import command

CONFIRMS, CONTINUES, IMPORTED = "confirms", "continues", "imported"


@dataclass(frozen=True)
class SweepIdentity:
    """A sweep by name and specification hash; the same sweep run again has the same one."""

    sweep: str
    spec_hash: str


@dataclass(frozen=True, kw_only=True)
class SweepLineage:
    """The sweep that a sweep confirms, None for a search, and the root of its chain of confirmations.

    `confirms` is what its first record has of that; a search is its own root. `continues` is the name of the folder of
    the sweep whose members it trains further, None without one.
    """

    folder: Path
    identity: SweepIdentity
    confirms: dict[str, Any] | None
    parent: SweepIdentity | None
    root: SweepIdentity
    continues: str | None


def read_lineage(folder: Path) -> SweepLineage:
    """Return the lineage of the sweep in `folder`; raises what reading its ledger raises."""
    first = read_first_record(folder)
    if problem := find_problem(first.kind, first.fields):
        raise DamagedLedger(folder / LEDGER_FILE, 1, problem)
    identity, origin = SweepIdentity(first.fields["name"], first.fields["spec_hash"]), first.fields["provenance"]
    confirms, continues = origin.get(CONFIRMS), (origin.get(CONTINUES) or {}).get("folder")
    parent, root = (_read_identity(confirms), _read_identity(confirms["root"])) if confirms else (None, identity)
    return SweepLineage(
        folder=folder, identity=identity, confirms=confirms, parent=parent, root=root, continues=continues
    )


def _read_identity(reference: dict[str, Any]) -> SweepIdentity:
    return SweepIdentity(reference["sweep"], reference["spec_hash"])


def read_lineages(storage: Path, *, strict: bool) -> Iterator[SweepLineage]:
    """Yield the sweeps of a storage folder by name. Unreadable ledgers are an error if `strict`, else left out."""
    for ledger in sorted(storage.glob(f"*/{LEDGER_FILE}")):
        with nullcontext() if strict else suppress(LedgerError):
            yield read_lineage(ledger.parent)


def find_confirmations(state: SweepState) -> list[SweepLineage]:
    """Return the sweeps beside `state` that confirm it, by name."""
    identity = SweepIdentity(state.name, state.spec_hash)
    siblings = read_lineages(state.folder.resolve().parent, strict=False)
    return [sweep for sweep in siblings if sweep.parent == identity]


def find_confirmed_sweeps(state: SweepState) -> list[SweepLineage]:
    """Return the sweep that a confirmation confirms, if it is still beside it."""
    parent = read_lineage(state.folder).parent
    siblings = read_lineages(state.folder.resolve().parent, strict=False)
    return [sweep for sweep in siblings if sweep.identity == parent]


def list_planned_seeds(state: SweepState) -> set[int]:
    """Return the seeds of a sweep: those of its specification, and further ones of single configurations."""
    return {*state.spec.get("seeds", ()), *(seed for name in state.more_seeds for seed in state.planned_seeds(name))}


def find_used_seeds(state: SweepState) -> dict[int, str]:
    """Return the seeds used by the sweep or its chain of confirmations, each with the sweep that used it.

    So are those of the sweep that it continues, and of the confirmations of that one.
    A ledger in the storage folder that cannot be read is an error: whether its seeds are used cannot be known.
    """
    used: dict[int, str] = {}
    for sweep in reversed(_load_continued_sweeps(state)):
        used |= find_seeds_of_others(sweep, strict=True) | dict.fromkeys(sorted(list_planned_seeds(sweep)), sweep.name)
    return used


def _load_continued_sweeps(state: SweepState) -> list[SweepState]:
    """Return the sweep, the one that it continues, the one that this continues, and so on."""
    sweeps, folders = [state], {state.folder.resolve()}
    while (continues := sweeps[-1].provenance.get(CONTINUES)) is not None:
        before = (sweeps[-1].folder.resolve().parent / continues["folder"]).resolve()
        if before in folders or not has_ledger(before):
            break
        sweeps.append(SweepState.load(before))
        folders.add(before)
    return sweeps


def find_seeds_of_others(state: SweepState, *, strict: bool) -> dict[int, str]:
    """Return the seeds used by other sweeps of its chain of confirmations, each with the sweep that used it.

    Ledgers in the storage folder that cannot be read are an error if `strict`, else left out.
    """
    used: dict[int, str] = {}
    this_sweep, here = read_lineage(state.folder), state.folder.resolve()
    for sweep in read_lineages(here.parent, strict=strict):
        if sweep.root == this_sweep.root and sweep.folder.resolve() != here:
            with nullcontext() if strict else suppress(LedgerError):
                seeds = sorted(list_planned_seeds(SweepState.load(sweep.folder)))
                used |= {seed: sweep.identity.sweep for seed in seeds if seed not in used}
    earlier = (this_sweep.confirms or {}).get("used_seeds", ())  # also of sweeps that are no longer there
    return used | {seed: this_sweep.root.sweep for seed in earlier if seed not in used}


def list_earlier_states(state: SweepState, pack: PackState) -> list[list[tuple[str, str, int]]]:
    """Return where members of a pack may have checkpoints, as lists of (folder, config_id there, seed), one per member.

    The first list whose folders all have checkpoints is used. First come the packs that this one replaces, the newest
    first, then the packs of the sweep that this one continues.
    """
    folder = state.folder.resolve() / "checkpoints"
    states = [[(str(folder / name), config_id, seed) for config_id, seed in pack.members] for name in pack.earlier]
    continued = _list_continued_states(state, pack.members)
    return states if continued is None else [*states, continued]


def has_checkpoint(state: SweepState, pack: PackState) -> bool:
    """Return whether a pack, or an earlier pack for each of its members, has a checkpoint on this machine."""
    current = [(str(state.folder / "checkpoints" / pack.pack_id), *member) for member in pack.members]
    return any(
        all(any(Path(folder).glob("step-*.ckpt")) for folder, _, _ in members)
        for members in (current, *list_earlier_states(state, pack))
    )


def continues_member(state: SweepState, config_id: str, seed: int) -> bool:
    """Return whether the sweep that this one continues, if it continues one, has trained this member."""
    return _list_continued_states(state, [(config_id, seed)]) is not None


def _list_continued_states(state: SweepState, ids: Iterable[tuple[str, int]]) -> list[tuple[str, str, int]] | None:
    """Return the checkpoints of members in the sweep that this sweep continues.

    None if it continues none, or if a member was in none of its packs.
    """
    if (continues := state.provenance.get(CONTINUES)) is None:
        return None
    folder, states = state.folder.resolve().parent / continues["folder"] / "checkpoints", []
    for config_id, seed in ids:
        before = continues["configurations"].get(config_id)
        pack_id = before["packs"].get(str(seed)) if before else None
        if pack_id is None:
            return None
        states.append((str(folder / pack_id), before["config_id"], seed))
    return states


def refuse_imported(state: SweepState) -> None:
    """Raise UserError for a sweep of imported results, whose members cannot be trained or evaluated."""
    if (imported := state.provenance.get(IMPORTED)) is not None:
        raise UserError(
            f"{state.folder}: was imported from {imported['source']}, so its members cannot be trained or evaluated "
            f"here; allowed: what reads results, such as {command('report', state.folder)}"
        )
