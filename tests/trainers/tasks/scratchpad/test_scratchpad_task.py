"""Training on scratchpads: masked rows and single transitions say the same; lengths follow their law."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from tests.trainers.tasks.scratchpad.toys import SYMBOLS, Shrinking
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.models.decoder import Decoder
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.scratchpad.layout import make_batch, make_masked_rows, make_transition_rows
from trainers.tasks.scratchpad.lengths import split_batch
from trainers.tasks.scratchpad.scratchpad_task import ScratchpadTask
from trainers.tasks.scratchpad.text import Text
from trainers.tensors.batch import Batch
from trainers.training.step import compute_losses

CPU = torch.device("cpu")
DECODER = Decoder(layers=2, width=8, heads=2, position="learned", init_std=0.5)
WORD = [[SYMBOLS.index(letter) for letter in "cabd"]]


def pack_of(member, task: ScratchpadTask, **training) -> Pack:
    config: MemberConfig = member(3, training__dtype="float64", **training)
    return Pack([replace(config, task=task, model=DECODER)], CPU)


@pytest.fixture(params=["question", "fixed", "as in the code"])
def variant(request, member) -> tuple[Pack, Shrinking, Text]:
    """A question that all states see; none, with the first transition mended; and as in the authors' code."""
    task = Shrinking(asks=request.param == "question", fix_first_state=request.param == "fixed", loss_on_question=False)
    return pack_of(member, task), task, task.written(torch.tensor([WORD]), torch.tensor([[4]]))


def logits_of(pack: Pack, batch: Batch) -> Tensor:
    theta = TrainingState.make_initial(pack).theta
    return pack.model.logits(pack.layout.split(theta), batch, None, pack.form)


def whole_row(task: Shrinking, text: Text) -> Batch:
    rows = make_masked_rows(text, task.start_token, task.widths(4).masked, fix_first_state=task.fix_first_state)
    return make_batch(rows, loss_on_question=False, ids=True, groups=True)


def each_transition(task: Shrinking, text: Text) -> Iterator[Batch]:
    for state in range(text.states.shape[2]):
        if int(text.state_length[0, 0, state]):
            rows = make_transition_rows(text, task.start_token, task.widths(4).transition, torch.full((1, 1), state))
            yield make_batch(rows, loss_on_question=False)


def trained(logits: Tensor, batch: Batch) -> Tensor:
    """The logits of the tokens that are trained, one state after the other."""
    assert batch.weight is not None
    return logits[0, 0][batch.weight[0, 0] > 0]


def test_a_masked_row_says_what_its_transitions_say(variant) -> None:
    pack, task, text = variant
    row = whole_row(task, text)
    apart = [trained(logits_of(pack, transition), transition) for transition in each_transition(task, text)]
    together = trained(logits_of(pack, row), row).split([len(logits) for logits in apart])
    distance = [float((joined - alone).abs().max()) for joined, alone in zip(together, apart, strict=True)]
    if task.asks or task.fix_first_state:
        assert max(distance) < 1e-10
    else:  # the second state sees nothing of the first one but its mark
        assert distance[1] > 1e-3 and max(distance[:1] + distance[2:]) < 1e-10


def test_the_gradient_of_a_masked_row_is_that_of_its_transitions(variant) -> None:
    pack, task, text = variant
    if not task.asks and not task.fix_first_state:
        return
    theta = TrainingState.make_initial(pack).theta.requires_grad_()

    def gradient(batches: list[Batch]) -> tuple[Tensor, float]:
        losses = [compute_losses(pack, theta, batch, None, torch.tensor(1)) for batch in batches]
        total = sum(loss.sum() for loss, _ in losses)
        assert isinstance(total, Tensor)
        return torch.autograd.grad(total, theta)[0], float(sum(weight.sum() for _, weight in losses))

    (row, of_row), (split, of_split) = gradient([whole_row(task, text)]), gradient([*each_transition(task, text)])
    assert of_row == of_split > 0
    torch.testing.assert_close(row / of_row, split / of_split, rtol=1e-9, atol=1e-12)


def test_a_changed_token_of_an_older_state_changes_no_later_one(member) -> None:
    task = Shrinking()
    pack = pack_of(member, task)
    text = task.written(torch.tensor([WORD]), torch.tensor([[4]]))
    row = whole_row(task, text)
    before = logits_of(pack, row)
    assert row.groups is not None
    for group in range(1, 5):
        changed = replace(row, tokens=torch.where(row.groups == group, SYMBOLS.index("d"), row.tokens))
        differs = (logits_of(pack, changed) - before).abs().amax(dim=-1)[0, 0] > 1e-9
        assert bool(differs[row.groups[0, 0] == group].any())
        assert not differs[row.groups[0, 0] != group].any()


