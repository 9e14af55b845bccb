"""Packs that were cut again: the workers changed before any worker had begun them, or a pack ran out of memory.

Packs that replace one that had begun continue from its newest checkpoint and report its evaluations again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.plan.packing.shortages import Shortage
from orchestrator.record.state.parts import PackState
from orchestrator.record.state.race import RungDecision
from orchestrator.text.wording import counted


@dataclass(frozen=True, kw_only=True)
class Recut:
    """The packs that were cut again, those in their place, and how many workers there were.

    `short` is the pack that ran out of memory, with its `shortage` on a `device` after `seconds`, if that was the
    reason; with `continues` the new packs continue from its newest checkpoint.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    workers: int
    short: str | None = None
    shortage: Shortage | None = None
    device: str = ""
    seconds: float = 0.0
    continues: bool = False

    @classmethod
    def from_record(cls, fields: Mapping[str, Any]) -> "Recut":
        """Return the recut of a record."""
        old, new = tuple(fields["pack_ids"]), tuple(pack["pack_id"] for pack in fields["packs"])
        recut = cls(old=old, new=new, workers=fields["workers"])
        if (short := fields.get("shortage")) is None:
            return recut
        return replace(
            recut,
            short=short["pack_id"],
            shortage=Shortage(**{name: short[name] for name in ("structural_key", "members", "bytes")}),
            device=short["device"],
            seconds=short["seconds"],
            continues=any(pack.get("earlier") for pack in fields["packs"]),
        )


def describe_recut(recut: Recut) -> str:
    """Return a recut as a sentence: "1 pack that no worker had begun was cut again into 2, for 3 workers"."""
    if recut.shortage is not None:
        waiting = len(recut.old) - 1
        rest = f" and {counted(waiting, 'pack')} that no worker had begun" if waiting else ""
        return (
            f"a pack of {counted(recut.shortage.members, 'member')} ran out of memory ({recut.device}); it{rest} "
            f"{'were' if waiting else 'was'} cut again into {len(recut.new)}"
            f"{', which continue from its newest checkpoint' if recut.continues else ''}"
        )
    were = "was" if len(recut.old) == 1 else "were"
    packs = f"{counted(len(recut.old), 'pack')} that no worker had begun {were} cut again into {len(recut.new)}"
    return f"{packs}, for {counted(recut.workers, 'worker')}"


def describe_recuts(recuts: Sequence[Recut]) -> list[str]:
    """Return one sentence about all recuts of a sweep; none without any."""
    earlier = f"packs were cut again {len(recuts)} times, the last time: " if len(recuts) > 1 else ""
    return [f"{earlier}{describe_recut(recuts[-1])}"] if recuts else []


def has_begun(pack: PackState) -> bool:
    """Return whether the ledger says that a worker has begun a pack."""
    return bool(pack.evaluations or pack.attempts or pack.has_ended or pack.earlier)


def apply_recut(
    packs: dict[str, PackState], recuts: list[Recut], fields: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], PackState | None]:
    """Remove the packs that were cut again; return the fields of their replacements, an empty list if already applied.

    Also returns the pack that ran out of memory, or None. Raises ValueError for packs that are unknown or have begun,
    and if the replacements have other members.
    """
    new, recut = fields["packs"], Recut.from_record(fields)
    if recut in recuts and not packs.keys() >= set(recut.old):
        return [], None

    # only packs that no worker has begun, or the one that ran out of memory, with the same members
    for name in recut.old:
        if name not in packs:
            raise ValueError(f"unknown pack {name} is cut again")
        if has_begun(packs[name]) and name != recut.short:
            raise ValueError(f"pack {name} is cut again after a worker has begun it")
    before = sorted(member for name in recut.old for member in packs[name].members)
    if before != sorted((name, seed) for pack in new for name, seed in pack["members"]):
        raise ValueError("packs that are cut again do not have the members of their replacements")

    short = packs.get(recut.short or "")
    for name in recut.old:
        del packs[name]
    recuts.append(recut)
    return list(new), short


def continue_pack(
    pack: PackState, earlier: Sequence[str] | None, short: PackState | None, rungs: Sequence[RungDecision]
) -> None:
    """Make a new pack continue as `short` would have, from the checkpoints of `earlier`, if any."""
    for rung in rungs:  # also packs that died before their first evaluation, and are tried again
        pack.prune(rung.pruned, rung.step)
    if earlier and short is not None:
        pack.earlier, pack.ran_under = list(earlier), list(short.ran_under)


def sum_seconds(packs: Mapping[str, PackState], recuts: Sequence[Recut]) -> float:
    """Return the total seconds of training of all packs, including those that ran out of memory and were replaced."""
    return sum(pack.seconds for pack in packs.values()) + sum(recut.seconds for recut in recuts)
