"""`lengthwise data`: histograms against exact or independent counts, examples as trained on, one error each."""

import math
import random
import shlex
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

from orchestrator.cli import main as cli
from orchestrator.figures import drawing
from orchestrator.figures.drawing import read_figure_digest
from orchestrator.preview import task_data
from orchestrator.preview.data_view import data_view, example_lines, histogram_figure, histogram_table
from orchestrator.preview.task_data import TRAINING, Histogram, examples, histograms
from search_spaces import load_sweep
from trainers.config.member import MemberConfig
from trainers.random import Stream
from trainers.settings import registry

FOLDER = Path(__file__).parents[3] / "search_spaces"
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
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return run


# Histograms -----------------------------------------------------------------------------------------------------------


def exact_cascades(digits):
    """P(c): the probability that the running chain never exceeds m, differenced; chains by hand, not by the task."""

    def at_most(m):
        chances = {0: 1.0}
        for _ in range(digits):
            after = Counter()
            for k, p in chances.items():
                after[1] += 0.45 * p
                after[k + 1 if k else 0] += 0.10 * p
                after[0] += 0.45 * p
            chances = {k: p for k, p in after.items() if k <= m}
        return sum(chances.values())

    cumulative = [at_most(m) for m in range(digits + 1)]
    return np.diff(cumulative, prepend=0.0)


def test_the_recursion_gives_the_known_table():
    assert exact_cascades(5) == pytest.approx([0.0503284, 0.775747, 0.160425, 0.0126, 8.55e-4, 4.5e-5], rel=1e-3)
    assert exact_cascades(50)[1:6] == pytest.approx([0.0936413, 0.710155, 0.175244, 0.0188911, 1.866e-3], rel=1e-3)


def within_binomial_error(histogram, shares):
    n = histogram.inputs
    for value, p in enumerate(shares):
        assert abs(histogram.counts.get(value, 0) - n * p) <= 4.5 * math.sqrt(n * p * (1 - p)) + 1, (value, histogram)


@pytest.mark.parametrize("fixed_set", [None, 20_000])
def test_cascades_of_uniform_sums_follow_the_exact_distribution(fixed_set):
    task = addition(width=50, train_digits=5, fixed_set=fixed_set, measured_cascades=[9], measured_samples=2000)
    training, five, fifty = histograms(task, (5, 50), 20_000)["cascade"]
    assert [one.data for one in (training, five, fifty)] == [TRAINING, "length 5", "length 50"]
    assert {one.inputs for one in (training, five, fifty)} == {20_000}  # none of those scored apart
    for one, digits in ((training, 5), (five, 5), (fifty, 50)):
        within_binomial_error(one, exact_cascades(digits))
    assert training.counts != five.counts
    assert training.mean == pytest.approx(np.dot(exact_cascades(5), range(6)), abs=0.02)


def test_training_distributions_show():
    flat = np.full(6, 1 / 6)
    for name, shares in (("complexity", flat), ("mixed", (flat + exact_cascades(5)) / 2)):
        (training,) = histograms(addition(width=6, distribution=name), (), 12_000)["cascade"]
        within_binomial_error(training, shares)


