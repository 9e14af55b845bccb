"""Packs that were repacked because the number of workers changed, or because a pack ran out of memory.

The ledger calls this a `recut`, and so do the names of this module.

Packs that replace a begun pack continue from its newest checkpoint and report its evaluations again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.plan.packing.shortages import Shortage
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.race import RungDecision
from orchestrator.text.wording import format_count


@dataclass(frozen=True, kw_only=True)
class Recut:
    """The packs that were repacked, the packs that replace them, and the number of workers.

    After a shortage of memory, `out_of_memory_id` is the pack that ran out, with its `shortage` on a `device` after
    `seconds` of training.
    `resumes_checkpoint`: whether the new packs resume from its newest checkpoint.
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
    def from_record(cls, fields: Mapping[str, Any]) -> "Recut":
        """Return the recut of a record."""
        old_ids, new_ids = tuple(fields["pack_ids"]), tuple(pack["pack_id"] for pack in fields["packs"])
        recut = cls(old_ids=old_ids, new_ids=new_ids, workers=fields["workers"])
        if (shortage_fields := fields.get("shortage")) is None:
            return recut
        return replace(
            recut,
            out_of_memory_id=shortage_fields["pack_id"],
            shortage=Shortage(**{name: shortage_fields[name] for name in ("structural_key", "members", "bytes")}),
            device=shortage_fields["device"],
            seconds=shortage_fields["seconds"],
            resumes_checkpoint=any(pack.get("earlier") for pack in fields["packs"]),
        )


def describe_recut(recut: Recut) -> str:
    """Return a sentence for the user, such as "1 waiting pack was repacked into 2, for 3 workers"."""
    # After a shortage: the pack that ran out of memory, and waiting packs that are repacked with it.
    if recut.shortage is not None:
        waiting = len(recut.old_ids) - 1
        others = f" and {format_count(waiting, 'waiting pack')}" if waiting else ""
        return (
            f"out of memory on {recut.device}: a pack of {format_count(recut.shortage.members, 'member')}{others} "
            f"{'were' if waiting else 'was'} repacked into {len(recut.new_ids)}"
            f"{', which continue from its newest checkpoint' if recut.resumes_checkpoint else ''}"
        )

    # Otherwise the number of workers changed.
    were = "was" if len(recut.old_ids) == 1 else "were"
    packs = f"{format_count(len(recut.old_ids), 'waiting pack')} {were} repacked into {len(recut.new_ids)}"
    return f"{packs}, for {format_count(recut.workers, 'worker')}"


def describe_recuts(recuts: Sequence[Recut]) -> list[str]:
    """Return a list with a sentence on how often packs were repacked, and the last time; empty if never."""
    earlier = f"packs were repacked {len(recuts)} times; last: " if len(recuts) > 1 else ""
    return [f"{earlier}{describe_recut(recuts[-1])}"] if recuts else []


def has_begun(pack: PackState) -> bool:
    """Return whether a worker has begun a pack, according to the ledger."""
    return bool(pack.evaluations or pack.attempts or pack.has_ended or pack.earlier)


def apply_recut(
    packs: dict[str, PackState], recuts: list[Recut], fields: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], PackState | None]:
    """Remove the packs that were repacked; return their replacements' fields, none if already applied.

    Also returns the pack that ran out of memory, or None. Raises ValueError for packs that are unknown or have begun,
    and if the replacements have other members.
    """
    new_fields, recut = fields["packs"], Recut.from_record(fields)
    if recut in recuts and not packs.keys() >= set(recut.old_ids):
        return [], None

    # A running pack has results to keep, so it is never replaced, unless it ran out of memory.
    for pack_id in recut.old_ids:
        if pack_id not in packs:
            raise ValueError(f"recut: unknown pack {pack_id}")
        if has_begun(packs[pack_id]) and pack_id != recut.out_of_memory_id:
            raise ValueError(f"recut: a worker has already begun pack {pack_id}")
    members = sorted(member for pack_id in recut.old_ids for member in packs[pack_id].members)
    if members != sorted((config_id, seed) for pack in new_fields for config_id, seed in pack["members"]):
        raise ValueError("recut: the new packs do not have the members of the old ones")

    exhausted = packs.get(recut.out_of_memory_id or "")
    for pack_id in recut.old_ids:
        del packs[pack_id]
    recuts.append(recut)
    return list(new_fields), exhausted


def prepare_replacement(
    pack: PackState, earlier: Sequence[str] | None, exhausted: PackState | None, rungs: Sequence[RungDecision]
) -> None:
    """Apply the decided rungs to a new pack, and set the packs in `earlier` whose checkpoints it resumes, if any."""
    for rung in rungs:  # also for packs that failed before their first evaluation and are retried
        pack.prune(rung.pruned, rung.step)
    if earlier and exhausted is not None:
        pack.earlier, pack.ran_under = list(earlier), list(exhausted.ran_under)


def sum_seconds(packs: Mapping[str, PackState], recuts: Sequence[Recut]) -> float:
    """Return the total seconds of training of all packs, including those that ran out of memory and were replaced."""
    return sum(pack.seconds for pack in packs.values()) + sum(recut.seconds for recut in recuts)
