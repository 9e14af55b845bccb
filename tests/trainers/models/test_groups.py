"""Groups of tokens that do not see each other, chunks of queries, and members with every hook in a pack."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.trainers.own_tasks import Last
from tests.trainers.positions.own_positions import Everything
from tests.trainers.positions.passes import drawn, noise, pass_of, tokens_of
from tests.trainers.runs import check_alone
from tests.trainers.training.test_waits import check_one_program
from trainers.models import attention as attention_module
from trainers.models.attention import Drop, apply_attention
from trainers.models.block import make_block_drops
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.positions.alibi import Alibi
from trainers.positions.context import Context, Scores
from trainers.positions.position import Position
from trainers.positions.randomized import Randomized
from trainers.positions.shaw import Shaw
from trainers.positions.tra import ThresholdRelative
from trainers.random import Stream
from trainers.settings import registry
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tensors.batch import Batch
from trainers.training.step import compute_gradients, sample_batches

CPU = torch.device("cpu")
TASK = PaddedMultiplication(multiplier_digits=1, number_digits=12, train_digits=2)
M, B = 2, 3
QUESTION, STATE, STATES = 3, 2, 4  # tokens of a question, tokens of a state, states after the first
LOCAL = {name: name for name in registry.list_names("position") if name not in ("significance", "randomized")}
LOCAL |= {"shaw, values": Shaw(clip=2, values=True), "tra, all keys": ThresholdRelative(threshold=False)}
SEPARATOR = 10  # ends a question: no digit


def written() -> tuple[Tensor, Tensor]:
    """Tokens of questions (M, B, QUESTION) and of their states (M, B, STATES + 1, STATE)."""
    question = tokens_of((M, B, QUESTION), 10)
    question[..., -1] = SEPARATOR
    return question, tokens_of((M, B, STATES + 1, STATE), 10, seed=1)


def masked(question: Tensor, states: Tensor) -> Batch:
    """One row: the question, then for each state a group of the state before it and the state; ids restart."""
    parts, groups, ids = [question], [0] * QUESTION, list(range(QUESTION))
    for group in range(1, STATES + 1):
        parts += [states[:, :, group - 1], states[:, :, group]]
        groups += [group] * 2 * STATE
        ids += range(QUESTION, QUESTION + 2 * STATE)
    tokens = torch.cat(parts, dim=-1)
    return Batch(tokens, tokens, *(torch.tensor(each).expand(tokens.shape) for each in (ids, groups)))


@pytest.mark.parametrize("at_once", [128, 5, 1])
@pytest.mark.parametrize("position", LOCAL.values(), ids=LOCAL)
def test_a_masked_row_has_the_logits_of_rows_of_their_own(monkeypatch, position, at_once: int) -> None:
    monkeypatch.setattr(attention_module, "MAX_QUERIES", at_once)
    model = Decoder(layers=2, width=8, heads=2, position=position)
    weights, (question, states) = drawn(model, TASK), written()
    whole = model.logits(weights, masked(question, states), None, "plain")
    for group in range(1, STATES + 1):
        row = torch.cat([question, states[:, :, group - 1], states[:, :, group]], dim=-1)
        alone = model.logits(weights, Batch(row, row), None, "plain")
        first = QUESTION + (group - 1) * 2 * STATE
        torch.testing.assert_close(whole[:, :, first : first + 2 * STATE], alone[:, :, QUESTION:])
        torch.testing.assert_close(whole[:, :, :QUESTION], alone[:, :, :QUESTION])


@pytest.mark.parametrize("causal", [False, True])
def test_a_query_sees_its_group_and_group_0_and_from_group_0_everything(causal: bool) -> None:
    groups = [0, 1, 2, 1, 0, 2]
    model = (Decoder if causal else Encoder)(layers=1, width=8, heads=2, position="rope")
    weights, tokens = drawn(model, TASK), tokens_of((M, B, 6), 10)
    given = torch.tensor(groups).expand_as(tokens)
    before = model.logits(weights, Batch(tokens, tokens, groups=given), None, "plain")
    for j in range(6):
        other = tokens.clone()
        other[..., j] = (other[..., j] + 1) % 10
        moved = (model.logits(weights, Batch(other, other, groups=given), None, "plain") != before).any(dim=-1)
        for i in range(6):
            sees = (i >= j or not causal) and (groups[i] == groups[j] or 0 in (groups[i], groups[j]))
            assert moved[..., i].all() == moved[..., i].any() == sees, (i, j)


def watched(shapes: list[tuple[int, int]]) -> Drop:
    """Drops nothing and notes the number of each chunk and of its queries."""

    def drop(x: Tensor, chunk: int) -> Tensor:
        shapes.append((chunk, x.shape[3]))
        return x

    return drop


@pytest.mark.parametrize("kind", [Decoder, Encoder])
@pytest.mark.parametrize("position", [Alibi(), Everything()], ids=["alibi", "everything"])
def test_chunks_of_queries_are_the_whole_and_tell_their_number(monkeypatch, kind, position) -> None:
    model = kind(layers=1, width=8, heads=2, position=position)
    weights, tokens = drawn(model, TASK), tokens_of((M, B, 7), TASK.inputs)
    groups = torch.tensor([0, 0, 1, 1, 2, 2, 1]).expand_as(tokens)
    x = torch.randn(M, B, 7, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    outputs = []
    for at_once in (128, 3):
        monkeypatch.setattr(attention_module, "MAX_QUERIES", at_once)
        recorded, shapes = {}, []
        seen = pass_of(tokens, weights, model.causal, groups=groups, recorder=recorded.__setitem__)
        out = apply_attention(x, seen, name="block0", layer=0, heads=2, position=position, drop=watched(shapes))
        outputs.append({"out": out, **recorded})
    assert shapes == [(0, 3), (1, 3), (2, 1)]
    assert outputs[0].keys() == outputs[1].keys() == {"out", *position.metrics}
    for name, value in outputs[0].items():
        torch.testing.assert_close(outputs[1][name], value)


def test_chunks_have_masks_of_their_own() -> None:
    of_weights = make_block_drops(noise(0, rate=0.5), ("attention",), 1)[0]
    ones = torch.ones(1, 4, 2, 3, 8)
    first, second = of_weights(ones, 0), of_weights(ones, 1)
    assert torch.equal(first, noise(0, rate=0.5)(ones, 4)) and not torch.equal(first, second)


class Grouped(Last):
    """Rows of two groups after a token that all see, with ids that restart."""

    def batch_of(self, tokens: Tensor) -> Batch:
        at = torch.arange(tokens.shape[-1], device=tokens.device)
        half = (tokens.shape[-1] + 1) // 2
        groups = torch.where(at == 0, 0, 1 + (at >= half))
        ids = torch.where(at >= half, at - half + 1, at)
        return replace(super().batch_of(tokens), ids=ids.expand_as(tokens), groups=groups.expand_as(tokens))


HOOKED = Decoder(
    layers=2, width=8, heads=2, dropout=0.2, position=Randomized(longest=16, base=Everything(), draw="row")
)


def pack_of(member, seeds: tuple[int, ...], model=HOOKED, **changes) -> Pack:
    members = [member(seed, training__learning_rate=1e-3 * (1 + seed), **changes) for seed in seeds]
    return Pack([replace(member, task=Grouped(train_length=6), model=model) for member in members], CPU)


def test_a_member_with_every_hook_trains_alone_as_in_a_pack(member, monkeypatch) -> None:
    monkeypatch.setattr(attention_module, "MAX_QUERIES", 4)
    check_alone(lambda seeds: pack_of(member, seeds), ((7,), (2, 7, 2, 5), (7, 1, 3)), steps=6)


def test_slices_of_a_batch_have_the_positions_and_gradient_of_the_whole(member) -> None:
    settings = {"training__dtype": "float64", "training__batch_size": 10}
    model = replace(HOOKED, dropout_sites=("attention", "residual"))
    whole, parts = (pack_of(member, (0, 1), model, **settings, training__accumulation=n) for n in (1, 3))
    step, theta = torch.tensor(2), TrainingState.make_initial(whole).theta
    batch = (whole.task.sample(Stream(whole.seeds_S, "data", step), 10),)
    torch.testing.assert_close(
        compute_gradients(whole, theta, batch, step),
        compute_gradients(parts, theta, batch, step),
        rtol=1e-11,
        atol=1e-13,
    )


@pytest.mark.slow
def test_a_step_with_every_hook_is_one_program(member, monkeypatch) -> None:
    """Nothing in a hook, in groups or in chunks leaves it; chunks and groups are compiled in test_gpt2.py."""
    monkeypatch.setattr(attention_module, "MAX_QUERIES", 4)
    check_one_program(pack_of(member, (0, 3), replace(HOOKED, layers=1)))


class Counted(Position):
    """Scores by how many tokens of a kind there are, later ones too."""

    @property
    def looks_ahead(self) -> bool:
        return True

    def score(self, context: Context) -> Scores:
        count = (context.tokens < 5).sum(dim=-1)[..., None, None, None]
        return Scores(bias=(count * context.differences()).to(context.q.dtype) / 10)


@pytest.mark.parametrize("causal", [False, True])
def test_chunks_of_an_encoding_that_looks_ahead_have_all_tokens(monkeypatch, causal: bool) -> None:
    model = (Decoder if causal else Encoder)(layers=1, width=8, heads=2, position=Counted(), dropout=0.0)
    weights, tokens = drawn(model, TASK), tokens_of((M, B, 9), 10)
    batch = Batch(tokens, tokens, groups=torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2]).expand_as(tokens))
    whole = model.logits(weights, batch, None, "plain")
    monkeypatch.setattr(attention_module, "MAX_QUERIES", 2)
    torch.testing.assert_close(model.logits(weights, batch, None, "plain"), whole)


class Anywhere(Position):
    """Scores by position alone, the same for all rows."""

    def score(self, context: Context) -> Scores:
        return Scores(logits=-context.differences().to(context.q.dtype))


def test_scores_that_are_the_same_for_all_rows_are_dropped_row_by_row(member) -> None:
    """Also where the rows come in slices: the masks are those of the whole batch."""
    model = Decoder(layers=1, width=8, heads=2, position=Anywhere(), dropout=0.5, dropout_sites=("attention",))
    plain = member(training__batch_size=6, training__dtype="float64")
    gradients = []
    for count in (1, 3):
        training = replace(plain.training, accumulation=count)
        pack = Pack([replace(plain, task=Last(), model=model, training=training)], CPU)
        step, theta = torch.tensor(1), TrainingState.make_initial(pack).theta
        gradients.append(compute_gradients(pack, theta, sample_batches(pack, step, 6), step)[0])
    torch.testing.assert_close(*gradients)
    seen: list[Tensor] = []

    def drop(x: Tensor, chunk: int) -> Tensor:
        seen.append(x)
        return x

    weights, x = drawn(model, TASK), torch.randn(M, B, 5, 8, dtype=torch.float64)
    tokens = torch.zeros(M, B, 5, dtype=torch.int64)
    given = pass_of(tokens, weights, True)
    apply_attention(x, given, name="block0", layer=0, heads=2, position=Anywhere(), drop=drop)
    assert seen[0].shape == (M, B, 2, 5, 5)
