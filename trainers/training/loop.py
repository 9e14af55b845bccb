"""The training loop of one pack: step, evaluate, report, checkpoint. It names no task, model or tracker."""

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
    member_results,
)
from trainers.evaluation.weights import write_weights
from trainers.files.checkpoint import Checkpoints, Snapshot
from trainers.packs.active_members import Going
from trainers.packs.batches import Ahead
from trainers.packs.pack import Pack, State, weights_of
from trainers.random import fuse, said
from trainers.tasks.metrics import Evaluated
from trainers.tensors.precision import unordered
from trainers.training.compiling import compiles, fuses_draws
from trainers.training.decisions import good_enough, next_stages
from trainers.training.step import learner

_HEARTBEAT_SECONDS = 1.0


def train(
    members: Sequence[MemberConfig],
    reporter: Reporter,
    *,
    ids: Sequence[tuple[str, int]] | None = None,
    checkpoints: Checkpoints | None = None,
    weights: Path | None = None,
    device: str = "cpu",
) -> list[MemberResult]:
    """Train members of one structural key as one stacked program; results in the order of `members`.

    `ids` are the names of the members, (config_id, seed) each, which checkpoints and files of weights carry; without
    them each has the name that today's code gives its values.

    Resumes from the newest good checkpoint, and then first reports every earlier evaluation again. The final weights
    are kept in the folder `weights`, if one is given, before the last evaluation is reported, which names their files.
    Raises PackError for members of unequal structure or names that do not fit them, CheckpointError for a checkpoint
    of other members or of another layout, WeightsError for weights that cannot be written.
    """
    names = [(member.config_id, member.seed) for member in members] if ids is None else list(ids)
    if [seed for _, seed in names] != [member.seed for member in members]:
        raise PackError(f"the names {names} do not fit the seeds {[member.seed for member in members]} of the members")
    pack = Pack(members, torch.device(device))
    stored, notices = checkpoints.load(names) if checkpoints else (None, [])
    compiled = stored.compiled if stored else compiles(members[0], pack.device.type)
    if fuses_draws(members[0], pack.device.type):
        fuse()
    if len(members) == 1 and compiled:
        # A compiled program of one member reduces in another order than one of several: a twin keeps the bits the same.
        pack, names = Pack([*members, *members], torch.device(device)), [*names, *names]
    run = _Run(pack, names, len(members), compiled, reporter, checkpoints, weights)
    for notice in (*notices, *filter(None, [unordered()])):
        reporter.notice(notice)
    if stored:
        run.resume(stored)
        del stored  # it is as large as the state
    return run.to_the_end()


