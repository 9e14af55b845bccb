"""Mistakes of own tasks and models that would give wrong numbers: each is refused in words, or no mistake at all."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainers.own_tasks import TOKENS, Bag, Last, Ragged, Sets
from trainers.check import check_task
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.evaluation.evaluate import choose_piece_sizes, evaluate
from trainers.models.attention_only import AttentionOnly
from trainers.models.decoder import Decoder
from trainers.models.model import Model
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.batch import Batch
from trainers.training.cost import estimate_member_cost
from trainers.training.step import train_next_step

CPU = torch.device("cpu")
DECODER = Decoder(layers=1, width=8, heads=2, position="rope")


@pytest.fixture
def pack(member):
    def made(task: Task, model: Model = DECODER, count: int = 2) -> Pack:
        return Pack([replace(member(seed), task=task, model=model) for seed in range(count)], CPU)

    return made


class DrawsTwice(Last):
    """Draws its tokens and their noise at the same site."""

    def sample(self, stream: Stream, rows: int) -> Batch:
        tokens, noise = (stream.integers(0, (rows, self.train_length), TOKENS) for _ in range(2))
        return self.batch_of((tokens + noise) % TOKENS)


def test_two_draws_at_one_site_are_named() -> None:
    (problem,) = [problem for problem in check_task(DrawsTwice()) if "site" in problem]
    assert "2 draws at site 0" in problem
    assert not [problem for problem in check_task(Last()) if "site" in problem]


class Rowless(Last):
    """Has no row of its longest length."""

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        for length in lengths:
            rows = samples if length < max(lengths) else 0
            yield EvaluationBatch(self.batch_of(stream.integers(length, (rows, length), TOKENS)), (length,))


def test_evaluation_batches_without_rows_are_named() -> None:
    assert check_task(Rowless()) == ["test batches have no rows or no tokens"]


def test_losses_without_their_weight_are_no_pair_of_members(pack) -> None:
    """Two members' mean losses unpack like a sum and a weight: each member would train on their ratio."""

    class Mean(Last):
        def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
            total, weight = super().loss(logits_MBTV, batch)
            return total / weight  # type: ignore[return-value]

    class Summed(Last):
        def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
            total, weight = super().loss(logits_MBTV, batch)
            return total.sum(), weight

    for task in (Mean(), Summed()):
        for count in (1, 2, 3):
            mine = pack(task, count=count)
            with pytest.raises(ValueError, match=r"loss must return a tuple of a sum and its weight, each of shape"):
                train_next_step(mine, TrainingState.make_initial(mine))


class Elsewhere(Sets):
    """Measures every length of every set."""

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        for test in super().evaluation_batches(stream, samples, (4,)):
            yield replace(test, lengths=(16,))


class Unknown(Last):
    """Names a set that it does not have."""

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        return (replace(test, distribution="ood") for test in super().evaluation_batches(stream, samples, lengths))


class Undeclared(Last):
    """Gives a metric by another name."""

    metrics: ClassVar[Mapping[str, str]] = {"right": "maximize"}


class Twice(Last):
    """Half of the rows of a length at a time."""

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        for part in range(2):
            for length in lengths:
                tokens = stream.integers(100 * part + length, (samples // 2, length), TOKENS)
                yield EvaluationBatch(self.batch_of(tokens), (length,))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Elsewhere(), r"measures the lengths \[16\] of its distribution 'iid'; allowed: \[2, 4\]"),
        (Unknown(), r"has no distribution 'ood'; allowed: \[''\]"),
        (Undeclared(), "undeclared metric accuracy; allowed: right"),
        (Twice(), r"accuracy at lengths \[2\]"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Task) else "",
)
def test_what_evaluation_cannot_file_is_refused(pack, task: Task, message: str) -> None:
    mine = pack(task)
    with pytest.raises(ValueError, match=message):
        evaluate(mine, TrainingState.make_initial(mine))


class Percent(Last):
    """The accuracy as a number from 0 to 100, except -100 at length 8."""

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        percent = torch.full_like(super().reduce(rows, batch, lengths)["accuracy"], 100.0)
        return {"accuracy": -percent if lengths == (8,) else percent}


