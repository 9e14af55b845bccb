"""The training loop of one pack: step, evaluate, report, checkpoint. It names no task, model or tracker."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from trainers.ahead import Ahead
from trainers.compiling import COMPILED_BEFORE_FROM_SECONDS, compiles
from trainers.config.member import MemberConfig
from trainers.errors import PackError
from trainers.evaluate import evaluate
from trainers.files.checkpoint import Checkpoints
from trainers.files.weights import write_weights
from trainers.pack import Pack, State, weights_of
from trainers.random import said
from trainers.results import Curve, Evaluation, MemberResult, Progress, Reporter, WeightsFile
from trainers.step import learner
from trainers.tasks.task import Evaluated

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
    compiled = _compiled(members[0], checkpoints)
    if len(members) == 1 and compiled:
        # A compiled program of one member reduces in another order than one of several: a twin keeps the bits the same.
        pack, names = Pack([*members, *members], torch.device(device)), [*names, *names]
    return _Run(pack, names, len(members), compiled, reporter, checkpoints, weights).to_the_end()


def _compiled(member: MemberConfig, checkpoints: Checkpoints | None) -> bool:
    """Whether the step is compiled: as it was when the newest checkpoint was written, or as the members want it."""
    stored = checkpoints and checkpoints.newest()
    if not stored:
        return compiles(member)
    if stored.compiled is not None:
        return stored.compiled
    if stored.evaluations:
        return Evaluation.from_bytes(stored.evaluations[-1]).compiled
    return compiles(member, from_seconds=COMPILED_BEFORE_FROM_SECONDS)


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
        self.compiled, self.ahead = compiled, Ahead(pack)
        self.state, self.done = State.initial(pack), 0
        self.evaluations: list[Evaluation] = []
        self.started, self.spent, self.last_beat, self.rate = time.monotonic(), 0.0, 0.0, 0.0

    def to_the_end(self) -> list[MemberResult]:
        self.resume()
        steps = self.pack.optimization.steps
        if lost := said():
            self.reporter.notice(lost)
        self.beat("compile" if self.compiled else "train")
        self.learn = learner(self.pack, self.compiled, lambda: self.beat_if_due("compile"))
        while self.done < steps:
            self.run_until(self.next_stop())
            if self.done == steps or (self.pack.evaluation.every and self.done % self.pack.evaluation.every == 0):
                self.evaluate()
            if self.checkpoints and self.done < steps and self.checkpoints.due(self.done):
                self.save()
        return self.results()

    def resume(self) -> None:
        if self.checkpoints is None:
            return
        snapshot, notices = self.checkpoints.load(self.names)
        for notice in notices:
            self.reporter.notice(notice)
        if snapshot is None:
            return
        self.state = self.state.restored(snapshot, self.pack)
        self.done = snapshot.step
        self.evaluations = [Evaluation.from_bytes(data) for data in snapshot.evaluations]
        self.spent = max((evaluation.seconds for evaluation in self.evaluations), default=0.0)
        for evaluation in self.evaluations:
            self.reporter.report(evaluation)

    def next_stop(self) -> int:
        """The next step at which the loop must stop: for an evaluation, a checkpoint or the end."""
        stops = [self.pack.optimization.steps]
        if every := self.pack.evaluation.every:
            stops.append((self.done // every + 1) * every)
        if self.checkpoints and (due := self.checkpoints.next_step(self.done)):
            stops.append(due)
        return min(stops)

    def run_until(self, stop: int) -> None:
        """Steps up to `stop`, with a heartbeat each second; returns early where a checkpoint is due by time."""
        burst = 1  # steps between looks at the clock
        while self.done < stop:
            began = time.monotonic()
            count = min(burst, stop - self.done)
            for done in range(self.done, self.done + count):
                self.learn(self.state, self.ahead.batches(done, stop))
            if self.pack.device.type != "cpu":
                torch.accelerator.synchronize()
            self.done += count
            elapsed = time.monotonic() - began
            self.rate = count * self.count / elapsed
            burst = max(1, min(1000, round(0.25 * count / elapsed)))
            self.beat_if_due("train")
            if self.checkpoints and self.checkpoints.due(self.done):
                return

    def evaluate(self) -> None:
        self.beat("evaluate")
        metrics, values = evaluate(self.pack, self.state, self.history(), self.beat_if_due)
        steps = self.state.loss_steps.cpu().numpy()
        loss = np.where(steps > 0, self.state.loss_sum.cpu().numpy() / np.maximum(steps, 1), np.nan)
        self.state.loss_sum.zero_()
        self.state.loss_steps.zero_()
        final = self.done == self.pack.optimization.steps
        kept = self.keep_weights(self.weights) if final and self.weights else ()
        evaluation = Evaluation(
            step=self.done,
            final=final,
            averages=self.pack.labels,
            metrics=metrics,
            lengths=self.pack.lengths,
            values_MAKL=values[: self.count],
            loss_M=loss[: self.count],
            failed_at_M=self.state.failed_at.cpu().numpy()[: self.count].copy(),
            seconds=self.seconds(),
            form=self.pack.form,
            compiled=self.compiled,
            weights=kept,
        )
        self.evaluations.append(evaluation)
        self.reporter.report(evaluation)

    def history(self) -> list[Evaluated]:
        """The earlier evaluations; the twin of a lone member has its values."""
        each = np.zeros(len(self.pack), dtype=int) if self.count == 1 else slice(None)
        return [
            Evaluated(one.step, {name: one.values_MAKL[each, :, k] for k, name in enumerate(one.metrics)})
            for one in self.evaluations
        ]

    def keep_weights(self, folder: Path) -> tuple[WeightsFile | None, ...]:
        """Write the weights of every member that has not failed."""
        found, kept = weights_of(self.pack, self.state), list[WeightsFile | None]()
        for i, member in enumerate(self.pack.members[: self.count]):
            self.beat("evaluate")
            mine = {label: self.pack.layout.views(theta[i : i + 1].cpu()) for label, theta in found.items()}
            arrays = {label: {name: value[0].numpy() for name, value in of.items()} for label, of in mine.items()}
            failed = bool(self.state.failed_at[i] >= 0)
            kept.append(None if failed else write_weights(folder, self.names[i], member, self.done, arrays))
        return tuple(kept)

    def save(self) -> None:
        assert self.checkpoints is not None
        evaluations = [evaluation.to_bytes() for evaluation in self.evaluations]
        self.checkpoints.save(self.state.snapshot(self.pack, evaluations, self.compiled), self.names)

    def beat_if_due(self, phase: str = "evaluate") -> None:
        if time.monotonic() - self.last_beat > _HEARTBEAT_SECONDS:
            self.beat(phase)

    def beat(self, phase: str) -> None:
        self.last_beat = time.monotonic()
        failed = int((self.state.failed_at[: self.count] >= 0).sum())
        self.reporter.progress(
            Progress(
                step=self.done,
                steps=self.pack.optimization.steps,
                members=self.count,
                failed=failed,
                seconds=self.seconds(),
                member_steps_per_second=self.rate,
                phase=phase,
            )
        )

    def seconds(self) -> float:
        return self.spent + time.monotonic() - self.started

    def results(self) -> list[MemberResult]:
        last = self.evaluations[-1]
        results = []
        for i, member in enumerate(self.pack.members[: self.count]):
            curves = tuple(
                Curve(
                    average=average,
                    metric=metric,
                    step=last.step,
                    lengths=last.lengths,
                    values=tuple(map(float, last.values_MAKL[i, a, k])),
                )
                for a, average in enumerate(last.averages)
                for k, metric in enumerate(last.metrics)
            )
            failed_at = int(last.failed_at_M[i])
            status, at = ("failed", failed_at) if failed_at >= 0 else ("complete", None)
            results.append(
                MemberResult(
                    member=member,
                    status=status,
                    failed_at=at,
                    form=self.pack.form,
                    compiled=self.compiled,
                    curves=curves,
                )
            )
        return results
