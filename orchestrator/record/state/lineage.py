"""The origin of a sweep (confirmed, continued or imported), and the seeds it has used.

Keys of a sweep's provenance:

- `confirms`, in a confirmation: name and specification hash of the sweep that it confirms, and of the root, the first
  sweep in the chain of confirmations
- `continues`, in a sweep that trains members of another one for more steps: its folder, and the pack of each member
- `imported`, in imported results: their source, and whether their configurations were `drawn` at random; the SHA-256
  of their table is in `program`
"""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.addresses import find_address
from orchestrator.errors import DamagedLedger, LedgerError, UserError
from orchestrator.interface.work import get_checkpoint_folder
from orchestrator.record.ledger.folders import LEDGER_FILE, has_ledger
from orchestrator.record.ledger.record_kinds import find_record_problem
from orchestrator.record.ledger.records import read_first_record
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import format_command

CONFIRMS, CONTINUES, IMPORTED = "confirms", "continues", "imported"
DRAWN = "drawn"  # within `imported`


@dataclass(frozen=True)
class SweepIdentity:
    """A sweep by name and specification hash; a rerun of a sweep has the same identity."""

    sweep: str
    spec_hash: str


@dataclass(frozen=True, kw_only=True)
class SweepLineage:
    """The origin of a sweep: its `parent`, which it confirms, and the root of the chain of confirmations.

    `confirms` has the fields of its first record about the parent. For a search both are None, and it is its own root.
    `continues` is the folder name of the sweep whose members are trained further, or None.
    """

    folder: Path
    identity: SweepIdentity
    confirms: dict[str, Any] | None
    parent: SweepIdentity | None
    root: SweepIdentity
    continues: str | None


def read_lineage(folder: Path) -> SweepLineage:
    """Return the lineage of the sweep in `folder`. Raises what `read_first_record` raises, and DamagedLedger."""
    record = read_first_record(folder)
    if problem := find_record_problem(record.kind, record.fields):
        raise DamagedLedger(folder / LEDGER_FILE, 1, problem)

    # A sweep that confirms none is the root of its own chain.
    identity = SweepIdentity(record.fields["name"], record.fields["spec_hash"])
    provenance = record.fields["provenance"]
    confirms = provenance.get(CONFIRMS)
    continues = (provenance.get(CONTINUES) or {}).get("folder")
    parent, root = (_read_identity(confirms), _read_identity(confirms["root"])) if confirms else (None, identity)
    return SweepLineage(
        folder=folder, identity=identity, confirms=confirms, parent=parent, root=root, continues=continues
    )


def _read_identity(reference: dict[str, Any]) -> SweepIdentity:
    """Return the identity of a sweep that a provenance refers to."""
    return SweepIdentity(reference["sweep"], reference["spec_hash"])


def read_lineages(storage: Path, *, strict: bool) -> Iterator[SweepLineage]:
    """Yield the lineages in a storage folder, by sweep name. Unreadable ledgers raise if `strict`, else are skipped."""
    for ledger in sorted(storage.glob(f"*/{LEDGER_FILE}")):
        with nullcontext() if strict else suppress(LedgerError):
            yield read_lineage(ledger.parent)


def name_confirmation(name: str, number: int = 1) -> str:
    """Return the usual name of a confirmation of the sweep `name`: "quickstart-confirm", the second with a 2 behind."""
    return f"{name}-confirm{number if number > 1 else ''}"


def find_confirmations(state: SweepState) -> list[SweepLineage]:
    """Return the lineages of the sweeps in the same folder that confirm `state`, by name."""
    identity = SweepIdentity(state.name, state.spec_hash)
    siblings = read_lineages(state.folder.resolve().parent, strict=False)
    return [sweep for sweep in siblings if sweep.parent == identity]


def find_confirmed_sweeps(state: SweepState) -> list[SweepLineage]:
    """Return a list with the sweep that `state` confirms; empty if it is not in the same folder."""
    parent = read_lineage(state.folder).parent
    siblings = read_lineages(state.folder.resolve().parent, strict=False)
    return [sweep for sweep in siblings if sweep.identity == parent]


def collect_planned_seeds(state: SweepState) -> set[int]:
    """Return the seeds in the specification of a sweep, and the additional seeds of single configurations."""
    return set(state.spec.get("seeds", ())).union(*map(state.list_planned_seeds, state.additional_seeds))


def find_used_seeds(state: SweepState) -> dict[int, str]:
    """Return the seeds used by the sweep or its chain of confirmations, with the name of the sweep that used each.

    Includes the seeds of the sweep that it continues, and of the confirmations of that sweep. Raises what
    `read_lineages` raises for an unreadable ledger in the storage folder, because its seeds are unknown.
    """
    sweep_by_seed: dict[int, str] = {}
    for sweep in reversed(_load_continued_sweeps(state)):
        sweep_by_seed |= find_seeds_of_other_sweeps(sweep, strict=True)
        sweep_by_seed |= dict.fromkeys(sorted(collect_planned_seeds(sweep)), sweep.name)
    return sweep_by_seed


