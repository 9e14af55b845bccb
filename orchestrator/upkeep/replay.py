"""Train a member again from its record, in this process, and compare its curves with the recorded curves."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from orchestrator.errors import UserError
from orchestrator.plan.recorded_configurations import refuse_changed_results, refuse_missing_data
from orchestrator.record.files.curves import read_curves
from orchestrator.record.files.recorded_modules import import_recorded, make_worker_modules
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.lineage import refuse_imported
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.pack_work import make_single_member_work
from orchestrator.running.schedulers.choice import count_scarce_resources
from orchestrator.running.schedulers.inline import use_worker_settings
from orchestrator.sweep.specification import read_recorded_spec
from orchestrator.text.wording import format_count, format_label, format_ranges, list_differing_keys
from orchestrator.trainer_choice import get_trainer
from trainers.evaluation.results import Evaluation, Progress

INDEX_COLUMNS = ["average", "metric", "length"]
MAX_LISTED_STEPS = 5


class _ComparisonFinished(Exception):  # noqa: N818 - not an error
    """Ends the training of a member whose comparison is finished."""


class Replay:
    """A reporter of a member that is trained again; compares its evaluations and ends the training at the last one.

    `agreed_steps` are the steps of evaluations that agree bit for bit; `difference` describes the first difference,
    None if all agree. `differing_keys` are the keys of the environment in which this process differs from the worker
    that trained the member. `notices` are sentences from the training.
    """

    def __init__(self, member: str, recorded: dict[int, pd.DataFrame]) -> None:
        self._member = member
        self._recorded = recorded
        self.difference: str | None = None
        self.agreed_steps = list[int]()
        self.notices = list[str]()
        self.differing_keys = list[str]()

    def report(self, evaluation: Evaluation) -> None:
        """Compare an evaluation with the recorded one of the same step.

        Raises _ComparisonFinished at the first difference, and after the last recorded evaluation.
        """
        if evaluation.step in self._recorded:
            self.difference = _describe_difference(evaluation, self._recorded[evaluation.step])
            if self.difference is None:
                self.agreed_steps.append(evaluation.step)
        if self.difference is not None or evaluation.step >= max(self._recorded):
            raise _ComparisonFinished

    def progress(self, progress: Progress) -> None:
        """Ignore progress."""

    def notice(self, text: str) -> None:
        """Store a sentence for the user."""
        self.notices.append(text)

    def describe(self) -> list[str]:
        """Return sentences on the compared steps, the first difference if any, and notices."""
        agreed = ", ".join(map(str, self.agreed_steps))
        if len(self.agreed_steps) > MAX_LISTED_STEPS:
            agreed = f"{self.agreed_steps[0]} to {self.agreed_steps[-1]} ({len(self.agreed_steps)} evaluations)"
        if self.difference is None:
            return [*self.notices, f"{self._member}: the curves agree bit for bit at steps {agreed}"]
        return [
            *self.notices,
            f"{self._member}: {self.difference}",
            f"earlier steps that agree: {agreed or 'none'}",
            f"this process differs from the worker in: {', '.join(self.differing_keys) or 'nothing recorded'}",
        ]


def replay_member(folder: Path, configuration: str, seed: int) -> Replay:
    """Return the comparison of a member that is trained again, alone, up to its last recorded evaluation.

    Writes nothing. The user's modules are the copies in the sweep folder; lengthwise is the installed version. Raises
    UserError if the member does not exist, has no recorded curves, or would have other results with this version.
    """
    state = SweepState.load(folder)
    refuse_imported(state)

    # Without recorded curves there is nothing to compare a replay with.
    chosen = find_configuration(state, configuration)
    if seed not in chosen.members:
        raise UserError(
            f"configuration {format_label(chosen.number)}: no seed {seed}; allowed: "
            f"{format_ranges(sorted(chosen.members))}"
        )
    member = f"{format_label(chosen.number)} ({chosen.config_id}) seed {seed}"
    pack = state.packs[chosen.members[seed].pack_id]
    recorded = _read_recorded_curves(state, pack, chosen.config_id, seed)
    if not recorded:
        raise UserError(f"{state.folder}: {member} has no recorded curves yet")

    # Before training, refuse a member that cannot give the same results here.
    import_recorded(state)
    refuse_changed_results([chosen], f"{member} cannot be trained again")
    refuse_missing_data([chosen], f"{member} cannot be trained again")
    resources = state.spec.get("resources", {})
    cpus = int(resources.get("cpus") or 1)
    gpus = float(resources.get("gpus") or 0.0)
    if lacking := count_scarce_resources(cpus, gpus):
        needed = f"{format_count(cpus, 'CPU')} and {format_count(gpus, 'GPU')}"
        available = " and ".join(format_count(count, name) for name, count in lacking.items())
        raise UserError(f"{member} was trained with {needed}; this machine has {available}")

    # The folder is temporary, because a replay writes nothing into the sweep.
    trainer = get_trainer(chosen.resolved)
    replay = Replay(member, recorded)
    with use_worker_settings(cpus), TemporaryDirectory(prefix="lengthwise-") as temporary:
        work = make_single_member_work(
            read_recorded_spec(state).resources, Path(temporary), chosen, seed, state.modules
        )
        work = replace(work, modules=make_worker_modules(state.folder, state.modules))
        if environments := [state.environments[name] for _, name in pack.ran_under]:
            replay.differing_keys += list_differing_keys(environments[-1], trainer.read_environment(work))
        with suppress(_ComparisonFinished):
            trainer.train_members(work, [trainer.rebuild(chosen.resolved, seed)], replay, None)
    return replay


def _read_recorded_curves(state: SweepState, pack: PackState, config_id: str, seed: int) -> dict[int, pd.DataFrame]:
    """Return the recorded curves of a member by step, without the NaN rows that `read_curves` adds for failed packs."""
    curves = read_curves(state, packs={pack.pack_id})
    rows = curves[(curves["config_id"] == config_id) & (curves["seed"] == seed)]
    steps = sorted(set(rows["step"].tolist()) & pack.evaluations.keys())
    return {step: rows[rows["step"] == step] for step in steps}


def _describe_difference(evaluation: Evaluation, recorded: pd.DataFrame) -> str | None:
    """Return a description of the first difference between an evaluation and its recorded rows; None if equal."""
    index = pd.MultiIndex.from_product(
        [evaluation.averages, evaluation.metrics, evaluation.lengths], names=INDEX_COLUMNS
    )
    replayed = pd.Series(evaluation.values_MAKL[0].reshape(-1), index)
    keys = list(recorded[INDEX_COLUMNS].astype({"average": "str", "metric": "str"}).itertuples(index=False, name=None))
    # Compare bytes, which differ for 0.0 and -0.0; every NaN counts as equal.
    for key, expected in zip(keys, recorded["value"].to_numpy(np.float32), strict=True):
        value = np.float32(replayed.get(key, np.nan))
        if value.tobytes() != expected.tobytes() and not (np.isnan(value) and np.isnan(expected)):
            average, metric, length = key
            return (
                f"first difference at step {evaluation.step}: {metric} ({average}) at length {length}: "
                f"recorded {expected:.9g}, now {value:.9g}"
            )
    return None
