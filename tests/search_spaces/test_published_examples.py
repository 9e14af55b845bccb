"""The examples of published tasks: their answers equal plain Python's, and each sweep runs with its modules."""

import importlib.util
import itertools
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from orchestrator import open_sweep
from trainers.random import Stream
from trainers.tasks.supervised import IGNORED
from trainers.tensors.batch import Batch

FOLDER = Path(__file__).parents[2] / "search_spaces" / "examples" / "published"
SWEEPS = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture
def load(own_code_forgotten: None, monkeypatch: pytest.MonkeyPatch):
    def load_module(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load_module


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
            return sum(digit * 10**place for place, digit in enumerate(one for one in part if one < 10))

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


def test_depth_of_the_looped_model_is_the_number_of_symbols(load) -> None:
    torch.manual_seed(0)
    net = load("looped").Net(inputs=4, outputs=4, width=8, heads=2)
    string = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 1, 1, 0, 2]])
    together = net(string)
    given = net.embed(string[:1])
    x = torch.zeros_like(given)
    for _ in range(3):
        x = net.block(x + given)
    torch.testing.assert_close(together[:1], net.head(net.normalize(x)))
    torch.testing.assert_close(together[1:], net(string[1:]))


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_a_published_example_runs(file: Path, own_code_forgotten: None, run_inline, tmp_path: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 60
    copied = shutil.copytree(FOLDER, tmp_path / "published") / file.name
    small = ("seeds=2", "training.steps=2", "training.batch_size=4", "evaluation.every=2", "evaluation.samples=2")
    sweep = open_sweep(run_inline(copied, *small))
    curves, metric = sweep.curves, "exact_match" if file.stem == "reversed_addition" else "accuracy"
    assert metric in set(curves["metric"]) and curves["value"].between(0, 1).all()
    assert set(sweep.configurations["seeds_failed"]) <= {0}
