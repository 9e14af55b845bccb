"""Read the validation scores of members, which decide early stopping and the stages of curricula."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.state import SweepState


@dataclass(frozen=True, kw_only=True)
class ValidationScore:
    """The `values` of a member at an evaluation, on validation inputs of each trained length.

    `stage` is the stage trained before the evaluation, None without a curriculum. `stopped` is True if the member had
    stopped before.
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
        """The mean over the lengths with a value; NaN without any."""
        defined = [value for value in self.values if not np.isnan(value)]
        return float(np.mean(defined)) if defined else float("nan")


def read_validation_scores(state: SweepState) -> tuple[ValidationScore, ...]:
    """Return all validation scores by configuration, seed and step; empty without early stopping and curricula."""
    numbers = {config_id: configuration.number for config_id, configuration in state.configurations.items()}
    return tuple(
        sorted(
            _read_pack_scores(state),
            key=lambda score: (numbers[score.config_id], score.seed, score.metric, score.average, score.step),
        )
    )


def list_early_stops(configuration: ConfigurationState) -> tuple[int, ...]:
    """Return the steps at which members of a configuration stopped early, ascending."""
    return tuple(
        sorted(member.stopped_at for member in configuration.members.values() if member.stopped_at is not None)
    )


def has_early_stops(state: SweepState) -> bool:
    """Return whether members of the sweep may stop early, or have stopped."""
    # A program names its stop only from that evaluation on, so the last one decides.
    last_evaluations = (next(reversed(pack.evaluations.values()), {}) for pack in state.packs.values())
    return any("stopped_at" in fields for fields in last_evaluations)


def _read_pack_scores(state: SweepState) -> Iterator[ValidationScore]:
    """Yield the validation scores of every pack, without scores of members after they were pruned."""
    for pack in state.packs.values():
        for step, fields in pack.evaluations.items():
            stages, stopped = fields.get("stages"), fields.get("stopped_at")
            for recorded in fields.get("validation", ()):
                for m, (config_id, seed) in enumerate(pack.members):
                    # A pruned member has no values after its rung.
                    if step > pack.pruned_at.get(config_id, step):
                        continue
                    yield ValidationScore(
                        config_id=config_id,
                        seed=seed,
                        step=step,
                        stage=None if stages is None else stages[m],
                        stopped=stopped is not None and stopped[m] >= 0,
                        metric=recorded["metric"],
                        average=recorded["average"],
                        lengths=tuple(recorded["lengths"]),
                        values=tuple(recorded["values"][m]),
                    )
