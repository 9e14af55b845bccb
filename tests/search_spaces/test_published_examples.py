"""The examples of published tasks: their answers equal plain Python's, and each sweep runs with its modules."""

import itertools
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from orchestrator import open_sweep
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from search_spaces import load_sweep
from tests.search_spaces.conftest import PUBLISHED
from tests.trainers.runs import stepped
from tests.trainers.training.test_waits import waits
from trainers.check import check_class
from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import evaluate
from trainers.packs.evaluation_inputs import draw_evaluation_inputs
from trainers.packs.pack import Pack
from trainers.positions.abacus import Abacus
from trainers.positions.alibi import Alibi
from trainers.random import Stream
from trainers.tasks.supervised import IGNORED
from trainers.tensors.batch import Batch

MEASURED = {
    "reversed_addition": {"accuracy", "exact_match"},
    "coupled_addition": {"accuracy", "exact_match"},
    "self_consistency": {"exact_match", "pass_at_1", "pass_at_4", "majority"},
}
SWEEPS = sorted(PUBLISHED.glob("*.yaml"))


def training_rows(task) -> Batch:
    return task.sample(Stream(torch.tensor([5, 6]), "data", torch.tensor(3)), 40)


def rows_of(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """Return tokens and targets of every row."""
    tokens, targets = batch.tokens.flatten(0, 1), batch.targets.flatten(0, 1)
    return list(zip(tokens.tolist(), targets.tolist(), strict=True))


def even_pairs(bits: list[int]) -> list[int]:
    return [sum(a != b for a, b in itertools.pairwise(bits)) % 2]


def modular_arithmetic(symbols: list[int]) -> list[int]:
    return [eval("".join("01234+-*"[symbol] for symbol in symbols)) % 5]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("EvenPairs", even_pairs),
        ("ParityCheck", lambda bits: [bits.count(1) % 2]),
        ("ModularArithmetic", modular_arithmetic),
        ("ReverseString", lambda bits: bits[::-1]),
    ],
)
def test_answers_of_formal_languages(load, name: str, expected) -> None:
    task = getattr(load("formal_languages"), name)(train_length=9, test_lengths=(11,))
    empty, pad = task.symbols, task.symbols + 1
    lengths = set()
    for tokens, targets in rows_of(training_rows(task)):
        string = [token for token in tokens if token < task.symbols]
        answer = expected(string)
        lengths.add(len(string))
        rest = len(tokens) - len(string) - len(answer)
        assert tokens == string + [empty] * len(answer) + [pad] * rest
        assert targets == [IGNORED] * len(string) + answer + [IGNORED] * rest
    assert lengths == set(task.trained_lengths)


@pytest.mark.parametrize("form", ["plain", "hints", "coupled"])
def test_sums_and_the_places_of_digits(load, form: str) -> None:
    module = load("reversed_addition")
    task = module.ReversedAddition(train_digits=4, test_digits=(6,), form=form)
    batch = training_rows(task)
    ids = batch.ids.flatten(0, 1).tolist() if form == "coupled" else [None] * 80
    starts = set()
    for (tokens, targets), places in zip(rows_of(batch), ids, strict=True):
        equals = tokens.index(module.EQUALS)
        first, second = tokens[:equals][: tokens.index(module.PLUS)], tokens[tokens.index(module.PLUS) + 1 : equals]
        answer = [target for target in targets if target != IGNORED]
        assert tokens[equals + 1 :][: len(answer) - 1] == answer[:-1] and answer[-1] == module.END
        assert targets[equals : equals + len(answer)] == answer and set(targets[:equals]) <= {IGNORED}

        def number(part: list[int]) -> int:
            return sum(digit * 10**exponent for exponent, digit in enumerate(digit for digit in part if digit < 10))

        assert number(first) + number(second) == number(answer)
        if form == "hints":
            hints = [[token for token in part if token >= module.HINT] for part in (first, second, answer)]
            assert hints[0] == hints[1] == hints[2][:-1] and hints[0] == list(range(hints[0][0], hints[2][-1]))
            starts.add(hints[0][0])
        if places is not None:
            digits = [p for p, token in zip(places, tokens, strict=True) if token < 10]
            n = len(first)
            assert digits[:n] == digits[n : 2 * n] == digits[2 * n :][:n] and max(places) < task.position_ids
            starts.add(digits[0])
    assert form == "plain" or len(starts) > 3


def test_abacus_with_alibi_has_the_vectors_of_one_and_the_scores_of_the_other(load) -> None:
    position = load("reversed_addition").AbacusAlibi
    assert check_class("position", "abacus_alibi") == []
    assert position.embed is Abacus.embed and position.score is Alibi.score


def test_depth_of_the_looped_model_is_the_number_of_symbols(load) -> None:
    torch.manual_seed(0)
    net = load("looped").Net(inputs=4, outputs=4, width=8, heads=2)
    string = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 1, 1, 0, 2]])
    together = net(string, training=True)
    given = net.embed(string[:1])
    x = torch.zeros_like(given)
    for _ in range(3):
        x = net.block(x + given)
    torch.testing.assert_close(together[:1], net.head(net.normalize(x)))
    torch.testing.assert_close(together[1:], net(string[1:], training=False))