def _load_continued_sweeps(state: SweepState) -> list[SweepState]:
    """Return the sweep, followed by the chain of sweeps that it continues."""
    sweeps, folders = [state], {state.folder.resolve()}
    while (continues := sweeps[-1].provenance.get(CONTINUES)) is not None:
        folder = (sweeps[-1].folder.resolve().parent / continues["folder"]).resolve()
        if folder in folders or not has_ledger(folder):
            break
        sweeps.append(SweepState.load(folder))
        folders.add(folder)
    return sweeps


def find_seeds_of_other_sweeps(state: SweepState, *, strict: bool) -> dict[int, str]:
    """Return the seeds used by other sweeps of the chain of confirmations, with the name of the sweep that used each.

    Unreadable ledgers in the storage folder raise if `strict`, else are skipped.
    """
    sweep_by_seed: dict[int, str] = {}
    this_sweep, here = read_lineage(state.folder), state.folder.resolve()
    for sweep in read_lineages(here.parent, strict=strict):
        if sweep.root == this_sweep.root and sweep.folder.resolve() != here:
            with nullcontext() if strict else suppress(LedgerError):
                seeds = sorted(collect_planned_seeds(SweepState.load(sweep.folder)))
                sweep_by_seed |= {seed: sweep.identity.sweep for seed in seeds if seed not in sweep_by_seed}
    recorded_seeds = (this_sweep.confirms or {}).get("used_seeds", ())  # also of deleted sweeps
    return sweep_by_seed | {seed: this_sweep.root.sweep for seed in recorded_seeds if seed not in sweep_by_seed}


def list_checkpoint_sources(state: SweepState, pack: PackState) -> list[list[tuple[str, str, int]]]:
    """Return the possible checkpoints of a pack's members: lists of a (folder, config_id there, seed) per member.

    Use the first list whose folders all have checkpoints. The replaced packs come first, newest first, then the packs
    of the sweep that this sweep continues.
    """
    folder = state.folder.resolve()
    sources = [
        [(str(get_checkpoint_folder(folder, pack_id)), config_id, seed) for config_id, seed in pack.members]
        for pack_id in pack.replaced_pack_ids
    ]
    continued_source = _list_continued_checkpoints(state, pack.members)
    return sources if continued_source is None else [*sources, continued_source]


def has_checkpoint(state: SweepState, pack: PackState) -> bool:
    """Return whether a pack, or an earlier pack of each of its members, has a checkpoint on this machine."""
    current_source = [(str(get_checkpoint_folder(state.folder, pack.pack_id)), *member) for member in pack.members]
    return any(
        all(any(Path(folder).glob("step-*.ckpt")) for folder, _, _ in source)
        for source in (current_source, *list_checkpoint_sources(state, pack))
    )


def may_have_checkpoint(state: SweepState, pack: PackState) -> bool:
    """Return whether a pack may have a checkpoint: on this machine, or at the address of its sweep."""
    if find_address(state.folder) is not None:
        return True
    if "program" in state.spec:  # the folder that every program gets may be empty
        return any(get_checkpoint_folder(state.folder, pack.pack_id).glob("*"))
    return has_checkpoint(state, pack)


def is_continued_member(state: SweepState, config_id: str, seed: int) -> bool:
    """Return whether this sweep continues another sweep that has trained this member."""
    return _list_continued_checkpoints(state, [(config_id, seed)]) is not None


def _list_continued_checkpoints(state: SweepState, ids: Iterable[tuple[str, int]]) -> list[tuple[str, str, int]] | None:
    """Return the checkpoints of members in the sweep that this sweep continues.

    None if it does not continue a sweep, or if a member was in none of that sweep's packs.
    """
    if (continues := state.provenance.get(CONTINUES)) is None:
        return None
    folder = state.folder.resolve().parent / continues["folder"]
    checkpoints = []
    for config_id, seed in ids:
        configuration = continues["configurations"].get(config_id)
        pack_id = configuration["packs"].get(str(seed)) if configuration else None
        if pack_id is None:
            return None
        checkpoints.append((str(get_checkpoint_folder(folder, pack_id)), configuration["config_id"], seed))
    return checkpoints


def can_add_seeds(state: SweepState) -> bool:
    """Return whether `extend --seeds N` alone adds seeds to all configurations: not in a race or to imports."""
    return state.race is None and IMPORTED not in state.provenance


def refuse_imported(state: SweepState) -> None:
    """Raise UserError if the sweep has imported results, because its members cannot be trained or evaluated."""
    if (imported := state.provenance.get(IMPORTED)) is not None:
        raise UserError(
            f"{state.folder}: imported from {imported['source']}, so its members cannot be trained or evaluated; "
            f"allowed: commands that read results, such as {format_command('report', state.folder)}"
        )
