"""The training loop of one pack: step, evaluate, report, checkpoint. The same for every task, model and tracker."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainers.config.member import MemberConfig
from trainers.errors import PackError
from trainers.evaluation.evaluate import evaluate, validate
from trainers.evaluation.results import (
    Evaluation,
    MemberResult,
    Progress,
    Reporter,
    Validation,
    WeightsFile,
    make_member_results,
)
from trainers.files.checkpoint import Checkpoints, Snapshot
from trainers.packs.active_members import ActiveMembers
from trainers.packs.batches import StepBatches
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import enable_fused_draws, pop_warning
from trainers.tasks.metric_descriptions import EvaluationCurves
from trainers.tensors.precision import find_mkl_order_problem
from trainers.training.compiling import should_compile, should_fuse_draws
from trainers.training.final_weights import write_pack_weights
from trainers.training.start_checkpoints import StartCheckpoints, join_checkpoints
from trainers.training.step import make_train_step
from trainers.training.stopping import (
    choose_next_stages,
    find_ended_members,
    find_members_to_stop,
    list_remaining_evaluations,
)

_HEARTBEAT_SECONDS = 1.0
_BURST_SECONDS = 0.25  # training between two reads of the clock
_MAX_BURST_STEPS = 1000


def train(
    members: Sequence[MemberConfig],
    reporter: Reporter,
    *,
    ids: Sequence[tuple[str, int]] | None = None,
    checkpoints: Checkpoints | None = None,
    weights: Path | None = None,
    device: str = "cpu",
    start_checkpoints: StartCheckpoints | None = None,
    prune_at: Sequence[int | None] | None = None,
) -> list[MemberResult]:
    """Train members of one structural key as a stacked program; return their results in the order of `members`.

    The list is empty if the reporter stopped the pack early. Resumes from the newest good checkpoint, and first reports
    every earlier evaluation again.

    ids: the (config_id, seed) of the members in checkpoints and weights files, by default computed from their values.
    weights: the folder for the final weights, written before the last evaluation is reported; None keeps no weights.
    start_checkpoints: states of the same members after fewer steps, to start from if no checkpoint is stored.
    prune_at: for each member the step of an evaluation at which it ends without final weights, or None.

    Raises PackError for members of unequal structure, and for ids with other seeds. Raises CheckpointError for a
    checkpoint that belongs to other members or does not fit. Raises WeightsError for weights that cannot be written,
    and for `training.initial` that cannot be read.
    """
    # A checkpoint of this pack has precedence over `start_checkpoints`, because it is further along.
    member_ids = [(member.config_id, member.seed) for member in members] if ids is None else list(ids)
    if [seed for _, seed in member_ids] != [member.seed for member in members]:
        raise PackError(
            f"ids {member_ids} do not have the seeds of the members; allowed: {[member.seed for member in members]}"
        )
    pack = Pack(members, torch.device(device))
    stored, notices = checkpoints.load(member_ids) if checkpoints else (None, [])
    compiled = stored.compiled if stored else should_compile(members[0], pack.device.type)
    if stored is None and start_checkpoints is not None:
        max_step = members[0].training.steps
        stored, notices = join_checkpoints(start_checkpoints, notices, compiled=compiled, max_step=max_step)
    elif stored is None and checkpoints and notices:
        notices.append(f"every checkpoint in {checkpoints.folder} is damaged; the pack starts from step 0")

    # Warnings come before the evaluations of a checkpoint, which are reported again.
    if should_fuse_draws(members[0], pack.device.type):
        enable_fused_draws()
    initial_state = TrainingState.make_initial(pack, use_initial_files=stored is None)
    run = _TrainingRun(pack, member_ids, compiled, reporter, checkpoints, weights, prune_at, initial_state)
    del initial_state  # it is as large as the state
    for notice in (*notices, *filter(None, [find_mkl_order_problem(), pop_warning()])):
        reporter.notice(notice)
    if stored:
        run.resume(stored)
        del stored  # it is as large as the state

    # Training pauses at evaluations, which may remove members, and at checkpoints.
    steps = pack.training.steps
    run.prepare_steps()
    run.evaluate_if_due()
    while run.steps_done < steps and len(run.active) and not run.is_interrupted:
        run.train_until(run.find_next_target())
        if checkpoints and checkpoints.enabled and run.steps_done == steps:
            run.save()  # before the last evaluation, so that a longer training can start from here
        run.evaluate_if_due()
        if checkpoints and run.steps_done < steps and not run.is_interrupted and checkpoints.is_due(run.steps_done):
            run.save()

    # A pack whose members all ended early repeats their last values, as it would beside active members.
    run.report_remaining()

    # The reporter has stopped it: keep the state, to resume from.
    if not (last := run.evaluations[-1]).final and checkpoints:
        run.save()
    return make_member_results(pack.members, last) if last.final else []


class _TrainingRun:
    """A pack in training: its active members, its evaluations and its clocks."""

    def __init__(
        self,
        pack: Pack,
        member_ids: Sequence[tuple[str, int]],
        compiled: bool,
        reporter: Reporter,
        checkpoints: Checkpoints | None,
        weights_folder: Path | None,
        prune_at: Sequence[int | None] | None,
        initial_state: TrainingState,
    ) -> None:
        # The pack, and the receivers of its results.
        self.pack = pack
        self.member_ids = member_ids
        self.compiled = compiled
        self.reporter = reporter
        self.checkpoints = checkpoints
        self.weights_folder = weights_folder
        self.end_step_M = np.array([step or pack.training.steps for step in prune_at or [None] * len(pack)])

        # Progress: active members, steps and evaluations.
        self.active = ActiveMembers(pack, initial_state, compiled)
        self.steps_done = 0
        self.evaluations = list[Evaluation]()
        self.cached_history = list[EvaluationCurves]()  # the result of `collect_history`
        self.is_interrupted = False  # whether the reporter asked to stop

        # Times, in seconds of time.monotonic.
        self.start_time = time.monotonic()
        self.last_beat = 0.0
        self.earlier_seconds = 0.0  # spent by earlier processes
        self.member_steps_per_second = 0.0

    def evaluate_if_due(self) -> None:
        """Evaluate if an evaluation is due and not yet done, and remove the members that have finished."""
        interval = self.pack.evaluation.every
        last_evaluated_step = self.evaluations[-1].step if self.evaluations else 0
        is_due = self.steps_done == self.pack.training.steps or (interval and self.steps_done % interval == 0)
        if is_due and self.steps_done > last_evaluated_step:
            self.run_evaluation()
            if self.remove_finished():
                self.prepare_steps()

    def prepare_steps(self) -> None:
        """Make batches and the step function for the active members."""
        if not len(self.active):
            return
        self.beat("compile" if self.compiled else "train")
        self.step_batches = StepBatches(self.active.pack)
        self.train_step = make_train_step(
            self.active.pack, self.compiled, lambda: self.beat_if_due("compile"), self.reporter.notice
        )

    def remove_finished(self) -> bool:
        """Remove members that ended at or before the last evaluation; return whether any were removed."""
        if not self.evaluations or self.evaluations[-1].final:
            return False
        count_before = len(self.active)
        has_ended = find_ended_members(self.evaluations[-1], self.end_step_M)
        if has_ended.any():
            self.active.remove(np.flatnonzero(has_ended).tolist())
        if any_removed := len(self.active) < count_before:
            # The cached history has the rows of the previous pack.
            self.cached_history.clear()
        return any_removed

    def resume(self, snapshot: Snapshot) -> None:
        """Restore the state of a checkpoint, and report its evaluations again."""
        state = self.active.collect_full_state().restore(snapshot, self.pack)
        self.active = ActiveMembers(self.pack, state, self.compiled)
        self.steps_done = snapshot.step
        for data in snapshot.evaluations:
            self.store_and_report(Evaluation.from_bytes(data))
        self.earlier_seconds = max((evaluation.seconds for evaluation in self.evaluations), default=0.0)
        # Members that had ended before the checkpoint was written end again.
        self.remove_finished()

    def find_next_target(self) -> int:
        """Return the step to train to next: of an evaluation, of a checkpoint, or the last step."""
        targets = [self.pack.training.steps]
        if interval := self.pack.evaluation.every:
            targets.append((self.steps_done // interval + 1) * interval)
        if self.checkpoints and (due := self.checkpoints.find_next_due_step(self.steps_done)):
            targets.append(due)
        return min(targets)

    def train_until(self, target_step: int) -> None:
        """Train up to `target_step`, with a heartbeat every second; return early if a checkpoint is due by time."""
        burst = 1  # steps between two reads of the clock, adapted to take _BURST_SECONDS
        while self.steps_done < target_step:
            # Read the clock only after a burst, because on a GPU the host must wait for the steps.
            began = time.monotonic()
            count = min(burst, target_step - self.steps_done)
            for steps_done in range(self.steps_done, self.steps_done + count):
                batches = self.step_batches.get_batches(steps_done, target_step, self.active.state.stage)
                self.train_step(self.active.state, batches)
            if self.pack.device.type != "cpu":
                torch.accelerator.synchronize()

            # Shorter bursts for slow steps keep heartbeats and checkpoints on time.
            self.steps_done += count
            elapsed = time.monotonic() - began
            self.member_steps_per_second = count * len(self.active) / elapsed
            burst = max(1, min(_MAX_BURST_STEPS, round(_BURST_SECONDS * count / elapsed)))
            self.beat_if_due("train")
            if self.checkpoints and self.checkpoints.is_due(self.steps_done):
                return

    def run_evaluation(self) -> None:
        """Evaluate the active members, decide which stop or enter the next stage, and report."""
        self.beat("evaluate")
        if warning := pop_warning():
            self.reporter.notice(warning)

        # The loss is the mean since the last evaluation, so its sums start again.
        active = self.active
        pack = self.active.pack
        state = self.active.state
        validation = validate(pack, state, self.beat_if_due)
        metrics, values_MAKL = evaluate(pack, state, self.collect_history(), self.beat_if_due)
        loss_steps_M = state.loss_steps.cpu().numpy()
        loss_M = np.where(loss_steps_M > 0, state.loss_sum.cpu().numpy() / np.maximum(loss_steps_M, 1), np.nan)
        state.loss_sum.zero_()
        state.loss_steps.zero_()

        # Validation has inputs of its own, so that curves are not selected by the inputs they are measured on.
        stage_M = state.stage.cpu().numpy().copy()
        if validation is not None:
            is_stopping = find_members_to_stop(pack, validation, stage_M)
            active.assign("stopped_at", np.where(is_stopping, self.steps_done, state.stopped_at.cpu().numpy()))
            active.assign("stage", choose_next_stages(pack, validation, stage_M))

        # Report active members with the last values of finished ones.
        final = self.steps_done == pack.training.steps
        self.store_and_report(
            Evaluation(
                step=self.steps_done,
                final=final,
                averages=pack.average_labels,
                metrics=metrics,
                lengths=pack.lengths,
                values_MAKL=self.merge_finished(values_MAKL, lambda last: last.select_metrics(metrics)),
                loss_M=self.merge_finished(loss_M, lambda last: last.final_loss_M),
                failed_at_M=active.read_event_steps("failed_at"),
                seconds=self.measure_seconds(),
                form=pack.form,
                compiled=self.compiled,
                weights=self.write_weights_files() if final else (),
                stopped_at_M=None if pack.stop_criterion is None else active.read_event_steps("stopped_at"),
                stage_M=None if pack.curriculum is None else self.merge_finished(stage_M, lambda last: last.stage_M),
                validation=validation and self.merge_validation(validation),
            )
        )

    def report_remaining(self) -> None:
        """Report the remaining evaluations of a pack without active members: the last values of each member."""
        last = self.evaluations[-1]
        steps = self.pack.training.steps
        for step in list_remaining_evaluations(self.pack, last.step):
            if self.is_interrupted:
                return
            files = self.write_weights_files() if step == steps else ()
            repeated = replace(last, step=step, final=step == steps, loss_M=last.final_loss_M, weights=files)
            self.store_and_report(replace(repeated, seconds=self.measure_seconds()))

    def store_and_report(self, evaluation: Evaluation) -> None:
        """Store and report an evaluation; note whether the reporter asked to stop."""
        self.evaluations.append(evaluation)
        self.is_interrupted = bool(self.reporter.report(evaluation))

    def merge_finished(
        self, new_values: NDArray[Any], last_values: Callable[[Evaluation], NDArray[Any] | None]
    ) -> NDArray[Any]:
        """Return the new values of active members, merged with the last values of finished members."""
        # While all members are active, there is nothing to merge.
        new_values = self.active.drop_copy(new_values)
        if len(self.active) == len(self.pack):
            return new_values

        # Overwrite the active members in the values of the last evaluation.
        last = last_values(self.evaluations[-1])
        assert last is not None
        merged = last.copy()
        merged[self.active.indices] = new_values
        return merged

    def merge_validation(self, new_validation: Validation) -> Validation:
        """Return the validation of active members, merged with the last values of finished members."""
        values = self.merge_finished(
            new_validation.values_MDL, lambda last: last.validation.values_MDL if last.validation else None
        )
        return replace(new_validation, values_MDL=values)

    def collect_history(self) -> list[EvaluationCurves]:
        """Return the earlier evaluations of active members, cached until members finish."""
        rows = self.active.pack_rows
        for evaluation in self.evaluations[len(self.cached_history) :]:
            values = evaluation.values_MAKL if rows == list(range(len(self.pack))) else evaluation.values_MAKL[rows]
            self.cached_history.append(
                EvaluationCurves(evaluation.step, {name: values[:, :, k] for k, name in enumerate(evaluation.metrics)})
            )
        return self.cached_history

    def write_weights_files(self) -> tuple[WeightsFile | None, ...]:
        """Write the final weights of every member if they are kept; return the file of each member."""
        return write_pack_weights(
            self.weights_folder,
            self.member_ids,
            self.pack,
            self.active,
            self.steps_done,
            self.end_step_M < self.pack.training.steps,
            lambda: self.beat("evaluate"),
        )

    def save(self) -> None:
        """Write a checkpoint of all members and of the evaluations so far."""
        assert self.checkpoints is not None
        evaluations = [evaluation.to_bytes() for evaluation in self.evaluations]
        self.checkpoints.save(
            self.active.collect_full_state().make_snapshot(self.pack, evaluations, self.compiled), self.member_ids
        )

    def beat_if_due(self, phase: str = "evaluate") -> None:
        """Send a heartbeat if the last heartbeat is more than a second old."""
        if time.monotonic() - self.last_beat > _HEARTBEAT_SECONDS:
            self.beat(phase)

    def beat(self, phase: str) -> None:
        """Send a heartbeat with the progress of the pack."""
        self.last_beat = time.monotonic()

        # Reading these counts waits for a GPU, which does no harm once a second.
        masks = (self.active.read_event_steps(name) >= 0 for name in ("failed_at", "stopped_at"))
        failed, stopped = (int(ended_M.sum()) for ended_M in masks)

        self.reporter.progress(
            Progress(
                step=self.steps_done,
                steps=self.pack.training.steps,
                members=len(self.pack),
                failed=failed,
                seconds=self.measure_seconds(),
                member_steps_per_second=self.member_steps_per_second,
                phase=phase,
                stopped=stopped,
            )
        )

    def measure_seconds(self) -> float:
        """Return the seconds spent on this pack, including earlier processes."""
        return self.earlier_seconds + time.monotonic() - self.start_time