class Bounded(Percent):
    """Says that its accuracy is from 0 to 100."""

    metric_bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"accuracy": (0.0, 100.0)}


class Unbounded(Percent):
    """Says nothing of its accuracy."""

    metric_bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Percent(), "accuracy is 100 at length 2; allowed: 0 to 1"),
        (Bounded(), "accuracy is -100 at length 8; allowed: 0 to 100"),
        (Unbounded(), None),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Task) else "",
)
def test_a_task_with_a_value_out_of_its_bounds_is_refused(task: Task, message: str | None) -> None:
    assert [str(message) in problem for problem in check_task(task)] == ([] if message is None else [True])


def test_whether_a_row_is_right_may_be_a_truth_value(pack) -> None:
    class Truths(Last):
        def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
            return {name: value > 0 for name, value in super().score_rows(logits_MBTV, batch, lengths).items()}

    curves = [evaluate(mine, TrainingState.make_initial(mine))[1] for mine in (pack(Last()), pack(Truths()))]
    np.testing.assert_array_equal(*curves)


def test_several_batches_may_be_a_list_and_some_without_rows(member, pack) -> None:
    """What a configuration costs is counted on one row, of which two widths have too few."""

    class Listed(Ragged):
        def sample(self, stream: Stream, rows: int) -> list[Batch]:  # type: ignore[override]
            return list(super().sample(stream, rows))  # type: ignore[arg-type]

    losses = []
    for task in (Ragged(two=True), Listed(two=True)):
        mine = pack(task)
        state = TrainingState.make_initial(mine)
        train_next_step(mine, state)
        losses.append(state.loss_sum)
    assert torch.equal(*losses)
    assert estimate_member_cost(replace(member(), task=Ragged(two=True), model=DECODER)).bytes_per_member > 0


def test_initial_values_are_those_of_parameters(pack) -> None:
    class Started(Bag):
        def make_initial_values(self, task: Task, seeds_S: Tensor) -> Mapping[str, Tensor]:
            return {self.given_name: torch.ones(len(seeds_S), TOKENS, self.columns)}

        given_name: ClassVar[str] = "vectors"
        columns: ClassVar[int] = TOKENS

    class Misnamed(Started):
        given_name = "vektors"

    class Misshaped(Started):
        columns = TOKENS + 1

    assert TrainingState.make_initial(pack(Last(), Started())).theta[:, : TOKENS**2].eq(1).all()
    for model, message in ((Misnamed(), "unknown parameter vektors"), (Misshaped(), r"allowed: \(2, 7, 7\)")):
        with pytest.raises(ValueError, match=message):
            TrainingState.make_initial(pack(Last(), model))


def test_a_metric_is_measured_by_the_task_or_by_the_model(sections, registered) -> None:
    """Else the model's values would stand in the place of the task's."""

    class Claims(AttentionOnly):
        metrics: ClassVar[Mapping[str, str]] = {"kl": "none"}

    registered("model", "claims", Claims)
    with pytest.raises(ConfigError, match="both claims and the task set_complement have metrics named kl"):
        MemberConfig.from_dict(sections(model__name="claims"))


def test_a_model_without_groups_refuses_a_batch_with_some(pack) -> None:
    class Grouped(Last):
        def batch_of(self, tokens: Tensor) -> Batch:
            return replace(super().batch_of(tokens), groups=torch.ones_like(tokens))

    mine = pack(Grouped(), AttentionOnly(width=8))
    with pytest.raises(ValueError, match="groups"):
        train_next_step(mine, TrainingState.make_initial(mine))
    problems = [problem for problem in check_task(Grouped()) if "groups" in problem]
    assert problems == [f"{rows} rows have groups, but `has_groups` is false" for rows in ("training", "test")]
    assert not [problem for problem in check_task(Last()) if "groups" in problem]


