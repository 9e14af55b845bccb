"""`lengthwise data`: examples as trained on, one error each."""

import re
import sys

import pytest
import torch

from orchestrator.preview.data_view import format_examples, read_examples
from tests.command_line import run_command_line
from trainers.config.member import MemberConfig
from trainers.random import Stream
from trainers.settings import registry

SEVERAL = """
name: several
study: arithmetic
task: {name: padded_addition, width: 8, train_digits: 3, fixed_set: 40, measured_cascades: [0, 2]}
model: {name: encoder, width: 8, layers: 1, heads: 2, position: rpe}
training: {steps: 3, batch_size: 4, learning_rate: 0.001}
space: {training.weight_decay: {grid: [0.25, 0.5]}}
search: {sampler: grid}
seeds: [7, 8]
evaluation: {samples: 10, lengths: [2, 3, 4, 5, 6, 7, 8]}
objective: {metric: exact_match, average: raw, lengths: [4], direction: maximize}
"""


def member(task, seed=3, batch_size=64):
    training = {"steps": 3, "batch_size": batch_size, "learning_rate": 1e-3}
    return MemberConfig.from_dict(
        {
            "task": task,
            "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2},
            "training": training,
            "seed": seed,
        }
    )


def addition(**values):
    return member({"name": "padded_addition", **values})


@pytest.fixture
def sweep(tmp_path):
    path = tmp_path / "several.yaml"
    path.write_text(SEVERAL)
    return path


@pytest.fixture
def lengthwise(monkeypatch, capsys):
    """Runs the command line in this process: exit code, stdout, stderr."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["lengthwise", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            run_command_line()
        return ended.value.code, *capsys.readouterr()

    return run


# Examples -------------------------------------------------------------------------------------------------------------


def test_examples_are_the_first_rows_that_are_trained_on():
    config = addition(width=4, train_digits=2, text_tokens=2)
    batches = [config.task.sample(Stream(torch.tensor([3]), "data", torch.tensor(step)), 64) for step in (1, 2)]
    examples = read_examples(config, 70)
    assert len(examples) == 70
    for i in (0, 63, 64, 69):
        assert examples[i] == config.task.format_row(batches[i // 64], i % 64)
    plain = addition(width=4, train_digits=2, fixed_set=9)
    for tokens, targets in read_examples(plain, 9):
        text = "".join(tokens)
        first, second = (int(number.replace("P", "")) for number in text.split("+"))
        assert "".join(targets) == "____" + str(first + second).rjust(5, "P")
    assert read_examples(plain, 0) == []


@pytest.mark.parametrize("name", registry.list_names("task"))
def test_every_task_can_be_looked_at(name):
    examples = read_examples(member({"name": name, **registry.get_class("task", name).trial_settings}), 3)
    assert len(examples) == (1 if name == "ring_regression" else 3)  # nothing is drawn on the ring
    lines = format_examples(examples)
    assert len(lines) == 2 + sum(len(rows) + 1 for rows in examples)
    assert not [line for line in lines if line != line.rstrip()]
    assert all(isinstance(word, str) and word for rows in examples for words in rows for word in words)


def test_tokens_stand_above_their_targets():
    assert format_examples([(["P", "7"], ["_", "9"])])[2:] == ["P7", "_9", ""]
    assert format_examples([(["4", "17", "3"], ["17", "3", "0"])])[2:] == ["4  17 3", "17 3  0", ""]
    assert format_examples([(["e6", "f6"], ["f4 d6", "--"])])[2:] == ["e6     f6", "f4 d6  --", ""]
    assert format_examples([(["a", "bc"], ["d"])])[2:] == ["a bc", "d", ""]
    assert format_examples([]) == []
    lines = format_examples([(["P", "7"], ["_", "9"], ["0", "11"])], ["position ids"])
    assert lines == [
        "the first training inputs, above their targets and position ids:",
        "",
        "P 7",
        "_ 9",
        "0 11",
        "",
    ]


def test_targets_that_are_distributions_are_the_possible_tokens():
    task = {"name": "set_complement", "vocabulary": 5, "train_length": 2, "target": "soft"}
    ((tokens, targets),) = read_examples(member(task), 1)
    absent = sorted({"0", "1", "2", "3", "4"} - {tokens[0]})
    assert targets[0] == "{" + " ".join(absent) + "}" and targets[1].count(" ") == 2


def test_moves_are_squares_and_soft_targets_the_legal_ones():
    config = member({"name": "othello", "train_moves": 6, "target": "soft"})
    squares = [f"{column}{row}" for row in range(1, 9) for column in "abcdefgh"]
    for tokens, targets in read_examples(config, 4):
        moves = [squares.index(word) for word in tokens]
        for i, legal in enumerate(targets, start=1):
            assert legal.split() == [squares[square] for square in config.task.legal_squares(moves[:i])]
    ((tokens, targets),) = read_examples(member({"name": "othello", "train_moves": 6}), 1)
    assert tokens[1:] == targets[:-1]


# The verb -------------------------------------------------------------------------------------------------------------


def test_the_verb_shows_the_first_configuration(lengthwise, sweep, tmp_path):
    code, out, err = lengthwise("data", sweep, "--examples", 2)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert {"several", "padded_addition", "0.25", "7"} <= set(re.findall(r"[\w.]+", lines[0]))
    assert {"1-3", "2-8"} == set(re.findall(r"\d+-\d+", lines[1]))
    assert [len(line) for line in lines[5:7]] == [17, 17] and lines[7] == "" and "+" in lines[5]
    assert len(lines) == 11
    assert list(tmp_path.iterdir()) == [sweep]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--examples", "0"), "--examples"),
        (("--set", "task.width=2"), "task.train_digits"),
        (("--set", "task.widht=9"), "width"),
        (("--figure", "a.png"), "--figure"),
    ],
)
def test_bad_input_is_one_error(lengthwise, sweep, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = lengthwise("data", sweep, *words)
    assert code == 2 and out == "" and message in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == [sweep]
