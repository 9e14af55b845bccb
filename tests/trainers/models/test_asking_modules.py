"""What modules of one's own ask of a batch, dropout as a function in them, and padded rows in shipped models."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.trainers.models import own_modules
from tests.trainers.models.own_modules import DroppingFunction
from tests.trainers.own_tasks import Last, mean_loss
from tests.trainers.runs import check_alone, stepped
from trainers.check import check_task
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.evaluation.evaluate import evaluate
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.models.lstm import Lstm
from trainers.models.model import Cache
from trainers.models.vmapped import Vmapped
from trainers.packs.evaluation_inputs import draw_evaluation_inputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.settings import registry
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.training.step import sample_batches, train_next_step

CPU = torch.device("cpu")
PAD = 0


class Padded(Last):
    """The first token again, at the last real token of a row of 2 to `train_length` tokens; pads follow."""

    causal = False
    has_loud_pads = False  # whether pads are random tokens, not PAD

    def batch_of(self, tokens: Tensor, lengths: Tensor | None = None) -> Batch:
        lengths = torch.full_like(tokens[..., 0], tokens.shape[-1]) if lengths is None else lengths
        places = torch.arange(tokens.shape[-1])
        tokens = tokens if self.has_loud_pads else torch.where(places < lengths[..., None], tokens, PAD)
        targets = torch.where(places == lengths[..., None] - 1, tokens[..., :1], -100)
        return Batch(tokens, targets, lengths=lengths)

    def sample(self, stream: Stream, rows: int) -> Batch:
        tokens = stream.integers(0, (rows, self.train_length), 7)
        return self.batch_of(tokens, stream.integers(1, (rows,), self.train_length - 1) + 2)

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        return Task.score_rows(self, logits_MBTV, batch, lengths)


class Loud(Padded):
    has_loud_pads = True


def vmapped(name: str) -> Vmapped:
    model: Vmapped = registry.build("model", {"name": "vmapped", "module": f"{own_modules.__name__}.{name}"})
    return model


def pack_of(member, task: Task, model, seeds=(3, 5), **changes) -> Pack:
    members = [replace(member(seed, training__weight_decay=0.0, **changes), task=task, model=model) for seed in seeds]
    return Pack(members, CPU)


def random_batch(lengths: list[int]) -> Batch:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 7, (2, len(lengths), 6), generator=generator)
    return Batch(tokens, tokens, lengths=torch.tensor(lengths).expand(2, -1))


def test_each_member_trains_as_a_plain_script_with_its_lengths(member) -> None:
    pack = pack_of(member, Padded(), vmapped("Pooled"), training__learning_rate=0.01)
    state = TrainingState.make_initial(pack)
    modules = []
    for seed in (3, 5):
        torch.manual_seed(seed)
        modules.append(own_modules.Pooled(7, 7, 8))
    settings = pack.members[0].training
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01, betas=settings.betas, weight_decay=0.0) for m in modules]
    for step in range(5):
        (batch,) = sample_batches(pack, torch.tensor(step + 1), settings.batch_size)
        train_next_step(pack, state)
        for m, (module, optimizer) in enumerate(zip(modules, optimizers, strict=True)):
            member_batch = batch.for_members(torch.tensor([m]))
            optimizer.zero_grad()
            mean_loss(
                pack.task, module(member_batch.tokens[0], member_batch.lengths[0])[None], member_batch
            ).sum().backward()
            optimizer.step()
    views = pack.layout.split(state.theta)
    for m, module in enumerate(modules):
        for name, value in module.named_parameters():
            torch.testing.assert_close(views[name][m], value.detach(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["Pooled", "Functional"])
def test_a_member_trains_alone_as_in_a_pack(member, name: str) -> None:
    check_alone(lambda seeds: pack_of(member, Padded(), vmapped(name), seeds, training__learning_rate=0.01))


def test_a_module_gets_what_the_batch_has_or_what_it_means(member) -> None:
    pack = pack_of(member, Padded(), vmapped("Grouped"))
    views = pack.layout.split(TrainingState.make_initial(pack).theta)
    batch = random_batch([6, 4, 5])
    ids = torch.arange(6).expand(2, 3, -1)
    plain = replace(batch, lengths=None)
    meant = replace(plain, ids=ids, groups=torch.zeros_like(ids))
    given = replace(plain, ids=ids.flip(-1), groups=ids % 2)
    logits = [pack.model.logits(views, batch, None, pack.form) for batch in (plain, meant, given)]
    assert torch.equal(logits[0], logits[1]) and not torch.equal(logits[0], logits[2])
    torch.manual_seed(5)
    module = own_modules.Grouped(7, 7, 8)
    expected = module(given.tokens[1], given.ids[1], given.groups[1]).detach()
    torch.testing.assert_close(logits[2][1], expected, rtol=1e-5, atol=1e-6)


def test_a_parameter_with_a_default_gets_only_what_the_batch_has(member) -> None:
    pack, plain = (pack_of(member, Last(), vmapped(name)) for name in ("MayAsk", "Net"))
    views, batch = pack.layout.split(TrainingState.make_initial(pack).theta), random_batch([6, 2, 3])
    without = replace(batch, lengths=None)
    assert torch.equal(
        pack.model.logits(views, without, None, pack.form), plain.model.logits(views, without, None, plain.form)
    )
    assert not torch.equal(
        pack.model.logits(views, batch, None, pack.form), plain.model.logits(views, batch, None, plain.form)
    )


def test_a_module_knows_whether_it_is_called_in_a_training_step(member) -> None:
    """One that asks for `training` trains and is evaluated as a plain script, also with a recurrent layer."""
    pack = pack_of(member, Last(), vmapped("Deeper"), training__learning_rate=0.01)
    state, scores = stepped(pack, 3), []
    for m, seed in enumerate((3, 5)):
        torch.manual_seed(seed)
        module = own_modules.Deeper(7, 7, 8)
        training = pack.members[0].training
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01, betas=training.betas, weight_decay=0.0)
        for step in range(3):
            (batch,) = sample_batches(pack, torch.tensor(step + 1), training.batch_size)
            member_batch = batch.for_members(torch.tensor([m]))
            optimizer.zero_grad()
            mean_loss(pack.task, module(member_batch.tokens[0], training=True)[None], member_batch).sum().backward()
            optimizer.step()
        for name, value in module.named_parameters():
            torch.testing.assert_close(pack.layout.split(state.theta)[name][m], value.detach(), rtol=1e-3, atol=1e-5)
        with torch.no_grad():
            tests = [(test, test.batch.for_members(torch.tensor([m]))) for test in draw_evaluation_inputs(pack)]
            logits = [module(batch.tokens[0], training=False)[None] for _, batch in tests]
        scores.append([
            float(pack.task.score_rows(of_batch, batch, test.lengths)["accuracy"].mean())
            for of_batch, (test, batch) in zip(logits, tests, strict=True)
        ])  # fmt: skip
    names, values = evaluate(pack, state)
    torch.testing.assert_close(torch.from_numpy(values[:, 0, names.index("accuracy")]), torch.tensor(scores))
    check_alone(lambda seeds: pack_of(member, Last(), vmapped("Deeper"), seeds))


def test_what_a_module_does_outside_of_training_is_tried() -> None:
    assert vmapped("Deeper").explain_loop(Last()) is None
    assert "forward" in (vmapped("DeeperIfAsked").explain_loop(Last()) or "")
    assert not list(vmapped("DeeperIfAsked").find_task_problems(Last()))
    (problem,) = vmapped("MixesDeeper").find_task_problems(Last())
    assert "evaluation" in problem.message


@pytest.mark.parametrize("name", ["Masked", "MixesAsked", "WithoutRate"])
def test_what_a_module_cannot_ask_or_do_is_refused(member, sections, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict(sections(model={"name": "vmapped", "module": f"{own_modules.__name__}.{name}"}))
    assert [problem.key for problem in caught.value.problems] == ["model.module"]


def test_only_a_module_that_asks_for_groups_gets_a_task_that_has_them() -> None:
    class InGroups(Last):
        has_groups = True

    assert not list(vmapped("Grouped").find_task_problems(InGroups()))
    assert [problem.key for problem in vmapped("Net").find_task_problems(InGroups())] == ["module"]


def test_the_function_drops_as_a_layer_does(member, registered) -> None:
    """With the numbers of the seed, the step and the call, at the rate of each member, and never in evaluation."""
    registered("model", "dropping_function", DroppingFunction)
    model, task = DroppingFunction(dropout=0.3), Last()
    weights = model.make_initial_values(task, torch.tensor([3, 5]))
    batch = replace(random_batch([6, 6, 6]), lengths=None)
    rates, stream = (
        torch.tensor([0.1, 0.6], dtype=torch.float64),
        Stream(torch.tensor([3, 5]), "dropout", torch.tensor(1)),
    )
    noise, form = Noise(stream, None, rates), model.choose_form(task)
    logits = model.logits(weights, batch, noise, form)
    before, after = (noise.dropout_factors(call, (3, 6, 8), torch.float32) for call in (0, 1))
    for m, seed in enumerate((3, 5)):
        torch.manual_seed(seed)
        module = model.build(7, 7, 8)
        x = (before[m] * module.table(batch.tokens[m])).cumsum(dim=-2) / module.counts[:6, None]
        expected = module.head(after[m] * module.inner(x))
        torch.testing.assert_close(logits[m], expected.detach(), rtol=1e-5, atol=1e-6)
    evaluated = model.logits(weights, batch, Noise(stream, None, training=False, total=3), form)
    assert torch.equal(evaluated, model.logits(weights, batch, None, form)) and not torch.equal(evaluated, logits)
    alike = [stepped(pack_of(member, task, DroppingFunction(dropout=rate)), 2).theta for rate in (0.0, 0.4)]
    assert not torch.equal(*alike)


# Padded rows in shipped models ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", ["nope", "rope", "t5", "fox", "abacus", "shaw"])
@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_padding_changes_no_real_token_of_a_transformer(kind, position: str) -> None:
    model = kind(layers=2, width=16, heads=2, position=position, dropout=0.0)
    check_padding(model)


def test_padding_changes_no_real_token_of_an_lstm() -> None:
    check_padding(Lstm(width=8))


def check_padding(model) -> None:
    """Rows of 4, 6 and 2 tokens have the logits that each has alone, whatever follows them."""
    task, counts = Last(), [4, 6, 2]
    layout = [(parameter.name, parameter) for parameter in model.parameters(task)]
    generator = torch.Generator().manual_seed(1)
    weights = {name: torch.randn(2, *parameter.shape, generator=generator) * 0.3 for name, parameter in layout}
    batch = random_batch(counts)
    logits = model.logits(weights, batch, None, "plain")
    for row, count in enumerate(counts):
        alone = batch.tokens[:, row : row + 1, :count]
        expected = model.logits(weights, Batch(alone, alone), None, "plain")
        torch.testing.assert_close(logits[:, row : row + 1, :count], expected, rtol=1e-4, atol=1e-5)


def test_what_is_in_the_padding_changes_no_bit_of_an_encoder(member) -> None:
    model = Encoder(layers=1, width=8, heads=2, position="rope", dropout=0.0)
    weights = [stepped(pack_of(member, task, model), 3).theta for task in (Padded(), Loud())]
    assert torch.equal(*weights)


def test_an_encoder_trains_alone_as_in_a_pack_of_padded_rows(member) -> None:
    model = Encoder(layers=1, width=8, heads=2, position="rope")
    check_alone(lambda seeds: pack_of(member, Padded(), model, seeds))


def test_lengths_are_checked_and_a_padded_batch_is_not_continued() -> None:
    class TooLong(Padded):
        def sample(self, stream: Stream, rows: int) -> Batch:
            batch = super().sample(stream, rows)
            return replace(batch, lengths=batch.lengths + 1)

    class Flat(Padded):
        def sample(self, stream: Stream, rows: int) -> Batch:
            batch = super().sample(stream, rows)
            return replace(batch, lengths=batch.lengths[..., None])

    assert not check_task(Padded())
    assert len(check_task(TooLong())) == 1 and len(check_task(Flat())) == 1
    batch = random_batch([6, 4, 2])
    with pytest.raises(ValueError):
        Cache(batch=batch, width=9).append(batch.tokens[..., :1], None)
