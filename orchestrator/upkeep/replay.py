"""Train one member of a sweep again from its record, in this process, and hold its curves against the recorded ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.errors import UserError
from orchestrator.plan.recorded import refuse_corrected, refuse_without_data
from orchestrator.record.kept.code import import_recorded
from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.parts import PackState
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.sampler import as_configuration
from orchestrator.running.schedulers.inline import as_in_a_worker, refuse_missing_resources
from orchestrator.wording import differing_keys, label, spans
from trainers.evaluation.results import Evaluation, Progress

KEYS = ["average", "metric", "length"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of training a member again: the steps of its evaluations that agree bit for bit, and the others.

    `difference` says in words what differs at the first evaluation that does, None if all agree. `environment` has the
    keys in which this process differs from the worker that trained it; `notices` are those of the training.
    """

    member: str
    agreed: tuple[int, ...]
    difference: str | None
    environment: tuple[str, ...]
    notices: tuple[str, ...]

    def sentences(self) -> list[str]:
        """Return the outcome in words."""
        lines = [*self.notices]
        if self.difference is None:
            lines.append(f"{self.member}: the curves agree bit for bit at steps {', '.join(map(str, self.agreed))}")
        else:
            lines.append(f"{self.member}: {self.difference}")
            lines.append(f"steps that agree before it: {', '.join(map(str, self.agreed)) or 'none'}")
            lines.append(
                f"this process differs from the worker in: {', '.join(self.environment) or 'nothing recorded'}"
            )
        return lines


class _EndedEarly(Exception):  # noqa: N818 - not an error: all that is recorded was compared
    pass


class _Comparing:
    """A reporter that compares each evaluation with the recorded one, and ends the training at the last of them."""

    def __init__(self, recorded: dict[int, pd.DataFrame]) -> None:
        self._recorded = recorded
        self.difference: str | None = None
        self.agreed, self.notices = list[int](), list[str]()

    def report(self, evaluation: Evaluation) -> None:
        """Compare it; raise _EndedEarly at the first that differs, and after the last recorded one."""
        if evaluation.step in self._recorded:
            self.difference = _difference(evaluation, self._recorded[evaluation.step])
            if self.difference is None:
                self.agreed.append(evaluation.step)
        if self.difference is not None or evaluation.step >= max(self._recorded):
            raise _EndedEarly

    def progress(self, progress: Progress) -> None:
        """Nobody looks."""

    def notice(self, text: str) -> None:
        """Keep a sentence for the user."""
        self.notices.append(text)


def replay(folder: Path, configuration: str, seed: int) -> Replay:
    """Train a member again, alone, up to its last recorded evaluation, and compare; writes nothing.

    Its own modules are the copies in the sweep folder; lengthwise itself is the installed one. Raises UserError for a
    member that is not there, has no recorded curves, or that this version would train with other results.
    """
    state = SweepState.load(folder)
    found = find_configuration(state, configuration)
    if seed not in found.members:
        raise UserError(
            f"configuration {label(found.number)} has no seed {seed}; allowed: {spans(sorted(found.members))}"
        )
    member = f"{label(found.number)} ({found.config_id}) seed {seed}"
    pack = state.packs[found.members[seed].pack_id]
    recorded = _recorded(state, pack, found.config_id, seed)
    if not recorded:
        raise UserError(f"{state.folder}: {member} has no recorded curves yet; there is nothing to compare with")
    import_recorded(state)
    one = as_configuration(found)
    refuse_corrected([one], f"{member} cannot be trained again")
    refuse_without_data([one], f"{member} cannot be trained again")
    resources = state.spec.get("resources", {})
    cpus, gpus = int(resources.get("cpus") or 1), float(resources.get("gpus") or 0.0)
    refuse_missing_resources(cpus, gpus)
    from orchestrator.running.pack.environment import environment
    from trainers.training.loop import train  # brings torch

    comparing = _Comparing(recorded)
    with as_in_a_worker(max(1, cpus)):
        now = environment(state.modules, gpus=gpus)
        try:
            ids = [(found.config_id, seed)]
            train([one.member(seed)], comparing, ids=ids, device="cuda" if gpus else "cpu")
        except _EndedEarly:
            pass
    return Replay(
        member=member,
        agreed=tuple(comparing.agreed),
        difference=comparing.difference,
        environment=_differing_keys(state, pack, now),
        notices=tuple(comparing.notices),
    )


def _recorded(state: SweepState, pack: PackState, config_id: str, seed: int) -> dict[int, pd.DataFrame]:
    """Return the recorded curves of a member by step; without the stand-ins of a pack that died."""
    curves = read_curves(state, packs={pack.pack_id})
    mine = curves[(curves["config_id"] == config_id) & (curves["seed"] == seed)]
    steps = sorted(set(mine["step"].tolist()) & pack.evaluations.keys())
    return {step: mine[mine["step"] == step] for step in steps}


def _difference(evaluation: Evaluation, recorded: pd.DataFrame) -> str | None:
    """Return what differs first between an evaluation of one member and its recorded rows; None if nothing does."""
    index = pd.MultiIndex.from_product([evaluation.averages, evaluation.metrics, evaluation.lengths], names=KEYS)
    again = pd.Series(evaluation.values_MAKL[0].reshape(-1), index)
    keys = list(recorded[KEYS].astype({"average": "str", "metric": "str"}).itertuples(index=False, name=None))
    for key, then in zip(keys, recorded["value"].to_numpy(np.float32), strict=True):
        now = np.float32(again.get(key, np.nan))
        if now.tobytes() != then.tobytes() and not (np.isnan(now) and np.isnan(then)):
            average, metric, length = key
            return (
                f"the curves differ first at step {evaluation.step}: {metric} ({average}) at length {length} was "
                f"{then:.9g} and is {now:.9g} now"
            )
    return None


def _differing_keys(state: SweepState, pack: PackState, now: dict[str, Any]) -> tuple[str, ...]:
    tables = [state.environments[name] for _, name in pack.ran_under]
    return tuple(differing_keys(tables[-1], now)) if tables else ()