def stopped_alone(net, tokens: Tensor) -> tuple[Tensor, int]:
    """Return the logits of a row and its number of loops in evaluation, by a loop that ends where the row stops."""
    given, (answer,) = net.embed(tokens[None]), (tokens == net.symbols).nonzero()[0].tolist()
    x, logits, chances = torch.zeros_like(given), [], [torch.zeros(4)]
    for _ in range(int((tokens < net.symbols).sum()) if net.stop == "symbols" else net.most_loops):
        x = net.block(x + given)
        logits.append(net.head(net.normalize(x))[0])
        chances.append(logits[-1][answer].softmax(-1))
        if net.stop == "settled" and (chances[-1] - chances[-2]).abs().sum() <= 0.01:
            break
    if net.stop == "confident":
        certain = [float(of_loop.max()) for of_loop in chances[1:]]
        logits = logits[: certain.index(max(certain)) + 1]
    return logits[-1], len(logits)


@pytest.mark.parametrize("stop", ["symbols", "confident", "settled"])
def test_every_member_stops_its_rows_as_a_plain_script_does(load, stop: str) -> None:
    looped, task = load("looped"), load("formal_languages").ParityCheck(train_length=4, test_lengths=(7,))
    model = {"name": "looped", "width": 8, "heads": 2, "stop": stop, "most_loops": 20}
    training = {"steps": 14, "batch_size": 8, "learning_rate": 0.01}
    sections = {"task": {"name": "parity_check", "train_length": 4, "test_lengths": [7]}, "model": model}
    evaluation = {"samples": 9, "lengths": [2, 4, 7]}
    members = [
        MemberConfig.from_dict({**sections, "training": training, "evaluation": evaluation, "seed": seed})
        for seed in (3, 5)
    ]
    pack = Pack(members, torch.device("cpu"))
    assert pack.form.startswith("vmapped")
    state, evaluations = stepped(pack, 14), []
    waited = waits(lambda: evaluations.append(evaluate(pack, state)))
    names, values = evaluations[-1]
    counts = set[int]()
    for m in range(2):
        net = looped.Net(task.inputs, task.outputs, 8, 2, stop, 20).requires_grad_(False)
        net.load_state_dict({name: value[m] for name, value in pack.layout.split(state.theta).items()})
        for test in draw_evaluation_inputs(pack):
            rows = [stopped_alone(net, tokens) for tokens in test.batch.tokens[m]]
            logits, loops = torch.stack([logits for logits, _ in rows]), [count for _, count in rows]
            batch = test.batch.for_members(torch.tensor([m]))
            accuracy = float(task.score_rows(logits[None], batch, test.lengths)["accuracy"].mean())
            column = pack.lengths.index(test.lengths[0])
            of_member = dict(zip(names, values[m, 0, :, column], strict=True))
            assert of_member["accuracy"] == pytest.approx(accuracy)
            assert of_member["loops"] == pytest.approx(sum(loops) / len(loops))
            counts |= {*loops}
    assert len(counts) > 2 and not waited
    alone = Pack(members[1:], torch.device("cpu"))
    assert evaluate(alone, stepped(alone, 14))[1].tobytes() == values[1:].tobytes()


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_a_published_example_runs(file: Path, own_code_forgotten, no_reports, run_inline, tmp_path: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 60
    copied = shutil.copytree(PUBLISHED, tmp_path / "published") / file.name
    small = ("seeds=2", "training.steps=2", "training.batch_size=4", "evaluation.every=2", "evaluation.samples=2")
    # A long row takes as long as all else. Each draw of the sampled answers is a text, which grows with the canvas.
    short = [f"evaluation.lengths={list(load_sweep(file).objective.lengths)}"]
    if file.stem == "looped_stopping":
        short += ["model.width=16", "model.most_loops=8"]
    if file.stem == "self_consistency":
        short = ["task.canvas=2", "task.train_bits=1", "evaluation.lengths=[2]", "objective.lengths=[2]"]
        short += ["model.layers=1", "model.width=16"]
        short += [f"evaluation.metrics.{name}.draws=4" for name in ("pass_at_1", "pass_at_4", "majority")]
    folder = run_inline(copied, *small, *short)
    sweep, metrics = open_sweep(folder), MEASURED.get(file.stem, {"accuracy"})
    judged = sweep.curves[sweep.curves["metric"].isin(metrics)]
    assert set(judged["metric"]) == metrics and judged["value"].between(0, 1).all()
    if file.stem == "looped_stopping":
        loops = sweep.curves[sweep.curves["metric"] == "loops"]
        assert len(loops) == len(judged) and loops["value"].between(1, 12).all()
        assert "loops" in summarize(SweepState.load(folder)).headline
    assert set(sweep.configurations["seeds_failed"]) <= {0}