def test_the_first_distribution_has_two_names_and_one_place(pack) -> None:
    """A batch without a name and one of the first name measure the same: the second would replace the first."""

    class Both(Sets):
        def evaluation_batches(self, stream, samples, lengths):
            for test in super().evaluation_batches(stream, samples, lengths):
                yield test
                if test.distribution == "iid" and type(test.batch) is Batch:
                    yield replace(test, distribution="")

    mine = pack(Both())
    with pytest.raises(ValueError, match=r"two batches have accuracy"):
        evaluate(mine, TrainingState.make_initial(mine))


def test_a_metric_has_one_of_three_directions(sections, registered) -> None:
    class Up(AttentionOnly):
        metrics: ClassVar[Mapping[str, str]] = {"height": "up"}

    registered("model", "up", Up)
    message = r"model.name: the better direction of the metric height is 'up'; allowed: minimize"
    with pytest.raises(ConfigError, match=message):
        MemberConfig.from_dict(sections(model__name="up"))


def test_what_a_model_draws_in_tests_is_not_what_the_inputs_are_made_of(pack) -> None:
    """At whatever site: a task numbers its sites as it likes, and so does a model."""
    drawn: list[Tensor] = []

    class Drawing(Bag):
        def logits(self, weights, batch, noise, form, record=None):
            drawn.append(noise.integers(4, tuple(batch.tokens.shape[1:]), TOKENS))
            return super().logits(weights, batch, noise, form, record)

    mine = pack(Last(), Drawing())
    evaluate(mine, TrainingState.make_initial(mine))
    stream = Stream(mine.seeds_S, "eval", torch.tensor(0))
    inputs = [test.batch.tokens for test in mine.task.evaluation_batches(stream, 64, (4,))]
    # The draw of the first average.
    model_draw = next(draw[: len(mine)] for draw in drawn if draw.shape[1:] == inputs[0].shape[1:])
    assert not torch.equal(model_draw, inputs[0])


def test_pieces_of_long_rows_are_as_small_as_their_attention(pack, monkeypatch) -> None:
    """Narrow models on long rows: few operations, few logits, and scores of every pair of positions."""
    mine = pack(Last(), Decoder(layers=1, width=8, heads=8, position="alibi"))
    for length, cached, most in ((16, 512, 2**19), (256, 2, 2048), (1024, 1, 128), (2**14, 1, 1)):
        batch = Batch(tokens := torch.zeros(1, 1, length, dtype=torch.int64), tokens)
        assert choose_piece_sizes(mine, batch)[0] == cached
        with monkeypatch.context() as without:
            without.setattr(Model, "scores_per_pair", 0)
            assert choose_piece_sizes(mine, batch)[0] == most


def test_attention_scores_of_all_members_together_fit_a_gpu(pack) -> None:
    """At most 1 GiB of them in float32; encodings hold several tensors as large."""
    several = pack(Last(), Decoder(layers=1, width=8, heads=8, position="alibi"), count=8)
    several.device = torch.device("cuda")  # which nothing is asked of here
    for length, rows, members in ((16, 512, 256), (256, 512, 1), (1024, 32, 1), (2**14, 1, 1)):
        batch = Batch(tokens := torch.zeros(1, 512, length, dtype=torch.int64), tokens)
        most, together = choose_piece_sizes(several, batch)
        assert (min(most, 512), together) == (rows, members)


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("too bad")])
def test_an_exception_of_own_code_is_a_problem_with_its_line(error: BaseException) -> None:
    class Leaves(Last):
        def sample(self, stream: Stream, rows: int) -> Batch:
            raise error

    (problem,) = check_task(Leaves())
    line = Leaves.sample.__code__.co_firstlineno + 1
    assert problem.endswith(f"{error} ({__file__}:{line}, sample)") and type(error).__name__ in problem


def test_a_batch_of_another_type_is_one_problem_with_its_line() -> None:
    class Tuples(Last):
        def sample(self, stream: Stream, rows: int) -> Batch:
            return {"tokens": super().sample(stream, rows).tokens}  # type: ignore[return-value]

    (problem,) = check_task(Tuples())
    assert "dict" in problem and "Batch" in problem
    assert problem.endswith(f" ({__file__}:{Tuples.sample.__code__.co_firstlineno}, sample)")