@dataclass
class Grid:
    """Random words at the first sites that are a grid: every pair of one of the first and one of the second."""

    sizes: tuple[int, int]
    sites: tuple[int, int]

    def bits(self, site: int, shape: tuple[int, ...]) -> Tensor:
        count, other_count = self.sizes
        row = torch.arange(count * other_count)
        if site == self.sites[0]:
            return (((row // other_count) * 2 + 1) * 2**31 // count)[None]
        if site == self.sites[1]:
            return (((row % other_count) * 2 + 1) * 2**31 // other_count)[None]
        letters = torch.arange(math.prod(shape[1:])) % 4  # the same word in each row
        return (letters << 30).expand(1, *shape)


def test_single_transitions_are_on_average_the_masked_rows(member) -> None:
    """Every transition with its probability: the sums of losses and gradients are in the same proportion everywhere."""
    single = Shrinking(longest=3, row_form="transition", loss_on_question=False)
    rows = Shrinking(longest=3, row_form="mask", loss_on_question=False)
    pack = pack_of(member, rows)
    theta = TrainingState.make_initial(pack).theta.requires_grad_()

    def mean(task: Shrinking, law: tuple[tuple[int, int], ...]) -> tuple[Tensor, Tensor]:
        total = sum(weight for _, weight in law)
        (part,) = split_batch(law, total * 6, 1)
        batch = task.training_rows(part, Grid((total, 6), (0, 3)))
        loss, weight = compute_losses(pack, theta, batch, None, torch.tensor(1))
        return torch.autograd.grad(loss.sum(), theta)[0] / batch.tokens.shape[1], weight / batch.tokens.shape[1]

    by_rows, tokens_of_rows = mean(rows, ((1, 1), (2, 2), (3, 3)))
    one_by_one, tokens = mean(single, ((1, 1), (2, 4), (3, 9)))
    assert float(tokens_of_rows / tokens) == pytest.approx(14 / 6)  # transitions of a row, on average
    torch.testing.assert_close(by_rows, one_by_one * 14 / 6, rtol=1e-6, atol=1e-9)


def read(task: Shrinking, batch: Batch) -> list[tuple[str, str]]:
    texts = []
    for row in range(batch.tokens.shape[1]):
        tokens, targets = task.format_row(batch, row)
        texts.append(("".join(tokens), "".join(targets)))
    return texts


def counted(task: Shrinking, rows: int, steps: int = 1) -> Counter[int]:
    """How often each length occurs in training rows."""
    counts: Counter[int] = Counter()
    for step in range(1, steps + 1):
        for batch in task.training_batches(Stream(torch.tensor([5]), "data", torch.tensor(step)), rows):
            counts.update(tokens.index("=") for tokens, _ in read(task, batch))
    return counts


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("form", ["mask", "transition", "split"])
def test_training_lengths_follow_their_law(form: str, slices: int) -> None:
    """The toy trains on length s with weight s, and a row of length s has s transitions."""
    task = Shrinking(longest=3, row_form=form, slices=slices)
    weights = {length: length if form == "mask" else length**2 for length in (1, 2, 3)}
    counts = counted(task, 700, steps=3)
    assert counts.total() == 2100
    for length, weight in weights.items():
        expected = 2100 * weight / sum(weights.values())
        assert abs(counts[length] - expected) < 5 * (3 if form == "split" else 1) * expected**0.5


def test_split_rows_are_all_transitions_of_examples_one_after_the_other() -> None:
    task = Shrinking(longest=4, row_form="split")
    (batch,) = task.training_batches(Stream(torch.tensor([5]), "data", torch.tensor(1)), 60)
    texts = read(task, batch)
    begins = [number for number, (tokens, _) in enumerate(texts) if tokens.split(":")[1].count("#") < 2]
    seen, first = [], None
    for row, (tokens, targets) in enumerate(texts):
        question = tokens.split("=")[0]
        state_text = targets.replace("~", "").replace("=", "").replace(":", "")
        seen.append((question, state_text))
        first = row if first is None and targets.startswith(question[1:] + "=") else first
    assert begins and first is not None
    row = first
    while row < len(texts):
        question = seen[row][0]
        states = [question[lost:] + "#" for lost in range(1, len(question))] + ["."]
        for number, state in enumerate(states[: len(texts) - row]):
            assert seen[row + number][0] == question
            assert seen[row + number][1].endswith(state)
        row += len(states)


def test_each_row_of_a_window_is_any_transition_by_the_law() -> None:
    (part,) = split_batch(((1, 1), (2, 4), (3, 9)), 60_000, 1)
    stream = Stream(torch.tensor([5]), "data", torch.tensor(1))
    length, example, index = part.draw_transitions(stream, 0, lambda length: length)
    counts = Counter(zip(length.gather(-1, example)[0].tolist(), index[0].tolist(), strict=True))
    assert set(counts) == {(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)}
    for (s, _), count in counts.items():  # a transition of a row of length s: s of 14, and each with the same chance
        expected = 60_000 * s / 14
        assert abs(count - expected) < 5 * expected**0.5


def test_slices_are_as_wide_as_their_longest_row_and_hold_all_rows() -> None:
    task = Shrinking(longest=4, slices=3)
    batches = task.sample(Stream(torch.tensor([5, 6]), "data", torch.tensor(1)), 20)
    assert [batch.tokens.shape[1] for batch in batches] == [6, 7, 7]
    widths = [task.widths(length).masked - 1 for length in (1, 2, 3, 4)]
    assert batches[-1].tokens.shape[2] == widths[-1] > batches[0].tokens.shape[2]
    assert task.train_positions == widths[-1] and task.positions == task.widths(6).masked - 1


@pytest.mark.parametrize("model", [{"name": "lstm", "width": 4}, {"name": "attention_only", "width": 4}], ids=str)
@pytest.mark.parametrize("form", ["mask", "split", "transition"])
def test_a_model_that_cannot_tell_states_apart_is_refused_before_anything_starts(sections, model, form: str) -> None:
    """Groups hide the states before the last one, in tests whatever the form of training rows is."""
    task = {"name": "parity", "canvas": 4, "train_bits": 2, "row_form": form}
    with pytest.raises(ConfigError) as refused:
        MemberConfig.from_dict(sections(task=task, model=model))
    (problem,) = refused.value.problems
    assert problem.key == "model.name" and "does not support the token groups" in problem.message
    assert problem.allowed == "a model that supports groups"
    MemberConfig.from_dict(sections(task={**task, "scratchpad": "full"}, model=model))


def test_random_offsets_train_every_position_and_move_states_alone() -> None:
    task = build("task", {"name": "parity", "canvas": 8, "train_bits": 3, "scratchpad": "full", "random_offsets": True})
    assert isinstance(task, ScratchpadTask)
    (batch,) = task.sample(Stream(torch.tensor([1]), "data", torch.tensor(1)), 300)
    assert batch.ids is not None and batch.groups is None
    ids, shared = batch.ids[0], 10
    count = (batch.tokens[0] != 0).sum(dim=-1)
    assert (ids[:, :shared] == torch.arange(shared)).all()
    shift = ids[:, shared] - shared
    assert set(shift.tolist()) == {8 * k for k in range(8)} and int(ids.max()) == task.positions - 1
    for row in range(300):
        mine = ids[row, shared : int(count[row])]
        assert (mine[:-1] - shared - shift[row] == torch.arange(len(mine) - 1)).all()


@pytest.mark.parametrize("asks", [True, False])
def test_losses_of_states_and_of_the_question_are_apart(member, asks: bool) -> None:
    """Both by hand, and together, with their numbers of tokens, the training loss of the same rows."""
    task = Shrinking(asks=asks)
    pack = pack_of(member, task)
    (test,) = task.evaluation_batches(Stream(torch.tensor([1]), "eval", torch.tensor(0)), 6, (4,))
    batch = test.batch
    logits = logits_of(pack, batch)
    rows = task.score_rows(logits, batch, (4,))
    metrics = task.reduce(rows, batch, (4,))
    logs = torch.log_softmax(logits, dim=-1)
    states, questions = [], []
    for row in range(6):
        for position in range(batch.tokens.shape[-1]):
            if batch.weight[0, row, position] > 0:
                of = states if batch.state[0, row, position] >= 0 else questions
                of.append(float(-logs[0, row, position, batch.targets[0, row, position]]))
    assert len(states) > 6 * 4 and len(questions) == 6 * (5 if asks else 0)
    assert float(metrics["state_loss"]) == pytest.approx(sum(states) / len(states))
    if asks:
        assert float(metrics["question_loss"]) == pytest.approx(sum(questions) / len(questions))
    else:
        assert metrics["question_loss"].isnan().all(), "the one token of the question is given"
    total, weight = task.loss(logits, batch)
    assert float(total) == pytest.approx(sum(states) + sum(questions)) and float(weight) == len(states + questions)
    pieces = [
        task.score_rows(logits[:, some], batch.slice_rows(some.start, some.stop), (4,))
        for some in (slice(0, 2), slice(2, 6))
    ]
    joined = task.reduce({name: torch.cat([piece[name] for piece in pieces], dim=1) for name in rows}, batch, (4,))
    assert float(joined["state_loss"]) == pytest.approx(float(metrics["state_loss"]))
    unasked = Shrinking(asks=asks, loss_on_question=False)
    assert "question_loss" not in unasked.metrics and "question_loss" in task.metrics
    (other,) = unasked.evaluation_batches(Stream(torch.tensor([1]), "eval", torch.tensor(0)), 6, (4,))
    alone = unasked.reduce(unasked.score_rows(logits, other.batch, (4,)), other.batch, (4,))
    assert "question_loss" not in alone and torch.equal(alone["state_loss"], metrics["state_loss"])
