"""Packs that no worker had begun and that were cut again, because another number of workers was there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.record.state.parts import PackState
from orchestrator.wording import counted


@dataclass(frozen=True, kw_only=True)
class Recut:
    """The packs that were cut again, those in their place, and how many workers there were."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    workers: int


def describe_recut(recut: Recut) -> str:
    """Return a recut as a sentence: "1 pack that no worker had begun was cut again into 2, for 3 workers"."""
    were = "was" if len(recut.old) == 1 else "were"
    packs = f"{counted(len(recut.old), 'pack')} that no worker had begun {were} cut again into {len(recut.new)}"
    return f"{packs}, for {counted(recut.workers, 'worker')}"


def describe_recuts(recuts: Sequence[Recut]) -> list[str]:
    """Return one sentence about all recuts of a sweep; none without any."""
    earlier = f"packs were cut again {len(recuts)} times, the last time: " if len(recuts) > 1 else ""
    return [f"{earlier}{describe_recut(recuts[-1])}"] if recuts else []


def has_begun(pack: PackState) -> bool:
    """Return whether the ledger says that a worker has begun a pack."""
    return bool(pack.evaluations or pack.attempts or pack.has_ended)


def take_recut(packs: dict[str, PackState], recuts: list[Recut], fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Remove the packs that were cut again; return the fields of those in their place, none if this is known already.

    Raises ValueError, with what is wrong, for packs that have begun or are unknown, and for other members than theirs.
    """
    new = fields["packs"]
    recut = Recut(old=tuple(fields["pack_ids"]), new=tuple(one["pack_id"] for one in new), workers=fields["workers"])
    if recut in recuts and not packs.keys() >= set(recut.old):
        return []
    for name in recut.old:
        if name not in packs:
            raise ValueError(f"unknown pack {name} is cut again")
        if has_begun(packs[name]):
            raise ValueError(f"pack {name} is cut again after a worker has begun it")
    before = sorted(member for name in recut.old for member in packs[name].members)
    if before != sorted((name, seed) for one in new for name, seed in one["members"]):
        raise ValueError("packs that are cut again have other members than those in their place")
    for name in recut.old:
        del packs[name]
    recuts.append(recut)
    return list(new)
