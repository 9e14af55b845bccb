"""How long packs would train on this machine, from a short calibration."""

from collections.abc import Mapping, Sequence

import psutil

from orchestrator.plan.packing.packs import LARGEST_PACK_CPU, Pack, steps_worth
from trainers.config.member import MemberConfig
from trainers.training.cost import Cost, calibrate

CALIBRATIONS = 3  # structures that are measured; the time of others is estimated from their operations
PATIENCE = 1e12  # operations of the largest step that is measured: a minute on one core
MEMORY_SHARE = 0.5  # of the free memory; larger steps are not measured


def first_share(member: MemberConfig) -> float:
    """Return the share of a member's training that comes before its first evaluation."""
    every, steps = member.evaluation.every, member.training.steps
    return min(every, steps) / steps if every else 1.0


def measure_packs(
    packs: Sequence[Pack], examples: Mapping[str, MemberConfig], costs: Mapping[str, Cost]
) -> list[float] | None:
    """Return the seconds of every pack: measured for the most expensive structures, scaled by operations for others.

    None if a step of a measured structure is too large for this machine.
    """
    largest: dict[str, Pack] = {}
    for pack in packs:
        largest.setdefault(pack.structural_key, pack)

    def step(pack: Pack) -> float:
        return costs[pack.structural_key].flops_per_step * len(pack.members)

    def work(pack: Pack) -> float:
        return step(pack) * steps_worth(examples[pack.structural_key])

    most_expensive = sorted(largest.values(), key=lambda pack: -work(pack))[:CALIBRATIONS]
    free = MEMORY_SHARE * psutil.virtual_memory().available
    for pack in most_expensive:
        if step(pack) > PATIENCE or costs[pack.structural_key].bytes_per_member * len(pack.members) > free:
            return None
    per_flop = {}
    for pack in most_expensive:
        count = min(len(pack.members), LARGEST_PACK_CPU)
        measured = calibrate(examples[pack.structural_key], count, seconds=0.25)
        per_flop[pack.structural_key] = pack.steps * measured / (work(pack) * count / len(pack.members))
    mean = sum(per_flop.values()) / len(per_flop)
    return [per_flop.get(pack.structural_key, mean) * work(pack) for pack in packs]
