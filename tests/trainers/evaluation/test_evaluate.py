"""Evaluation in pieces, several distributions, metrics of the whole history, models that go on token by token."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.side_by_side.cases import EAGER
from tests.trainers.own_tasks import Bag, Corpus, Last, Sets, Spoken, Timed
from tests.trainers.runs import check_resumed
from trainers import Checkpoints, train
from trainers.check import check_class
from trainers.config.member import EvaluationConfig, MemberConfig
from trainers.evaluation import evaluate as evaluation
from trainers.evaluation.evaluate import evaluate
from trainers.evaluation.forward import Forward
from trainers.models.decoder import Decoder
from trainers.packs import evaluation_inputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.tasks.metric_descriptions import EvaluationCurves, RecordedMetric, steps_to
from trainers.tasks.task import Distribution
from trainers.tensors.noise import Noise

CPU = torch.device("cpu")
DECODER = Decoder(layers=1, width=8, heads=2, position="rope")


def pack_of(member, task, model=DECODER, count: int = 2, **changes) -> Pack:
    return Pack([replace(member(seed, **changes), task=task, model=model) for seed in range(count)], CPU)


def curves(pack: Pack, state: TrainingState | None = None) -> dict[str, NDArray[np.float32]]:
    """Values (M, A, L) by metric."""
    names, values = evaluate(pack, state or TrainingState.make_initial(pack))
    return {name: values[:, :, k] for k, name in enumerate(names)}


def in_pieces(monkeypatch: pytest.MonkeyPatch, pack: Pack, rows: int, length: int) -> None:
    """So many rows of this length at once."""
    monkeypatch.setattr(evaluation, "LOGITS_PER_MEMBER", rows * length * pack.task.outputs)


@pytest.mark.parametrize("name", ["set_complement: sampled", "othello: sampled", "padded_addition: measured apart"])
def test_pieces_of_rows_have_the_scores_of_the_whole(monkeypatch, name: str) -> None:
    """Means, quantiles, extremes, log-sum-exps and kinds of rows alike: to float rounding of the logits."""
    pack = Pack([MemberConfig.from_dict(settings) for settings in EAGER[name]], CPU)
    whole = curves(pack)
    in_pieces(monkeypatch, pack, 3, pack.task.positions)
    pieces = curves(pack)
    assert whole.keys() == pieces.keys() == pack.metrics.keys()
    for metric, values in whole.items():
        np.testing.assert_allclose(pieces[metric], values, rtol=2e-5, atol=3e-6, err_msg=metric)


def test_no_more_rows_are_held_than_a_piece_has(member, monkeypatch) -> None:
    """Nor does the number of inputs change what a piece is; the heart beats after every one."""
    seen: list[tuple[int, ...]] = []

    class Watched(Decoder):
        def logits(self, weights, batch, noise, form, record=None):
            seen.append(tuple(batch.tokens.shape))
            return super().logits(weights, batch, noise, form, record)

    watched = Watched(**{item: getattr(DECODER, item) for item in ("layers", "width", "heads", "position")})
    pack = pack_of(member, Last(), watched, evaluation__samples=50)
    in_pieces(monkeypatch, pack, 8, 8)
    beats: list[int] = []
    evaluate(pack, TrainingState.make_initial(pack), beat=lambda: beats.append(len(seen)))
    assert len(beats) == len(seen) and beats == sorted(beats)
    assert max(rows * width for _, rows, width in seen) <= 8 * 8
    assert sum(m * rows for m, rows, width in seen if width == 8) == 2 * 50 * len(pack.average_labels)


def test_pieces_do_not_depend_on_the_pack(member, monkeypatch) -> None:
    single, four = (pack_of(member, Last(), count=count) for count in (1, 4))
    in_pieces(monkeypatch, single, 7, 8)
    state = TrainingState.make_initial(four)
    alone = replace(TrainingState.make_initial(single), theta=state.theta[:1])
    np.testing.assert_array_equal(curves(single, alone)["accuracy"][0, 0], curves(four, state)["accuracy"][0, 0])


def test_inputs_are_drawn_once_where_they_are_small(member, monkeypatch) -> None:
    drawn: list[int] = []

    class Counted(Last):
        def evaluation_batches(self, stream, samples, lengths):
            drawn.append(samples)
            return super().evaluation_batches(stream, samples, lengths)

    pack = pack_of(member, Counted(), evaluation__samples=50)
    state = TrainingState.make_initial(pack)
    whole = curves(pack)
    assert [curves(pack, state)["accuracy"].tolist() for _ in range(2)] == [whole["accuracy"].tolist()] * 2
    assert drawn == [50]
    size = 2 * 50 * (2 + 4 + 6 + 8) * (8 + 8 + 4)  # tokens, targets and weights of two seeds
    for kept, times in ((size, 1), (size - 1, 3)):
        drawn.clear()
        monkeypatch.setattr(evaluation_inputs, "MAX_CACHED_BYTES", kept)
        pack.cached_inputs.clear()
        for _ in range(3):
            np.testing.assert_array_equal(curves(pack, state)["accuracy"], whole["accuracy"])
        assert len(drawn) == times


def test_each_average_has_its_own_weights_and_each_member_its_own_inputs(member, monkeypatch) -> None:
    """Whether or not a piece has members with the one average and with the next."""
    settings = {"training__averages": {"raw": {}, "ema": {"decay": 0.9}}, "evaluation__samples": 20}
    pack = Pack([replace(member(seed, **settings), task=Last(), model=DECODER) for seed in (4, 2, 4)], CPU)
    state = TrainingState.make_initial(pack)
    other = torch.randn(state.theta.shape, generator=torch.Generator().manual_seed(0))
    state = replace(state, averages=((), (other,)))
    for members in (1, 2, 4, 6):
        monkeypatch.setattr(evaluation, "LOGITS_PER_PASS", members * 20 * 8 * pack.task.outputs)
        accuracy = curves(pack, state)["accuracy"]
        for m, config in enumerate(pack.members):
            alone = Pack([config], CPU)
            for a, theta in enumerate((state.theta, other)):
                mine = replace(
                    TrainingState.make_initial(alone), theta=theta[m : m + 1], averages=((), (theta[m : m + 1],))
                )
                np.testing.assert_array_equal(accuracy[m, a], curves(alone, mine)["accuracy"][0, a])


@pytest.mark.parametrize("position", ["tra", "cope", "fox", "rope"])
def test_curves_do_not_depend_on_how_many_scores_a_pass_holds(member, monkeypatch, position: str) -> None:
    model = Decoder(layers=2, width=16, heads=4, position=position)
    config = replace(member(evaluation__samples=30), task=Last(), model=model)
    pack = Pack([config, replace(config, seed=8)], CPU)
    state, passes = TrainingState.make_initial(pack), list[int]()
    whole = evaluate(pack, state, beat=lambda: passes.append(0))[1]
    assert len(passes) == 4  # lengths 2, 4, 6 and 8
    monkeypatch.setattr(evaluation, "SCORES_PER_PASS", 7 * 4 * 8**2)
    passes.clear()
    np.testing.assert_array_equal(evaluate(pack, state, beat=lambda: passes.append(0))[1], whole)
    assert len(passes) == 2 + 4 * (2 + 3 + 5)  # two seeds with two averages, from length 4 on one at a time


def test_random_numbers_of_an_evaluation_are_drawn_by_row(member, monkeypatch) -> None:
    drawn: list[torch.Tensor] = []

    class Shaken(Bag):
        def logits(self, weights, batch, noise, form, record=None):
            assert noise is not None and not noise.training and noise.rate_M is None
            drawn.append(noise.integers(3, (batch.tokens.shape[1],), 1000))
            return super().logits(weights, batch, noise, form, record)

    pack = pack_of(member, Last(), Shaken(), evaluation__lengths=[4], evaluation__samples=20)
    evaluate(pack, TrainingState.make_initial(pack))
    whole = drawn[0]
    drawn.clear()
    in_pieces(monkeypatch, pack, 6, 4)
    evaluate(pack, TrainingState.make_initial(pack))
    assert [len(part[0]) for part in drawn[:4]] == [6, 6, 6, 2]
    assert torch.equal(torch.cat(drawn[:4], dim=1), whole) and len(whole.unique()) > 20


def test_distributions_are_recorded_by_name_at_their_own_lengths(member, recorder) -> None:
    config = replace(member(evaluation__every=25), task=Sets(), model=DECODER)
    assert config.metrics["accuracy"] == RecordedMetric("accuracy", "iid", "maximize", (2, 4), (2, 4))
    assert config.metrics["accuracy.few"] == RecordedMetric("accuracy", "few", "maximize", (2, 4, 8), ())
    assert config.metrics["error.long"] == RecordedMetric("error", "long", "minimize", (8, 16), ())
    train([config], recorder)
    last = recorder.evaluations[-1]
    assert last.metrics == tuple(config.metrics) and last.lengths == (2, 4, 8, 16)
    for k, name in enumerate(last.metrics):
        there = np.isfinite(last.values_MAKL[0, 0, k])
        assert tuple(np.array(last.lengths)[there]) == config.metrics[name].lengths, name
    spread = {name: last.values_MAKL[0, 0, last.metrics.index(name), 1] for name in ("spread", "spread.few")}
    assert spread == {"spread": 6.0, "spread.few": 1.0}, "each batch scored its own metric, on its own inputs"


def test_lengths_that_are_chosen_are_those_of_every_distribution_that_has_them(member) -> None:
    config = EvaluationConfig(lengths=(4, 8))
    chosen = replace(member(), task=Sets(), model=DECODER, evaluation=config).metrics
    assert {name: metric.lengths for name, metric in chosen.items() if metric.base == "accuracy"} == {
        "accuracy": (4,),
        "accuracy.few": (4, 8),
        "accuracy.long": (8,),
    }


def test_steps_to_a_threshold_are_infinite_until_then_and_stay(member, recorder) -> None:
    settings = {"evaluation__every": 10, "evaluation__lengths": [2, 4], "training__learning_rate": 0.05}
    config = replace(member(**settings), task=Timed(), model=Bag())
    train([config, replace(config, seed=1)], recorder)
    accuracy, steps = (
        np.stack([e.values_MAKL[:, :, e.metrics.index(name)] for e in recorder.evaluations])
        for name in ("accuracy", "steps_to_accuracy")
    )
    assert np.isinf(steps).any() and np.isfinite(steps).any()
    at = np.array([e.step for e in recorder.evaluations])
    for index in np.ndindex(accuracy.shape[1:]):
        reached = at[accuracy[(slice(None), *index)] >= 0.5]
        for e, step in enumerate(at):
            expected = reached[0] if len(reached) and reached[0] <= step else np.inf
            assert steps[(e, *index)] == expected


def test_the_history_survives_a_restart(member, tmp_path) -> None:
    settings = {"evaluation__every": 10, "evaluation__lengths": [2], "training__learning_rate": 0.05}
    check_resumed([replace(member(**settings), task=Timed(), model=Bag())], tmp_path, 40, every_steps=35)


def test_an_evaluation_that_an_older_version_recorded_is_part_of_the_history(member) -> None:
    """It may lack a metric: the others count, and what it lacks is not known."""
    seen: list[list[EvaluationCurves]] = []

    class Kept(Timed):
        def derive_metrics(self, history, lengths):
            seen.append(list(history))
            return super().derive_metrics(history, lengths)

    pack = pack_of(member, Kept(), Bag())
    old = EvaluationCurves(5, {"accuracy": np.ones((2, 2, 4), np.float32)})
    names, values = evaluate(pack, TrainingState.make_initial(pack), [old])
    assert (values[:, :, names.index("steps_to_accuracy")] == 5).all()
    assert np.isnan(seen[0][0].curves["steps_to_accuracy"]).all()


def test_steps_to_counts_down_where_less_is_better() -> None:
    history = [
        EvaluationCurves(step, {"loss": np.full((1, 1, 1), value)}) for step, value in ((5, 3.0), (10, 1.0), (15, 2.0))
    ]
    assert steps_to(history, "loss", 1.5, "minimize").item() == 10
    assert steps_to(history[:1], "loss", 1.5, "minimize").item() == np.inf


@pytest.mark.parametrize("model", [DECODER, Decoder(layers=2, width=8, heads=2, position="alibi"), Bag()], ids=str)
def test_a_task_may_ask_the_model_to_go_on(member, model) -> None:
    """Greedy tokens, one at a time, are those that a whole pass over each longer text gives."""
    pack = pack_of(member, Spoken(), model, evaluation__lengths=[6], evaluation__samples=9, training__dtype="float64")
    theta = TrainingState.make_initial(pack).theta * 5
    means = curves(pack, replace(TrainingState.make_initial(pack), theta=theta))["said"][:, 0, 0]
    stream = Stream(pack.seeds_S, "eval", torch.tensor(0))
    (test,) = pack.task.evaluation_batches(stream, 9, (6,))
    forward = Forward(pack.model, pack.layout.split(theta), pack.form, Noise(stream, None, training=False))
    text = test.batch.tokens[..., :2]
    for _ in range(5):
        following = forward(replace(test.batch, tokens=text, targets=text))[:, :, -1:].argmax(dim=-1)
        text = torch.cat([text, following], dim=-1)
    np.testing.assert_allclose(means, text[..., 2:].float().mean(dim=(1, 2)), rtol=1e-6)


def test_a_corpus_is_read_where_it_lies(member, recorder, tmp_path) -> None:
    """Windows of an array on disk: nothing of it is kept in a checkpoint, and seeds see windows of their own."""
    text = torch.randint(0, 7, (100_000,), dtype=torch.int16, generator=torch.Generator().manual_seed(0)).numpy()
    np.save(tmp_path / "text.npy", text)
    task = Corpus(path=str(tmp_path / "text.npy"))
    batch = task.sample(Stream(torch.tensor([0, 1]), "data", torch.tensor(1)), 50)
    assert not torch.equal(batch.tokens[0], batch.tokens[1])
    windows = {tuple(text[i : i + 4].tolist()) for i in range(len(text) - 3)}
    assert {tuple(row) for row in batch.tokens.flatten(0, 1).tolist()} <= windows
    folder = tmp_path / "checkpoints"
    train([replace(member(), task=task, model=Bag())], recorder, checkpoints=Checkpoints(folder=folder, every_steps=20))
    assert sum(file.stat().st_size for file in folder.iterdir()) < text.nbytes / 10


def test_a_distribution_that_is_tested_at_other_lengths_is_reported(registered) -> None:
    class Wrong(Sets):
        """Declares that the long set has other lengths than it tests."""

        distributions = (*Sets.distributions[:2], Distribution("long", (16,)))

        def evaluation_batches(self, stream, samples, lengths):
            return Sets().evaluation_batches(stream, samples, lengths)

    registered("task", "throw_away", Wrong)
    (problem,) = check_class("task", "throw_away")
    assert "[8]" in problem and "'long'" in problem and problem.endswith("allowed: [16]")
