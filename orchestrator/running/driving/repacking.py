"""Decide whether waiting packs, or a pack that ran out of memory, are repacked, and make the fields of the record."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from orchestrator.interface.work import get_checkpoint_folder
from orchestrator.plan.packing.packs import Packer, PlannedPack, WorkerPool
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.lineage import is_continued_member
from orchestrator.record.state.repackings import has_begun
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.racing import is_paused
from orchestrator.running.driving.running_pack import RunningPack
from orchestrator.running.driving.sampler import make_planned_configuration


def make_repacking_fields(
    state: SweepState,
    waiting_pack_ids: Collection[str],
    running: Mapping[str, RunningPack],
    packer: Packer,
    workers: WorkerPool,
    shortage: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[str]] | None:
    """Return the fields of the record of a repacking, and the packs that wait after it, begun ones first.

    None if repacking gains too little; packs that a worker has begun always stay as they are. `running` has every pack
    that a worker is training, by pack_id. `shortage` has the fields of a pack that waits because it ran out of memory;
    if it may have checkpoints it is repacked alone, because a pack can continue from the checkpoints of only one pack.
    """
    # Choose the packs to repack; packs that are paused at a rung wait for its decision, not for a worker.
    out_of_memory_pack = state.packs[shortage["pack_id"]] if shortage else None
    replaced_ids = (
        [out_of_memory_pack.pack_id, *out_of_memory_pack.replaced_pack_ids]
        if out_of_memory_pack and _may_have_checkpoints(state, out_of_memory_pack)
        else []
    )
    race = state.race
    unfinished = [
        pack
        for pack in state.packs.values()
        if not pack.has_ended and (pack is out_of_memory_pack or not is_paused(race, pack))
    ]
    # Members that start from step 0 may move to other packs.
    packs_to_repack = [
        pack
        for pack in unfinished
        if pack is out_of_memory_pack
        or (pack.pack_id in waiting_pack_ids and not has_begun(pack) and not may_resume(state, pack))
    ]
    # Packed with others, members that continue another sweep would start from step 0.
    if out_of_memory_pack and (replaced_ids or is_continued_member(state, *out_of_memory_pack.members[0])):
        packs_to_repack = [out_of_memory_pack]
    old_packs = {pack.pack_id: make_planned_pack(pack) for pack in packs_to_repack}

    # The gain depends on the packs that are kept: workers are busy with the remaining share of their steps.
    kept_packs = [
        (make_planned_pack(pack), 1 - max(pack.step, running.get(pack.pack_id, RunningPack()).step) / pack.steps)
        for pack in unfinished
        if pack.pack_id not in old_packs
    ]
    config_ids = {config_id for pack in unfinished for config_id, _ in pack.members}
    configurations = {
        config_id: make_planned_configuration(state.configurations[config_id]) for config_id in config_ids
    }
    new_packs = packer.repack_waiting(list(old_packs.values()), kept_packs, configurations, workers)
    if not new_packs:
        return None

    # Packs with the same members keep their ids, and are not recorded again. In a record, `earlier` are the packs that
    # a pack replaces; the state calls them `replaced_pack_ids`.
    new_ids = {pack.pack_id for pack in new_packs}
    fields = {
        "pack_ids": [pack_id for pack_id in old_packs if pack_id not in new_ids],
        "packs": [
            asdict(pack) | ({"earlier": replaced_ids} if replaced_ids else {})
            for pack in new_packs
            if pack.pack_id not in old_packs
        ],
        "workers": workers.size,
        **({"shortage": dict(shortage)} if shortage else {}),
    }
    return fields, [
        *(pack_id for pack_id in waiting_pack_ids if pack_id not in old_packs),
        *(pack.pack_id for pack in new_packs),
    ]


def make_shortage_fields(
    pack: PackState, packer: Packer, device: str | None, error: str, seconds: float
) -> dict[str, Any] | None:
    """Return the fields of the shortage of a pack that ran out of memory on a device; None if it cannot be halved.

    seconds: for how long it had trained.
    """
    if device is None or len(pack.members) == 1 or pack.has_last_evaluation:
        return None
    shortage = asdict(packer.record_shortage(make_planned_pack(pack)))
    return {"pack_id": pack.pack_id, **shortage, "device": device, "error": error, "seconds": seconds}


def may_resume(state: SweepState, pack: PackState) -> bool:
    """Return whether a pack may start from its own checkpoints, or from checkpoints of a continued sweep."""
    return _may_have_checkpoints(state, pack) or is_continued_member(state, *pack.members[0])


def _may_have_checkpoints(state: SweepState, pack: PackState) -> bool:
    """Return whether a pack may have checkpoints; an empty folder marks checkpoints in remote storage alone."""
    return bool(
        pack.evaluations or pack.replaced_pack_ids or get_checkpoint_folder(state.folder, pack.pack_id).exists()
    )


def make_planned_pack(pack: PackState) -> PlannedPack:
    """Return a recorded pack as a `PlannedPack`."""
    return PlannedPack(
        pack_id=pack.pack_id, structural_key=pack.structural_key, members=tuple(pack.members), steps=pack.steps
    )
