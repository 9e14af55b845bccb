"""Packs that were repacked because the number of workers changed, or because a pack ran out of memory.

The ledger calls a repacking `recut`. Packs that replace a begun pack continue from its newest checkpoint and report its
evaluations again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.plan.packing.pack_sizes import Shortage
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.race import RungDecision
from orchestrator.text.wording import format_count


@dataclass(frozen=True, kw_only=True)
class Repacking:
    """The packs that were repacked, the packs that replace them, and the number of workers.

    After a shortage of memory, `out_of_memory_id` is the pack that ran out, with its `shortage` on a `device` after
    `seconds` of training. `resumes_checkpoint`: whether the new packs resume from its newest checkpoint.
    """

    old_ids: tuple[str, ...]
    new_ids: tuple[str, ...]
    workers: int
    out_of_memory_id: str | None = None
    shortage: Shortage | None = None
    device: str = ""
    seconds: float = 0.0
    resumes_checkpoint: bool = False

    @classmethod
    def from_record(cls, fields: Mapping[str, Any]) -> "Repacking":
        """Return the repacking of a record."""
        old_ids = tuple(fields["pack_ids"])
        new_ids = tuple(pack["pack_id"] for pack in fields["packs"])
        repacking = cls(old_ids=old_ids, new_ids=new_ids, workers=fields["workers"])
        if (shortage_fields := fields.get("shortage")) is None:
            return repacking
        return replace(
            repacking,
            out_of_memory_id=shortage_fields["pack_id"],
            shortage=Shortage(**{name: shortage_fields[name] for name in ("structural_key", "members", "bytes")}),
            device=shortage_fields["device"],
            seconds=shortage_fields["seconds"],
            resumes_checkpoint=any(pack.get("earlier") for pack in fields["packs"]),
        )


def describe_repacking(repacking: Repacking) -> str:
    """Return a sentence for the user, such as "1 waiting pack was repacked into 2, for 3 workers"."""
    # After a shortage: the pack that ran out of memory, and waiting packs that are repacked with it.
    if repacking.shortage is not None:
        waiting = len(repacking.old_ids) - 1
        others = f" and {format_count(waiting, 'waiting pack')}" if waiting else ""
        members = format_count(repacking.shortage.members, "member")
        return (
            f"out of memory on {repacking.device}: a pack of {members}{others} "
            f"{'were' if waiting else 'was'} repacked into {len(repacking.new_ids)}"
            f"{', which continue from its newest checkpoint' if repacking.resumes_checkpoint else ''}"
        )

    # Otherwise the number of workers changed.
    were = "was" if len(repacking.old_ids) == 1 else "were"
    packs = f"{format_count(len(repacking.old_ids), 'waiting pack')} {were} repacked into {len(repacking.new_ids)}"
    return f"{packs}, for {format_count(repacking.workers, 'worker')}"


def describe_repackings(repackings: Sequence[Repacking]) -> list[str]:
    """Return a list with a sentence on how often packs were repacked, and the last time; empty if never."""
    earlier = f"packs were repacked {len(repackings)} times; last: " if len(repackings) > 1 else ""
    return [f"{earlier}{describe_repacking(repackings[-1])}"] if repackings else []


def has_begun(pack: PackState) -> bool:
    """Return whether a worker has begun a pack, according to the ledger."""
    return bool(pack.evaluations or pack.attempts or pack.has_ended or pack.replaced_pack_ids)


def apply_repacking(
    packs: dict[str, PackState], repackings: list[Repacking], fields: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], PackState | None]:
    """Remove the packs that were repacked; return their replacements' fields, none if already applied.

    Also returns the pack that ran out of memory, or None. Raises ValueError for packs that are unknown or have begun,
    and if the replacements have other members.
    """
    new_fields, repacking = fields["packs"], Repacking.from_record(fields)
    if repacking in repackings and not packs.keys() >= set(repacking.old_ids):
        return [], None

    # A running pack has results to keep, so it is never replaced, unless it ran out of memory.
    for pack_id in repacking.old_ids:
        if pack_id not in packs:
            raise ValueError(f"recut: unknown pack {pack_id}")
        if has_begun(packs[pack_id]) and pack_id != repacking.out_of_memory_id:
            raise ValueError(f"recut: a worker has already begun pack {pack_id}")
    members = sorted(member for pack_id in repacking.old_ids for member in packs[pack_id].members)
    if members != sorted((config_id, seed) for pack in new_fields for config_id, seed in pack["members"]):
        raise ValueError("recut: the new packs do not have the members of the old ones")

    out_of_memory_pack = packs.get(repacking.out_of_memory_id or "")
    for pack_id in repacking.old_ids:
        del packs[pack_id]
    repackings.append(repacking)
    return list(new_fields), out_of_memory_pack


def prepare_replacement(
    pack: PackState, earlier: Sequence[str] | None, out_of_memory_pack: PackState | None, rungs: Sequence[RungDecision]
) -> None:
    """Apply the decided rungs to a new pack, and note the `earlier` packs whose checkpoints it resumes."""
    for rung in rungs:  # also for packs that failed before their first evaluation and are retried
        pack.prune(rung.pruned, rung.step)
    if earlier and out_of_memory_pack is not None:
        pack.replaced_pack_ids = list(earlier)
        pack.ran_under = list(out_of_memory_pack.ran_under)
        pack.superseded = set(out_of_memory_pack.superseded)


def sum_seconds(packs: Mapping[str, PackState], repackings: Sequence[Repacking]) -> float:
    """Return the total seconds of training of all packs, also of packs that ran out of memory and were replaced."""
    return sum(pack.seconds for pack in packs.values()) + sum(repacking.seconds for repacking in repackings)
