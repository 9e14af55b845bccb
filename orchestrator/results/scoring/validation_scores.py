"""What was decided at evaluations, as the ledger has it: stages of curricula, who stopped early, on what scores."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from orchestrator.record.state.parts import ConfigurationState
from orchestrator.record.state.state import SweepState


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One score of a member at an evaluation, on inputs of its validation stream: at each trained length, and the mean.

    The mean is over the lengths that have a value, NaN where none has. `stage`: that the member trained at up to here,
    None without a curriculum. `stopped`: whether it had stopped by then.
    """

    config_id: str
    seed: int
    step: int
    stage: int | None
    stopped: bool
    metric: str
    average: str
    lengths: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the lengths."""
        there = [value for value in self.values if not np.isnan(value)]
        return float(np.mean(there)) if there else float("nan")


def decisions_of(state: SweepState) -> tuple[Decision, ...]:
    """Every score that something was decided by, by configuration, seed and step; empty where nothing was."""
    order = {name: found.number for name, found in state.configurations.items()}
    return tuple(
        sorted(_found(state), key=lambda one: (order[one.config_id], one.seed, one.metric, one.average, one.step))
    )


def stopped_at(configuration: ConfigurationState) -> tuple[int, ...]:
    """The steps at which members of a configuration stopped early, ascending."""
    return tuple(sorted(one.stopped_at for one in configuration.members.values() if one.stopped_at is not None))


def may_stop(state: SweepState) -> bool:
    """Whether members of the sweep stop early when they are good enough."""
    first = (next(iter(pack.evaluations.values()), {}) for pack in state.packs.values())  # as all others of its pack
    return any("stopped_at" in fields for fields in first)


def _found(state: SweepState) -> Iterator[Decision]:
    for pack in state.packs.values():
        for step, fields in pack.evaluations.items():
            stages, stopped = fields.get("stages"), fields.get("stopped_at")
            for one in fields.get("validation", ()):
                for m, (config_id, seed) in enumerate(pack.members):
                    yield Decision(
                        config_id=config_id,
                        seed=seed,
                        step=step,
                        stage=None if stages is None else stages[m],
                        stopped=stopped is not None and stopped[m] >= 0,
                        metric=one["metric"],
                        average=one["average"],
                        lengths=tuple(one["lengths"]),
                        values=tuple(one["values"][m]),
                    )
