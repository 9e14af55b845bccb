"""Decides whether waiting packs, or a pack that ran out of memory, are cut again; makes the record of it."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from orchestrator.plan.packing.packs import Packer, PlannedPack, WorkerCapacity
from orchestrator.record.state.lineage import continues_member
from orchestrator.record.state.parts import PackState
from orchestrator.record.state.recuts import has_begun
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.racing import is_paused
from orchestrator.running.driving.sampler import make_planned_configuration
from orchestrator.running.driving.work import RunningPack
from orchestrator.running.pack.train_pack import checkpoint_folder


def make_recut_fields(
    state: SweepState,
    waiting: Collection[str],
    running: Mapping[str, RunningPack],
    packer: Packer,
    capacity: WorkerCapacity,
    shortage: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[str]] | None:
    """Return the fields of the record that cuts waiting packs again, and which packs wait then, begun ones first.

    None if cutting gains too little; packs that a worker has begun always stay as they are. `running` has every pack
    that a worker is training, by pack_id. `shortage` has the fields of a pack that waits because it ran out of memory;
    if it may have checkpoints it is cut alone, because a pack can continue from the checkpoints of only one pack.
    """
    # Packs that may be cut: those that no worker has begun, and the one that ran out of memory.
    short = state.packs[shortage["pack_id"]] if shortage else None
    earlier = [short.pack_id, *short.earlier] if short and _may_have_checkpoints(state, short) else []
    race = state.race
    unfinished = [
        pack for pack in state.packs.values() if not pack.has_ended and (pack is short or not is_paused(race, pack))
    ]
    unbegun_or_short = [
        pack
        for pack in unfinished
        if pack is short
        or (
            pack.pack_id in waiting
            and not has_begun(pack)
            and not _may_have_checkpoints(state, pack)
            and not _continues_sweep(state, pack)
        )
    ]
    cut_again = [short] if short and (earlier or _continues_sweep(state, short)) else unbegun_or_short
    unbegun = {pack.pack_id: as_pack(pack) for pack in cut_again}

    # Packs that stay, with the share that is left of each, decide how much cutting gains.
    begun = [
        (as_pack(pack), 1 - max(pack.step, running.get(pack.pack_id, RunningPack()).step) / pack.steps)
        for pack in unfinished
        if pack.pack_id not in unbegun
    ]
    config_ids = {config_id for pack in unfinished for config_id, _ in pack.members}
    configurations = {name: make_planned_configuration(state.configurations[name]) for name in config_ids}
    packs = packer.recut(list(unbegun.values()), begun, configurations, capacity)
    if not packs:
        return None
    names = {pack.pack_id for pack in packs}
    fields = {
        "pack_ids": [name for name in unbegun if name not in names],
        "packs": [
            asdict(pack) | ({"earlier": earlier} if earlier else {}) for pack in packs if pack.pack_id not in unbegun
        ],
        "workers": capacity.workers,
        **({"shortage": dict(shortage)} if shortage else {}),
    }
    return fields, [*(name for name in waiting if name not in unbegun), *(pack.pack_id for pack in packs)]


def make_shortage_fields(
    pack: PackState, packer: Packer, device: str | None, error: str, seconds: float
) -> dict[str, Any] | None:
    """Return the fields of the shortage of a pack that ran out of memory on a device; None if it cannot be halved.

    seconds: for how long it had trained.
    """
    if device is None or len(pack.members) == 1 or pack.is_final:
        return None
    shortage = asdict(packer.record_shortage(as_pack(pack)))
    return {"pack_id": pack.pack_id, **shortage, "device": device, "error": error, "seconds": seconds}


def _may_have_checkpoints(state: SweepState, pack: PackState) -> bool:
    """Return whether a pack may have checkpoints; an empty folder marks checkpoints in remote storage alone."""
    return bool(pack.evaluations or pack.earlier or checkpoint_folder(state.folder, pack.pack_id).exists())


def _continues_sweep(state: SweepState, pack: PackState) -> bool:
    """Return whether the members of a pack continue those of another sweep: cut with others they would start at 0."""
    return continues_member(state, *pack.members[0])


def as_pack(pack: PackState) -> PlannedPack:
    """Return a recorded pack as one of the plan."""
    return PlannedPack(
        pack_id=pack.pack_id, structural_key=pack.structural_key, members=tuple(pack.members), steps=pack.steps
    )
