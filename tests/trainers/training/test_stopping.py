"""Members that stop early: when, what is repeated of them, and that nobody's bits change by it."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainers.own_tasks import Bag, Echo
from tests.trainers.runs import Recorder, killed, same, train_recorded
from trainers import Checkpoints, Evaluation, train
from trainers.config.member import MemberConfig
from trainers.evaluation.results import WeightsFile
from trainers.evaluation.weights_file import StoredWeights
from trainers.models.model import Recorded
from trainers.optimization.criterion import Stop
from trainers.tensors.batch import Batch

SEEDS = (0, 1, 2, 3, 4, 5, 6, 7)
EVERY, STEPS = 4, 60
ENOUGH = Stop(metric="accuracy", threshold=0.99, samples=100)


def quick(member, seed: int, stop: Stop | None = ENOUGH, **changes) -> MemberConfig:
    """A member that learns to echo tokens in 20 steps or so."""
    numbers = {"training__learning_rate": 0.05, "training__steps": STEPS, "evaluation__every": EVERY}
    plain = member(seed, **{**numbers, "evaluation__samples": 20, "training__batch_size": 4, **changes})
    return replace(plain, task=Echo(), model=Bag(), training=replace(plain.training, stop=stop))


@pytest.fixture(scope="module")
def eight(member):
    return train_recorded([quick(member, seed) for seed in SEEDS])


@pytest.fixture(scope="module")
def unstopped(member):
    return train_recorded([quick(member, seed, None) for seed in SEEDS])[0]


def test_members_stop_at_evaluations_of_their_own(eight) -> None:
    evaluations, results = eight
    last = evaluations[-1]
    assert last.step == STEPS and last.final and [evaluation.final for evaluation in evaluations].count(True) == 1
    assert len({int(at) for at in last.stopped_at_M}) >= 3 and (last.stopped_at_M > 0).all()
    assert all(at % EVERY == 0 for at in last.stopped_at_M)
    assert last.stopped_at_M.max() < STEPS - EVERY
    assert [result.stopped_at for result in results] == last.stopped_at_M.tolist()
    assert {result.status for result in results} == {"complete"} and (last.failed_at_M == -1).all()


def test_the_validation_says_why(eight) -> None:
    """Each stopped at the first evaluation at which its mean over the trained lengths was good enough."""
    evaluations, _ = eight
    for m, at in enumerate(evaluations[-1].stopped_at_M):
        means = {evaluation.step: evaluation.validation.mean("accuracy", "raw")[m] for evaluation in evaluations}
        assert min(step for step, mean in means.items() if mean >= np.float32(0.99)) == at
    assert evaluations[0].validation.lengths == (2, 4) and evaluations[0].validation.decisions == (("accuracy", "raw"),)


def test_curves_are_those_without_stopping_and_then_repeated(eight, unstopped) -> None:
    evaluations, plain = eight[0], {evaluation.step: evaluation for evaluation in unstopped}
    timed = unstopped[0].metrics.index("steps_to_accuracy")
    for evaluation in evaluations:
        for m, at in enumerate(evaluations[-1].stopped_at_M):
            other = plain[min(evaluation.step, int(at))]
            np.testing.assert_array_equal(evaluation.values_MAKL[m], other.values_MAKL[m])
            assert evaluation.loss_M[m] == other.loss_M[m]
            assert evaluation.stopped_at_M[m] == (at if evaluation.step >= at else -1)
    assert np.isfinite(evaluations[-1].values_MAKL[:, 0, timed, :2]).all()
    assert all(evaluation.stopped_at_M is None and evaluation.validation is None for evaluation in unstopped)


@pytest.mark.parametrize("chosen", [(3,), (6, 0, 5), (7, 7, 2)], ids=str)
def test_a_member_stops_in_any_pack_as_it_does_in_this_one(member, eight, chosen) -> None:
    evaluations, _ = train_recorded([quick(member, seed) for seed in chosen])
    places = list(chosen)
    for mine, whole in zip(evaluations, eight[0], strict=True):
        assert mine.step == whole.step and mine.final == whole.final
        np.testing.assert_array_equal(mine.values_MAKL, whole.values_MAKL[places])
        np.testing.assert_array_equal(mine.loss_M, whole.loss_M[places])
        np.testing.assert_array_equal(mine.stopped_at_M, whole.stopped_at_M[places])
        np.testing.assert_array_equal(mine.validation.values_MDL, whole.validation.values_MDL[places])


def test_the_pack_becomes_smaller(member, eight, monkeypatch) -> None:
    module, seen = sys.modules["trainers.training.loop"], []
    whole = module.make_train_step

    def watched(pack, *more):
        run_step = whole(pack, *more)
        return lambda state, batches: seen.append(len(state.theta)) or run_step(state, batches)

    monkeypatch.setattr(module, "make_train_step", watched)
    evaluations, _ = train_recorded([quick(member, seed) for seed in SEEDS])
    stopped_at = evaluations[-1].stopped_at_M
    wanted = [int((stopped_at >= step).sum()) for step in range(1, int(stopped_at.max()) + 1)]
    assert seen == wanted


def test_a_last_member_of_a_compiled_pack_goes_on_with_a_twin(member, eight, monkeypatch) -> None:
    module, seen = sys.modules["trainers.training.loop"], set()
    whole = module.make_train_step

    def eager(pack, *_):
        run_step = whole(pack, False)
        return lambda state, batches: seen.add(len(state.theta)) or run_step(state, batches)

    monkeypatch.setattr(module, "make_train_step", eager)
    monkeypatch.setattr(module, "should_compile", lambda member, device: True)
    for chosen in ((0, 1, 2), (3,)):
        seen.clear()
        evaluations, _ = train_recorded([quick(member, seed) for seed in chosen])
        assert min(seen) == 2
        final = eight[0][-1]
        np.testing.assert_array_equal(evaluations[-1].values_MAKL, final.values_MAKL[list(chosen)])
        np.testing.assert_array_equal(evaluations[-1].stopped_at_M, final.stopped_at_M[list(chosen)])


@pytest.mark.slow
def test_a_compiled_pack_that_becomes_smaller_has_the_bits_of_its_members_alone(member, tmp_path) -> None:
    """One program for packs of five members, fewer, and a last one with its twin: curves, losses and kept weights.

    They have hyperparameters of their own, and the losses of an eager pack.
    """

    def trained(*seeds: int, compiled: bool = True) -> tuple[list[Evaluation], dict[int, np.ndarray]]:
        folder, members = tmp_path / f"{seeds} {compiled}", []
        for seed in seeds:
            hyperparameters = {
                "training__learning_rate": 0.05 - 0.003 * seed,
                "training__weight_decay": 0.01 * seed,
                "training__betas": [0.9 - 0.02 * seed, 0.999 - 0.001 * seed],
                "training__clip": 1.0 + seed,
                "training__averages": {"raw": {}, "ema": {"decay": 0.8 + 0.03 * seed}, "bema": {"kappa": 0.5}},
            }
            members.append(quick(member, seed, training__compile=compiled, **hyperparameters))
        evaluations, _ = train_recorded(members, weights=folder)
        files = (StoredWeights(folder / file.name, file.sha256, "raw") for file in evaluations[-1].weights)
        return evaluations, {seed: stored["vectors"] for seed, stored in zip(seeds, files, strict=True)}

    made = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    five = (0, 1, 2, 3, 4)
    together, weights = trained(*five)
    final = together[-1]
    assert all(evaluation.compiled for evaluation in together) and (final.stopped_at_M > 0).all()
    times = sorted(set(final.stopped_at_M.tolist()))
    assert len(times) >= 3, "it becomes smaller more than once"
    by_step = {evaluation.step: evaluation for evaluation in together}
    for seed in (int(final.stopped_at_M.argmin()), int(final.stopped_at_M.argmax())):
        alone, lone_weights = trained(seed)
        assert alone[-1].compiled and alone[-1].stopped_at_M[0] == final.stopped_at_M[seed]
        for evaluation in alone:
            np.testing.assert_array_equal(evaluation.values_MAKL[0], by_step[evaluation.step].values_MAKL[seed])
            np.testing.assert_array_equal(evaluation.loss_M[0], by_step[evaluation.step].loss_M[seed])
        np.testing.assert_array_equal(lone_weights[seed], weights[seed])
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == made + 1
    eager, _ = trained(*five, compiled=False)
    assert not eager[0].compiled
    np.testing.assert_allclose(eager[0].loss_M, together[0].loss_M, rtol=1e-5)
    np.testing.assert_allclose(eager[0].values_MAKL, together[0].values_MAKL, rtol=1e-3, atol=1e-3)


def test_a_failed_member_leaves_and_stays_failed(member) -> None:
    members = [quick(member, 0), quick(member, 1, training__learning_rate=1e38), quick(member, 2)]
    recorder = Recorder()
    results = train(members, recorder)
    last = recorder.evaluations[-1]
    assert [result.status for result in results] == ["complete", "failed", "complete"]
    assert results[1].stopped_at is None and results[1].failed_at is not None
    assert np.isnan(last.values_MAKL[1]).all() and np.isnan(last.loss_M[1])
    trained = max(beat.step for beat in recorder.beats)
    assert trained == last.stopped_at_M.max() < STEPS, "the failed one did not keep the pack going"


def test_weights_are_those_at_the_stop(member, eight, tmp_path) -> None:
    evaluations, _ = train_recorded([quick(member, seed) for seed in (0, 1)], weights=tmp_path)
    final = evaluations[-1]
    assert [evaluation for evaluation in evaluations[:-1] if evaluation.weights] == []
    for m, file in enumerate(final.weights):
        stored = StoredWeights(tmp_path / file.name, file.sha256, "raw")
        at = int(final.stopped_at_M[m])
        assert stored.step == at
        short = quick(member, m, None, training__steps=at)
        ((lone,),) = [train_recorded([short], weights=tmp_path / "alone")[0][-1].weights]
        alone = StoredWeights(tmp_path / "alone" / lone.name, lone.sha256, "raw")
        np.testing.assert_array_equal(stored["vectors"], alone["vectors"])


@pytest.mark.parametrize("at", [10, 13, 22, 31])
def test_a_pack_resumed_at_any_step_continues_bit_for_bit(member, eight, tmp_path, at) -> None:
    """Whatever has stopped by then."""
    members = [quick(member, seed) for seed in SEEDS]
    killed(members, tmp_path, at, every_steps=3)
    evaluations, results = train_recorded(members, checkpoints=Checkpoints(folder=tmp_path, every_steps=1000))
    same(evaluations, eight[0])
    assert results == eight[1]


@pytest.mark.parametrize("every_steps", [None, 3])
def test_a_pack_interrupted_after_all_have_stopped_goes_on_from_there(member, eight, tmp_path, every_steps) -> None:
    members, ends = [quick(member, seed) for seed in SEEDS], int(eight[0][-1].stopped_at_M.max())

    class Interrupts(Recorder):
        def report(self, evaluation: Evaluation) -> bool:
            super().report(evaluation)
            return evaluation.step == ends + EVERY

    recorder = Interrupts()
    assert train(members, recorder, checkpoints=Checkpoints(folder=tmp_path, every_steps=every_steps)) == []
    assert recorder.evaluations[-1].step == ends + EVERY < STEPS - EVERY and not recorder.evaluations[-1].final
    rest = Recorder()
    assert train(members, rest, checkpoints=Checkpoints(folder=tmp_path)) == eight[1]
    same(rest.evaluations, eight[0])
    assert {beat.step for beat in rest.beats} <= {ends}, "nothing is trained again"


def test_a_metric_that_is_newer_than_a_checkpoint_is_measured_of_those_that_go_on(member, eight, tmp_path) -> None:
    """Here accuracy; of members that had stopped before there is none."""
    members = [quick(member, seed) for seed in SEEDS]
    killed(members, tmp_path, 31, every_steps=3)
    names = [(config.config_id, config.seed) for config in members]
    snapshot, _ = Checkpoints(folder=tmp_path).load(names)
    before = [Evaluation.from_bytes(data) for data in snapshot.evaluations]
    left = before[-1].stopped_at_M > 0
    assert left.any() and not left.all() and before[0].metrics == ("accuracy", "steps_to_accuracy")
    older = [
        replace(evaluation, metrics=evaluation.metrics[1:], values_MAKL=evaluation.values_MAKL[:, :, 1:])
        for evaluation in before
    ]
    stored = [evaluation.to_bytes() for evaluation in older]
    Checkpoints(folder=tmp_path / "older").save(replace(snapshot, evaluations=stored), names)
    evaluations, _ = train_recorded(members, checkpoints=Checkpoints(folder=tmp_path / "older"))
    final, wanted = evaluations[-1], eight[0][-1]
    assert final.metrics == wanted.metrics
    np.testing.assert_array_equal(final.values_MAKL[~left, :, 0], wanted.values_MAKL[~left, :, 0])
    assert np.isnan(final.values_MAKL[left, :, 0]).all()
    np.testing.assert_array_equal(final.values_MAKL[left, :, 1], wanted.values_MAKL[left, :, 1])


def test_an_evaluation_round_trips(unstopped, eight) -> None:
    assert unstopped[0].stopped_at_M is None
    weights = (WeightsFile(name="a.safetensors", sha256="f" * 64, bytes=8), None)
    of_program = replace(unstopped[0], repeated=2, defaults={"lr": 0.1}, weights=weights)
    for evaluation in (unstopped[0], of_program, *eight[0]):
        again = Evaluation.from_bytes(evaluation.to_bytes())
        np.testing.assert_equal(asdict(again), asdict(evaluation))
    with pytest.raises(ValueError, match="checksum does not match"):
        Evaluation.from_bytes(eight[0][0].to_bytes()[:-1])


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_whenever_members_stop_what_is_repeated_is_right(member, eight, unstopped, data) -> None:
    """Random times of stopping: later evaluations repeat the values at the stop, and packs have who is left."""
    count = data.draw(st.integers(1, 5))
    times = st.one_of(st.none(), st.integers(1, 5).map(lambda n: n * EVERY))
    at = data.draw(st.lists(times, min_size=count, max_size=count))
    module, seen = sys.modules["trainers.training.loop"], {}
    whole, decide = module.evaluate, module.find_members_to_stop
    members = [quick(member, seed, training__steps=24) for seed in SEEDS[:count]]

    def chosen(pack, validation, stage):
        return np.array([at[member.seed] == now[0] for member in pack.members])

    def evaluated(pack, state, *more):
        now[0] = int(state.step)
        seen[now[0]] = [member.seed for member in pack.members]
        return whole(pack, state, *more)

    now = [0]
    module.evaluate, module.find_members_to_stop = evaluated, chosen
    try:
        evaluations, _ = train_recorded(members)
    finally:
        module.evaluate, module.find_members_to_stop = whole, decide
    plain = {evaluation.step: evaluation for evaluation in unstopped}
    for evaluation in evaluations:
        for m in range(count):
            stopped = at[m] is not None and evaluation.step >= at[m]
            other = plain[at[m] if stopped else evaluation.step]
            np.testing.assert_array_equal(evaluation.values_MAKL[m], other.values_MAKL[m])
            assert evaluation.stopped_at_M[m] == (at[m] if stopped else -1)
    for step, there in seen.items():
        assert there == [m for m in range(count) if at[m] is None or at[m] >= step]
    latest = max((24 if step is None else step) for step in at)
    assert max(seen) == latest and evaluations[-1].step == 24 and evaluations[-1].final


class Measured(Bag):
    """A bag with a metric of its own: its scale, which training raises."""

    metrics: ClassVar[Mapping[str, str]] = {"scale": "maximize"}

    def measure_rows(
        self, weights: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...], recorded: Recorded
    ) -> dict[str, Tensor]:
        return {"scale": weights["scale"][:, None].expand(-1, batch.tokens.shape[1], len(lengths))}


def test_a_member_stops_on_a_metric_of_its_model(member) -> None:
    stop = Stop(metric="scale", threshold=1.2, samples=10)
    evaluations, _ = train_recorded([replace(quick(member, seed, stop), model=Measured()) for seed in (0, 1)])
    for member_at, step in enumerate(evaluations[-1].stopped_at_M.tolist()):
        reached = [
            evaluation.step
            for evaluation in evaluations
            if evaluation.values_MAKL[member_at, 0, evaluation.metrics.index("scale"), 0] >= 1.2
        ]
        assert step == reached[0] < STEPS
