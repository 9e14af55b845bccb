"""Decide the next action of the driver from a `Situation`; reads and writes nothing."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orchestrator.running.driving.budget import Limit


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The inputs of `decide`."""

    running_pack_ids: Collection[str] = ()
    next_pack_id: str | None = None  # the first pack of the queue that fits into the budget
    exceeded_limits: Sequence[Limit] = ()  # if no pack of the queue fits: the limits that its first pack would exceed
    generation: range | None = None  # numbers of the configurations that are drawn next; None if all are drawn
    is_scored: bool = True  # whether all earlier configurations have their scores
    is_rung_due: bool = False
    is_round_due: bool = False
    is_budget_used_up: bool = False


@dataclass(frozen=True)
class DrawGeneration:
    """Draw the configurations with these numbers, and pack their members."""

    numbers: range


@dataclass(frozen=True)
class DecideRung:
    """Decide which configurations of a race continue after a rung that all packs have reached."""


@dataclass(frozen=True)
class DecideRound:
    """End a round of a race once all of its configurations have scores, and begin the next round."""


@dataclass(frozen=True)
class HandOut:
    """Give this pack to a worker."""

    pack_id: str


@dataclass(frozen=True)
class StopSweep:
    """Hand out no more packs, because none fits into these limits of the budget."""

    limits: Sequence[Limit]


@dataclass(frozen=True)
class Wait:
    """Do nothing until a running pack reports or ends; if none is running, nothing is left to do."""


Action = DrawGeneration | DecideRung | DecideRound | HandOut | StopSweep | Wait


def decide(situation: Situation) -> Action:
    """Return the driver's next action when a worker is free.

    A generation that learns from scores is drawn once all earlier configurations have scores. A rung of a race waits
    for every running pack, because a pack at a rung runs until its state is saved.
    """
    if situation.is_budget_used_up:
        return Wait()
    if situation.next_pack_id is not None:
        return HandOut(situation.next_pack_id)
    if situation.exceeded_limits:
        # A running pack may end sooner than estimated.
        return Wait() if situation.running_pack_ids else StopSweep(situation.exceeded_limits)
    if situation.generation is not None:
        return DrawGeneration(situation.generation) if situation.is_scored else Wait()
    if situation.is_rung_due and not situation.running_pack_ids:
        return DecideRung()
    return DecideRound() if situation.is_round_due else Wait()