class _Run:
    def __init__(
        self,
        pack: Pack,
        names: Sequence[tuple[str, int]],
        count: int,
        compiled: bool,
        reporter: Reporter,
        checkpoints: Checkpoints | None,
        weights: Path | None,
    ) -> None:
        self.pack, self.names, self.count = pack, names, count
        self.reporter, self.checkpoints, self.weights = reporter, checkpoints, weights
        self.compiled, self.going, self.done = compiled, Going(pack, State.initial(pack), compiled), 0
        self.evaluations, self.past = list[Evaluation](), list[Evaluated]()
        self.started, self.spent, self.last_beat, self.rate = time.monotonic(), 0.0, 0.0, 0.0

    def to_the_end(self) -> list[MemberResult]:
        steps = self.pack.training.steps
        if lost := said():
            self.reporter.notice(lost)
        self.prepare()
        while self.done < steps and len(self.going):
            self.run_until(self.next_stop())
            if self.done == steps or (self.pack.evaluation.every and self.done % self.pack.evaluation.every == 0):
                self.evaluate()
                if self.remove_finished():
                    self.prepare()
            if self.checkpoints and self.done < steps and self.checkpoints.due(self.done):
                self.save()
        if not self.evaluations[-1].final:
            self.repeat()
        return member_results(self.pack.members[: self.count], self.evaluations[-1])

    def prepare(self) -> None:
        """Prepare to train the active members, if there are any."""
        if not len(self.going):
            return
        self.beat("compile" if self.compiled else "train")
        self.ahead = Ahead(self.going.pack)
        self.learn = learner(self.going.pack, self.compiled, lambda: self.beat_if_due("compile"), self.reporter.notice)

    def remove_finished(self) -> bool:
        """Remove members that stopped or failed by the last evaluation, with early stopping; return whether any did."""
        if self.pack.stop is None or not self.evaluations or self.evaluations[-1].final:
            return False
        last, before = self.evaluations[-1], len(self.going)
        ended = (self.select_members(last.stopped_at_M) >= 0) | (self.select_members(last.failed_at_M) >= 0)
        self.going.leave(np.flatnonzero(ended).tolist())
        if left := len(self.going) < before:
            self.past.clear()
        return left

    def resume(self, snapshot: Snapshot) -> None:
        self.going = Going(self.pack, self.going.state.restored(snapshot, self.pack), self.compiled)
        self.done = snapshot.step
        self.evaluations = [Evaluation.from_bytes(data) for data in snapshot.evaluations]
        self.spent = max((evaluation.seconds for evaluation in self.evaluations), default=0.0)
        for evaluation in self.evaluations:
            self.reporter.report(evaluation)
        self.remove_finished()

    def next_stop(self) -> int:
        """Return the next step at which the loop must stop: for an evaluation, a checkpoint or the end."""
        stops = [self.pack.training.steps]
        if every := self.pack.evaluation.every:
            stops.append((self.done // every + 1) * every)
        if self.checkpoints and (due := self.checkpoints.next_step(self.done)):
            stops.append(due)
        return min(stops)

    def run_until(self, stop: int) -> None:
        """Train up to step `stop`, with a heartbeat every second; return early if a checkpoint is due by time."""
        burst = 1  # steps between looks at the clock
        while self.done < stop:
            began = time.monotonic()
            count = min(burst, stop - self.done)
            for done in range(self.done, self.done + count):
                self.learn(self.going.state, self.ahead.batches(done, stop, self.going.state.stage))
            if self.pack.device.type != "cpu":
                torch.accelerator.synchronize()
            self.done += count
            elapsed = time.monotonic() - began
            self.rate = count * min(self.count, len(self.going)) / elapsed
            burst = max(1, min(1000, round(0.25 * count / elapsed)))
            self.beat_if_due("train")
            if self.checkpoints and self.checkpoints.due(self.done):
                return

    def evaluate(self) -> None:
        self.beat("evaluate")
        if lost := said():
            self.reporter.notice(lost)
        going, pack, state = self.going, self.going.pack, self.going.state
        validation = validate(pack, state, self.beat_if_due)
        metrics, values = evaluate(pack, state, self.history(), self.beat_if_due)
        steps = state.loss_steps.cpu().numpy()
        loss = np.where(steps > 0, state.loss_sum.cpu().numpy() / np.maximum(steps, 1), np.nan)
        state.loss_sum.zero_()
        state.loss_steps.zero_()
        stage = state.stage.cpu().numpy().copy()
        if validation is not None:
            stops = good_enough(pack, validation, stage)
            going.decide("stopped_at", np.where(stops, self.done, state.stopped_at.cpu().numpy()))
            going.decide("stage", next_stages(pack, validation, stage))
        final = self.done == pack.training.steps
        self.report(
            Evaluation(
                step=self.done,
                final=final,
                averages=pack.labels,
                metrics=metrics,
                lengths=pack.lengths,
                values_MAKL=self.merge_finished(values, lambda last: last.values_of(metrics)),
                loss_M=self.merge_finished(loss, _final_loss),
                failed_at_M=going.number("failed_at")[: self.count],
                seconds=self.seconds(),
                form=pack.form,
                compiled=self.compiled,
                weights=self.keep_weights(self.weights) if final and self.weights else (),
                stopped_at_M=None if pack.stop is None else going.number("stopped_at")[: self.count],
                stage_M=None if pack.curriculum is None else self.merge_finished(stage, lambda last: last.stage_M),
                validation=validation and self.merge_validation(validation),
            )
        )

    def repeat(self) -> None:
        """Report the final evaluation of a pack without active members: the values with which they finished."""
        kept = self.keep_weights(self.weights) if self.weights else ()
        steps, last = self.pack.training.steps, self.evaluations[-1]
        self.report(
            replace(last, step=steps, final=True, loss_M=_final_loss(last), seconds=self.seconds(), weights=kept)
        )

    def report(self, evaluation: Evaluation) -> None:
        self.evaluations.append(evaluation)
        self.reporter.report(evaluation)

    def merge_finished(
        self, active: NDArray[Any], last_values: Callable[[Evaluation], NDArray[Any] | None]
    ) -> NDArray[Any]:
        """Return new values of active members, and values of finished ones from the last evaluation."""
        if len(self.going) == len(self.pack):
            return active[: self.count]
        last = last_values(self.evaluations[-1])
        assert last is not None
        merged = last.copy()
        merged[self.going.places] = self.going.of_going(active)
        return merged

    def merge_validation(self, active: Validation) -> Validation:
        values = self.merge_finished(
            active.values_MDL, lambda last: last.validation.values_MDL if last.validation else None
        )
        return replace(active, values_MDL=values)

    def select_members(self, values: NDArray[Any] | None, rows: Sequence[int] | None = None) -> NDArray[Any]:
        """Return the values of the members at these indices of the pack, by default of all.

        The twin of a lone member has its values.
        """
        assert values is not None
        places = [min(place, self.count - 1) for place in (range(len(self.pack)) if rows is None else rows)]
        return values if places == list(range(len(values))) else values[places]

    def history(self) -> list[Evaluated]:
        """Return the earlier evaluations of active members; each is sliced once, and again when members finish."""
        rows = self.going.rows
        for one in self.evaluations[len(self.past) :]:
            values = self.select_members(one.values_MAKL, rows)
            self.past.append(Evaluated(one.step, {name: values[:, :, k] for k, name in enumerate(one.metrics)}))
        return self.past

    def keep_weights(self, folder: Path) -> tuple[WeightsFile | None, ...]:
        """Write the weights of every member that has not failed: its last ones, or those with which it stopped."""
        found, kept = weights_of(self.pack, self.going.whole_state()), list[WeightsFile | None]()
        failed_at, stopped_at = self.going.number("failed_at"), self.going.number("stopped_at")
        for i, member in enumerate(self.pack.members[: self.count]):
            self.beat("evaluate")
            mine = {label: self.pack.layout.views(theta[i : i + 1].cpu()) for label, theta in found.items()}
            arrays = {label: {name: value[0].numpy() for name, value in of.items()} for label, of in mine.items()}
            step = int(stopped_at[i]) if stopped_at[i] >= 0 else self.done
            failed = failed_at[i] >= 0
            kept.append(None if failed else write_weights(folder, self.names[i], member, step, arrays))
        return tuple(kept)

    def save(self) -> None:
        assert self.checkpoints is not None
        evaluations = [evaluation.to_bytes() for evaluation in self.evaluations]
        whole = self.going.whole_state()
        self.checkpoints.save(whole.snapshot(self.pack, evaluations, self.compiled), self.names)

    def beat_if_due(self, phase: str = "evaluate") -> None:
        if time.monotonic() - self.last_beat > _HEARTBEAT_SECONDS:
            self.beat(phase)

    def beat(self, phase: str) -> None:
        self.last_beat = time.monotonic()
        failed, stopped = (
            int((self.going.number(name)[: self.count] >= 0).sum()) for name in ("failed_at", "stopped_at")
        )
        self.reporter.progress(
            Progress(
                step=self.done,
                steps=self.pack.training.steps,
                members=self.count,
                failed=failed,
                seconds=self.seconds(),
                member_steps_per_second=self.rate,
                phase=phase,
                stopped=stopped,
            )
        )

    def seconds(self) -> float:
        return self.spent + time.monotonic() - self.started


def _final_loss(last: Evaluation) -> NDArray[np.float64]:
    """Return the loss with which members finished, NaN for those that failed."""
    return np.where(last.failed_at_M >= 0, np.nan, last.loss_M)
