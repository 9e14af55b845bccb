"""Curricula: stages of members side by side, what is trained and drawn at them, and restarts."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainers.own_tasks import Bag, Echo, Last
from tests.trainers.runs import same, train_recorded
from tests.trainers.training.test_stopping import ENOUGH, EVERY, quick
from trainers import Checkpoints
from trainers.config.member import MemberConfig
from trainers.errors import PackError
from trainers.evaluation.results import Validation
from trainers.optimization.criterion import Stop
from trainers.optimization.curricula import Curriculum, Threshold
from trainers.packs.batches import StepBatches, count_elements_per_row
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.training.step import sample_batches
from trainers.training.stopping import choose_next_stages, find_members_to_stop

CPU = torch.device("cpu")
RISING = Threshold(metric="accuracy", threshold=0.95, samples=100)
SEEDS = (0, 1, 2, 3, 4)


def staged(member, seed: int, stop: Stop | None = ENOUGH, curriculum: Curriculum = RISING, **changes) -> MemberConfig:
    plain = quick(member, seed, stop, **changes)
    return replace(plain, training=replace(plain.training, curriculum=curriculum))


@pytest.fixture(scope="module")
def five(member):
    return train_recorded([staged(member, seed) for seed in SEEDS])


def test_a_member_goes_on_when_its_own_stage_is_good_enough(five) -> None:
    evaluations, _ = five
    stage = np.zeros(len(SEEDS), int)
    for evaluation in evaluations:
        np.testing.assert_array_equal(evaluation.stage_M, stage)
        scores = evaluation.validation.select_scores("accuracy", "raw", (2, 4))[np.arange(len(SEEDS)), stage]
        going = (evaluation.stopped_at_M < 0) | (evaluation.stopped_at_M == evaluation.step)
        stage = np.where(going & (scores >= np.float32(0.95)), np.minimum(stage + 1, 1), stage)
    assert len({tuple(evaluation.stage_M) for evaluation in evaluations}) > 2, "members stood at different stages"


def test_members_stop_at_the_last_stage_alone(five) -> None:
    evaluations, _ = five
    last = evaluations[-1]
    assert (last.stopped_at_M > 0).any()
    for evaluation in evaluations:
        assert (evaluation.stage_M[evaluation.stopped_at_M == evaluation.step] == 1).all()
    good = [
        evaluation
        for evaluation in evaluations
        if (evaluation.validation.mean("accuracy", "raw") >= np.float32(0.99)).any()
    ]
    assert good, "else nothing is shown"


def test_a_good_score_before_the_last_stage_stops_nobody(member) -> None:
    """Where the first stage teaches all, the mean over the trained lengths is good enough before the last."""
    values = np.array([[[1.0, 1.0]], [[1.0, 1.0]], [[1.0, 0.9]], [[np.nan, 1.0]], [[np.nan, np.nan]]], np.float32)
    seen = Validation(decisions=(("accuracy", "raw"),), lengths=(2, 4), values_MDL=values)
    pack = Pack([staged(member, seed) for seed in SEEDS], CPU)
    assert find_members_to_stop(pack, seen, np.array([0, 1, 1, 1, 1])).tolist() == [False, True, False, True, False]
    plain = Pack([quick(member, seed) for seed in SEEDS], CPU)
    assert find_members_to_stop(plain, seen, np.zeros(5, int)).tolist() == [True, True, False, True, False]
    assert choose_next_stages(plain, seen, np.zeros(5, int)).tolist() == [0] * 5


@pytest.mark.parametrize("chosen", [(2,), (4, 1, 2)], ids=str)
def test_a_member_goes_on_in_any_pack_as_it_does_in_this_one(member, five, chosen) -> None:
    evaluations, _ = train_recorded([staged(member, seed) for seed in chosen])
    whole = {evaluation.step: evaluation for evaluation in five[0]}
    for evaluation in evaluations:
        if evaluation.step in whole:
            np.testing.assert_array_equal(evaluation.stage_M, whole[evaluation.step].stage_M[list(chosen)])
            np.testing.assert_array_equal(evaluation.values_MAKL, whole[evaluation.step].values_MAKL[list(chosen)])


def test_members_of_one_seed_stand_at_stages_of_their_own(member) -> None:
    """Learning at different rates: each as it does alone."""
    rates = (0.05, 0.005, 0.05)
    members = [staged(member, 3, None, training__learning_rate=rate) for rate in rates]
    evaluations, _ = train_recorded(members)
    assert any(len(set(evaluation.stage_M.tolist())) == 2 for evaluation in evaluations)
    for index in (0, 1):
        for evaluation, alone in zip(evaluations, train_recorded([members[index]])[0], strict=True):
            np.testing.assert_array_equal(evaluation.values_MAKL[index], alone.values_MAKL[0])
            assert evaluation.stage_M[index] == alone.stage_M[0] and evaluation.loss_M[index] == alone.loss_M[0]


def test_what_is_drawn_ahead_is_what_is_drawn_step_by_step(member) -> None:
    pack = Pack([staged(member, seed) for seed in (3, 1, 3)], CPU)
    stage_M = torch.tensor([0, 1, 1])
    step_batches = StepBatches(pack)
    assert count_elements_per_row(pack.task, has_stages=True) is not None and step_batches.steps_at_once > 4
    for done in range(4):
        (batch,) = step_batches.get_batches(done, 4, stage_M)
        (wanted,) = sample_batches(pack, torch.tensor(done + 1), 4, stage_M)
        assert torch.equal(batch.tokens, wanted.tokens)
        for m, seed in enumerate((3, 1, 3)):
            stream = Stream(torch.tensor([seed]), "data", torch.tensor(done + 1))
            assert torch.equal(pack.task.sample_staged(stream, 4, stage_M[m : m + 1]).tokens[0], batch.tokens[m])


def test_nothing_is_drawn_ahead_across_an_evaluation(member, monkeypatch) -> None:
    """After it members may stand at other stages."""
    seen, whole = [], Echo.sample_staged

    def watched(self, stream, rows, stage_S):
        if rows == 4 and len(stream.seeds_S) > 6:
            seen.append((stream.step.reshape(-1).min().item(), stream.step.max().item()))
        return whole(self, stream, rows, stage_S)

    monkeypatch.setattr(Echo, "sample_staged", watched)
    train_recorded([staged(member, seed, None) for seed in SEEDS])
    assert seen and all((first - 1) // EVERY == (last - 1) // EVERY for first, last in seen)


class Jumping(Threshold):
    """Two stages further, whatever there are."""

    def advance_stages(self, stage_M, scores_MN, direction):
        return stage_M + 2


def test_a_curriculum_that_leads_out_of_the_stages_is_refused(member) -> None:
    jumping = Jumping(metric="accuracy", threshold=0.5)
    with pytest.raises(PackError, match=r"returned \[2\]; allowed: 1 integers from 0 to 1"):
        train_recorded([staged(member, 0, None, jumping)])


def test_an_advance_of_falling_metrics_and_of_none() -> None:
    scores = np.array([[0.4, 0.6], [0.5, 0.1], [np.nan, 0.0], [0.6, 0.6]], np.float32)
    rule = Threshold(metric="error", threshold=0.5)
    assert rule.advance_stages(np.array([0, 1, 0, 0]), scores, "minimize").tolist() == [1, 1, 0, 0]
    assert rule.advance_stages(np.array([0, 1, 0, 0]), scores, "maximize").tolist() == [0, 1, 0, 1]


def test_validation_inputs_are_no_test_inputs(member) -> None:
    from trainers.packs.evaluation_inputs import draw_evaluation_inputs, draw_validation_inputs

    pack = Pack([staged(member, 0, evaluation__samples=100)], CPU)
    tests = {test.lengths: test.batch.tokens for test in draw_evaluation_inputs(pack)}
    drawn = list(draw_validation_inputs(pack))
    assert [inputs.lengths for inputs in drawn] == [(2,), (4,)] and drawn[0].batch.tokens.shape[1] == 100
    for inputs in drawn:
        assert not torch.equal(inputs.batch.tokens, tests[inputs.lengths])
    assert next(iter(draw_validation_inputs(pack))).batch is drawn[0].batch, "drawn once"


def test_a_text_is_validated_on_its_validation_text() -> None:
    from trainers.tasks.language.language import Language

    task = Language(train_window=12, test_windows=(24,))
    (inputs,) = task.validation_batches(Stream(torch.tensor([0]), "validation", torch.tensor(0)), 5)
    assert inputs.lengths == (12,) and inputs.distribution == "" and inputs.batch.tokens.shape == (1, 5, 12)
    assert torch.equal(inputs.batch.tokens, task.read_windows("validation", 12 * torch.arange(5)[None]).tokens)


def test_a_task_without_a_curriculum_draws_each_seed_once(member) -> None:
    pack = Pack([replace(quick(member, seed, None), task=Last(), model=Bag()) for seed in (2, 2)], CPU)
    assert len(StepBatches(pack).seeds) == 1 and len(sample_batches(pack, torch.tensor(1), 3)[0].tokens) == 2


def run_until_killed(folder: str) -> None:
    """What the other process does: train slowly, so that it can be killed between two checkpoints."""
    from tests.trainers.conftest import plain_member

    class Slow:
        def report(self, evaluation) -> None: ...
        def notice(self, text) -> None: ...
        def progress(self, progress) -> None:
            time.sleep(0.02)

    module = sys.modules["trainers.training.loop"]
    module._HEARTBEAT_SECONDS = 0.0
    members = [staged(lambda s, **c: MemberConfig.from_dict(plain_member(s, **c)), seed) for seed in SEEDS]
    module.train(members, Slow(), checkpoints=Checkpoints(folder=Path(folder), every_steps=2))


@pytest.mark.slow
def test_a_curriculum_killed_and_resumed_goes_on_as_if_never_stopped(member, five, tmp_path, processes) -> None:
    other = processes.Process(target=run_until_killed, args=(str(tmp_path),))
    other.start()
    stages = {tuple(evaluation.stage_M) for evaluation in five[0]}
    assert len(stages) > 2
    deadline = time.monotonic() + 120
    while not (tmp_path / "step-000000000014.ckpt").exists() and time.monotonic() < deadline:
        assert other.is_alive(), "it ended before it was killed"
        time.sleep(0.005)
    other.kill()
    other.join()
    members = [staged(member, seed) for seed in SEEDS]
    snapshot, _ = Checkpoints(folder=tmp_path).load([(member.config_id, member.seed) for member in members])
    assert 14 <= snapshot.step < 60 and snapshot.arrays["stage"].any()
    evaluations, results = train_recorded(members, checkpoints=Checkpoints(folder=tmp_path, every_steps=1000))
    same(evaluations, five[0])
    assert results == five[1]


def test_states_of_some_members_are_put_together_again(member) -> None:
    pack = Pack([staged(member, seed) for seed in SEEDS], CPU)
    state = TrainingState.make_initial(pack)
    both = state.select([3, 1]).concatenate(state.select([0, 4, 2])).select([2, 1, 4, 0, 3])
    for tensor, expected in zip(both.list_tensors(), state.list_tensors(), strict=True):
        assert torch.equal(tensor, expected)