def rounds(multiplier, number):
    """Parallel rounds until all columns are digits, on Python lists."""
    columns, count = [multiplier * int(digit) for digit in reversed(str(number))] + [0], 0
    while max(columns) >= 10:
        columns = [column % 10 + (columns[i - 1] // 10 if i else 0) for i, column in enumerate(columns)]
        count += 1
    assert int("".join(map(str, reversed(columns)))) == multiplier * number
    return count


@pytest.mark.slow
def test_rounds_of_products_follow_an_independent_simulation():
    worked = {(9, 9999): 1, (3, 34): 2, (7, 86): 2, (8, 125): 3, (7, 1429): 4, (9, 1112): 4, (7, 14286): 5}
    assert {pair: rounds(*pair) for pair in worked} == worked
    task = member({"name": "padded_multiplication", "number_digits": 20, "train_digits": 5})
    other = random.Random(20)
    for found, digits in zip(histograms(task, (5, 20), 20_000)["rounds"], (5, 5, 20), strict=True):
        simulated = Counter(rounds(other.randint(1, 9), other.randrange(10**digits)) for _ in range(20_000))
        table = np.array([[one.get(r, 0) for r in range(10)] for one in (found.counts, simulated)])
        merged = np.column_stack([table[:, :4], table[:, 4:].sum(axis=1)])
        assert merged.sum() == 40_000 and merged.min() > 10
        assert scipy.stats.chi2_contingency(merged).pvalue > 1e-4, digits


def test_pieces_do_not_change_what_is_counted(monkeypatch):
    task = addition(width=6, train_digits=3, fixed_set=100)
    whole = histograms(task, (), 100)
    monkeypatch.setattr(task_data, "ROWS_AT_ONCE", 7)
    assert histograms(task, (), 100) == whole and whole["run"][0].inputs == 100
    pieces = histograms(addition(width=6, train_digits=3), (6,), 50)["cascade"]
    assert [one.inputs for one in pieces] == [50, 50]
    monkeypatch.setattr(task_data, "ROWS_AT_ONCE", 1)
    assert all(len(one.counts) > 2 for one in histograms(addition(width=50, train_digits=50), (50,), 30)["run"])
    monkeypatch.setattr(task_data, "ROWS_AT_ONCE", 10_000)
    (training,) = histograms(task, (), 2 * 100)["cascade"]  # two epochs: every sample twice
    assert training.counts == {value: 2 * count for value, count in whole["cascade"][0].counts.items()}


# Examples -------------------------------------------------------------------------------------------------------------


def test_examples_are_the_first_rows_that_are_trained_on():
    one = addition(width=4, train_digits=2, text_tokens=2)
    batches = [one.task.sample(Stream(torch.tensor([3]), "data", torch.tensor(step)), 64) for step in (1, 2)]
    found = examples(one, 70)
    assert len(found) == 70
    for i in (0, 63, 64, 69):
        assert found[i] == one.task.format_row(batches[i // 64], i % 64)
    plain = addition(width=4, train_digits=2, fixed_set=9)
    for tokens, targets in examples(plain, 9):
        text = "".join(tokens)
        first, second = (int(number.replace("P", "")) for number in text.split("+"))
        assert "".join(targets) == "____" + str(first + second).rjust(5, "P")
    assert examples(plain, 0) == []


@pytest.mark.parametrize("name", registry.names("task"))
def test_every_task_can_be_looked_at(name):
    found = examples(member({"name": name, **registry.lookup("task", name).trial_settings}), 3)
    assert len(found) == (1 if name == "ring_regression" else 3)  # nothing is drawn on the ring
    lines = example_lines(found)
    assert len(lines) == 2 + sum(len(rows) + 1 for rows in found)
    assert not [line for line in lines if line != line.rstrip()]
    assert all(isinstance(word, str) and word for rows in found for words in rows for word in words)


def test_tokens_stand_above_their_targets():
    assert example_lines([(["P", "7"], ["_", "9"])])[2:] == ["P7", "_9", ""]
    assert example_lines([(["4", "17", "3"], ["17", "3", "0"])])[2:] == ["4  17 3", "17 3  0", ""]
    assert example_lines([(["e6", "f6"], ["f4 d6", "--"])])[2:] == ["e6     f6", "f4 d6  --", ""]
    assert example_lines([(["a", "bc"], ["d"])])[2:] == ["a bc", "d", ""]
    assert example_lines([]) == []
    lines = example_lines([(["P", "7"], ["_", "9"], ["0", "11"])], ["position ids"])
    assert lines == [
        "the first inputs it trains on, above their targets and position ids:",
        "",
        "P 7",
        "_ 9",
        "0 11",
        "",
    ]


def test_position_ids_groups_and_weights_stand_below_their_tokens(lengthwise) -> None:
    sweep = FOLDER / "inductive_scratchpad" / "fig5a_parity_cpu.yaml"
    said = lengthwise("data", sweep, "--set", "task.row_form=mask")[1].splitlines()
    at = next(place for place, line in enumerate(said) if "above their targets" in line)
    assert said[at].endswith("above their targets, position ids, groups and weights:")
    tokens, targets, ids, groups, weights = (line.split() for line in said[at + 2 : at + 7])
    begin = tokens.index(":")
    first = begin + 9
    assert tokens[first : first + 8] == tokens[begin + 1 : first]  # the copy of the first state
    assert ids[first : first + 16] == [*map(str, range(begin + 1, begin + 17))]
    assert groups[first : first + 16] == ["2"] * 16 and groups[:begin] == ["0"] * begin
    assert weights[first : first + 7] == ["0"] * 7 and targets[first : first + 7] == ["~"] * 7
    assert weights[: begin - 1] == ["0"] * (begin - 1) and weights[begin] == "1"


def test_targets_that_are_distributions_are_the_possible_tokens():
    task = {"name": "set_complement", "vocabulary": 5, "train_length": 2, "target": "soft"}
    ((tokens, targets),) = examples(member(task), 1)
    absent = sorted({"0", "1", "2", "3", "4"} - {tokens[0]})
    assert targets[0] == "{" + " ".join(absent) + "}" and targets[1].count(" ") == 2


def test_moves_are_squares_and_soft_targets_the_legal_ones():
    one = member({"name": "othello", "train_moves": 6, "target": "soft"})
    squares = [f"{column}{row}" for row in range(1, 9) for column in "abcdefgh"]
    for tokens, targets in examples(one, 4):
        moves = [squares.index(word) for word in tokens]
        for i, legal in enumerate(targets, start=1):
            assert legal.split() == [squares[square] for square in one.task.legal_squares(moves[:i])]
    ((tokens, targets),) = examples(member({"name": "othello", "train_moves": 6}), 1)
    assert tokens[1:] == targets[:-1]


def test_the_ring_says_what_is_random_and_what_is_asked():
    ((tokens, targets),) = examples(member({"name": "ring_regression"}), 5)
    assert tokens == ["x ~ N(0, I) at positions 21 to 30, 0 at the other 41"]
    assert targets == ["there y(i) = 2 <theta, x(i)> + 0.5 <theta, x(i-1) + x(i+1)>"]
    ((tokens, _),) = examples(member({"name": "ring_regression", "augmented": True}), 5)
    assert "at any 10 neighbours" in tokens[0]


# Table and figure -----------------------------------------------------------------------------------------------------

SETS = [Histogram(TRAINING, {0: 1, 1: 3}), Histogram("length 9", {1: 1, 4: 3})]


def test_the_table_has_a_line_for_every_value_that_occurs():
    table = histogram_table("hardness", SETS)
    cells = [list(column.cells) for column in table.columns]
    assert [str(column.header) for column in table.columns] == ["hardness", TRAINING, "length 9"]
    assert cells == [["0", "1", "4", "mean"], ["0.25", "0.75", "-", "0.750"], ["-", "0.25", "0.75", "3.25"]]


def test_the_figure_has_a_panel_for_every_measure(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(drawing, "save", lambda path, draw, *facts: figures.append(draw()) or path)
    many = [Histogram(TRAINING, {0: 900, 1: 99, 2: 1})]
    histogram_figure("a title", {"hardness": SETS, "size": many}, tmp_path / "a.png")
    left, right = figures[0].axes
    assert (left.get_xlabel(), right.get_xlabel(), left.get_yscale(), right.get_yscale()) == (
        "hardness", "size", "linear", "log"
    )  # fmt: skip
    bars = [(round(bar.get_x() + bar.get_width() / 2, 2), bar.get_height()) for bar in left.patches]
    assert bars == [(-0.21, 0.25), (0.79, 0.75), (1.21, 0.25), (4.21, 0.75)]
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "training (mean 0.750)",
        "length 9 (mean 3.25)",
    ]
    assert len(right.patches) == 3


# The verb -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_verb_shows_the_first_configuration(lengthwise, sweep, tmp_path):
    code, out, err = lengthwise("data", sweep, "--examples", 2, "--samples", 40)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "several: task padded_addition, configuration 0 of 2 (training.weight_decay 0.25), seed 7"
    assert lines[1] == "trained on lengths 1-3, evaluated at 2-8"
    assert [len(line) for line in lines[5:7]] == [17, 17] and lines[7] == "" and "+" in lines[5]
    assert "cascade: share of inputs, 40 of each" in lines and "run: share of inputs, 40 of each" in lines
    headings = next(line for line in lines if line.strip().startswith("cascade  "))
    assert headings.split() == ["cascade", "training", "length", "3", "length", "4", "length", "6", "length", "8"]
    assert sorted(tmp_path.iterdir()) == [sweep]
    other = lengthwise("data", sweep, "--examples", 0, "--lengths", "1,8", "--set", "task.distribution=complexity")
    assert other[0] == 0 and "+" not in other[1] and "20,000 of each" in other[1]
    headings = next(line for line in other[1].splitlines() if line.strip().startswith("cascade  "))
    assert headings.split() == ["cascade", "training", "length", "1", "length", "8"]
    listed = ("--set", "space={}", "--set", "search={sampler: listed, listed: [{}, {training.weight_decay: 0.5}]}")
    assert "configuration 0 of 2, seed 7" in lengthwise("data", sweep, "--examples", 0, *listed)[1]


def test_the_figure_is_all_that_is_written_and_only_ours_is_replaced(lengthwise, sweep, tmp_path):
    figure = tmp_path / "a.png"
    code, out, _ = lengthwise("data", sweep, "--samples", 30, "--figure", figure)
    assert code == 0 and out.splitlines()[-1] == f"drew {figure}" and read_figure_digest(figure)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "several.yaml"]
    before = figure.read_bytes()
    assert lengthwise("data", sweep, "--samples", 31, "--figure", figure)[0] == 0 and figure.read_bytes() != before
    figure.write_bytes(b"a picture of somebody's")
    code, out, err = lengthwise("data", sweep, "--figure", figure)
    assert code == 2 and out == "" and "was not drawn by lengthwise" in err
    assert figure.read_bytes() == b"a picture of somebody's"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lengths", "9"), "different lengths of this task (1-8) such as 3,8"),
        (("--lengths", "3,3"), "--lengths '3,3'"),
        (("--lengths", "3,x"), "--lengths '3,x'"),
        (("--lengths", ""), "--lengths ''"),
        (("--lengths", "-1"), "--lengths '-1'"),
        (("--figure", "a.pdf"), "allowed: a name that ends with .png"),
        (("--figure", "absent/a.png"), "the folder absent does not exist"),
        (("--examples", "-1"), "--examples"),
        (("--samples", "0"), "--samples"),
        (("--set", "task.width=2"), "task.train_digits"),
        (("--set", "task.widht=9"), "width"),
    ],
)
def test_bad_input_is_one_error(lengthwise, sweep, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = lengthwise("data", sweep, *words)
    assert code == 2 and out == "" and said in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == [sweep]


def test_without_measures_there_are_examples_only(lengthwise, tmp_path):
    quickstart = FOLDER / "quickstart.yaml"
    code, out, _ = lengthwise("data", quickstart, "--examples", 1)
    assert code == 0 and "set_complement does not measure how hard its inputs are" in out and "share" not in out
    for option, value in (("--figure", tmp_path / "a.png"), ("--lengths", "5")):
        code, out, err = lengthwise("data", quickstart, option, value)
        assert code == 2 and out == "" and err.startswith(f"{option} {value}: set_complement does not measure")
    assert lengthwise("data", tmp_path / "absent.yaml")[0] == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "lengths", "families"), [(13, (5, 50), {"cascade", "run"}), (14, (5, 20), {"rounds"})]
)
def test_the_histograms_of_the_paper_are_drawn_by_the_command_in_their_file(number, lengths, families):
    file = FOLDER / "arithmetic" / f"fig{number}_histograms.yaml"
    (command,) = (line[1:].split() for line in file.read_text().splitlines() if line.startswith("#   lengthwise"))
    assert command == shlex.split(
        f"lengthwise data search_spaces/arithmetic/{file.name} --lengths {lengths[0]},{lengths[1]} "
        f"--samples 100000 --figure fig{number}.png"
    )
    spec = load_sweep(file)
    sections = {name: getattr(spec, name) for name in ("task", "model", "training", "evaluation")}
    one = MemberConfig.from_dict({**sections, "seed": 0})
    assert set(one.task.families) == families and set(lengths) <= set(one.evaluated_lengths)
    assert one.training.steps * one.training.batch_size == 20 * one.task.fixed_set
    shown = data_view(spec, count=1, samples=200, lengths=command[4], figure=None)
    assert [line.split(":")[0] for line in shown if isinstance(line, str) and "share of" in line] == sorted(families)
