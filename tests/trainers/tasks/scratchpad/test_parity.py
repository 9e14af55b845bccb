"""Parity with and without a scratchpad: what rows say, who is right, and what a judge accepts."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainers.tasks.scratchpad.writer import Writer
from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import evaluate
from trainers.packs.evaluation_inputs import draw_evaluation_inputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.metric_descriptions import EvaluationCurves
from trainers.tasks.scratchpad.layout import ScratchpadBatch
from trainers.tasks.scratchpad.parity import SYMBOLS, HalfParity, Parity
from trainers.tasks.scratchpad.scratchpad_task import ScratchpadTask
from trainers.tasks.task import EvaluationBatch
from trainers.tensors.batch import Batch

CPU = torch.device("cpu")
Solver = Callable[[str], str]


def tokens(text: str) -> list[int]:
    return [SYMBOLS.index(symbol) for symbol in text]


def text_of(row: Tensor) -> str:
    return "".join(SYMBOLS[token] for token in row.tolist()).rstrip()


def solved(canvas: str) -> str:
    """The whole scratchpad of a canvas and its equals sign, worked out state by state from the state before alone."""
    cells = canvas.removesuffix("=")
    state, written = "", ":"
    while not state.endswith("."):
        before, parity = (int(state[1:3]), int(state[6])) if state else (-1, 0)
        position = next((i for i in range(before + 1, len(cells)) if cells[i] != "_"), len(cells))
        bit = cells[position] if position < len(cells) else "_"
        parity = parity ^ (bit == "1")
        state = f"[{position:02}]{bit},{parity}" + ("." if position == len(cells) else "#")
        written += state
    return written


def alone(canvas: str) -> str:
    return f"{canvas.count('1') % 2}."


def prefixes(row: str) -> str:
    bits = row.removesuffix("=")
    half = bits[: len(bits) // 2]
    return "".join(str(half[: end + 1].count("1") % 2) for end in range(len(half))) + "."


class Oracle(Writer):
    """Writes what a solver says of each prompt."""

    def __init__(self, solver: Solver, spoil: Callable[[int, str], str] = lambda row, text: text) -> None:
        super().__init__(len(SYMBOLS), lambda row, prompt: tokens(spoil(row, solver(text_of(prompt)))))


def batches_of(task: ScratchpadTask, samples: int = 40) -> Iterator[EvaluationBatch]:
    return task.evaluation_batches(Stream(torch.tensor([3]), "eval", torch.tensor(0)), samples, task.lengths)


def scores(task: ScratchpadTask, test: EvaluationBatch, oracle: Oracle) -> dict[str, float]:
    rows = task.score_batch(oracle, test.batch, test.lengths)  # type: ignore[arg-type]
    return {name: float(value) for name, value in task.reduce(rows, test.batch, test.lengths).items()}


CASES: dict[str, tuple[ScratchpadTask, Solver]] = {
    "inductive": (Parity(canvas=12, train_bits=4), solved),
    "full": (Parity(canvas=12, train_bits=4, scratchpad="full"), solved),
    "none": (Parity(canvas=12, train_bits=4, scratchpad="none"), alone),
    "half": (HalfParity(size=5), prefixes),
    "half none": (HalfParity(size=5, scratchpad="none"), lambda row: prefixes(row)[-2:]),
}


@pytest.mark.parametrize("case", CASES)
def test_who_applies_the_rule_to_the_question_is_right_at_every_length(case: str) -> None:
    task, solver = CASES[case]
    for test in batches_of(task):
        values = scores(task, test, Oracle(solver))
        assert set(values) | {"steps_to_exact_match"} == set(task.metrics)
        assert {value for name, value in values.items() if not name.endswith("_loss")} == {1.0}


def cut(row: int, text: str) -> str:
    return text[:-1]


def wrong_digit(row: int, text: str) -> str:
    return text[:7] + ("1" if text[7] == "0" else "0") + text[8:]  # the first running parity


def wrong_place(row: int, text: str) -> str:
    return text[:2] + ("9" if text[2] == "0" else "0") + text[3:]  # the answer stays right


def more(row: int, text: str) -> str:
    return text[:-1] + "#" if len(text) > 2 else "0" + text


@pytest.mark.parametrize("spoil", [cut, wrong_digit, wrong_place, more])
@pytest.mark.parametrize("case", ["inductive", "full"])
def test_what_is_not_the_whole_scratchpad_is_refused(case: str, spoil: Callable[[int, str], str]) -> None:
    task, solver = CASES[case]

    def some(row: int, text: str) -> str:
        return spoil(row, text) if row < 10 else text

    for test in batches_of(task):
        assert scores(task, test, Oracle(solver, some))["exact_match"] == 0.75


def test_tokens_states_and_fields_are_counted_behind_the_true_tokens() -> None:
    task, test = Parity(canvas=12, train_bits=4), EvaluationBatch
    batch = next(test for test in batches_of(task) if test.lengths == (4,)).batch
    assert isinstance(batch, ScratchpadBatch)

    class Mistaken(Oracle):
        def __call__(self, batch: Batch) -> Tensor:
            assert isinstance(batch, ScratchpadBatch)
            wrong = (batch.field == 3) & (batch.state == 2)  # the parity of the third state
            wrong[:, 20:] = False
            return super().__call__(replace(batch, targets=torch.where(wrong, 0, batch.targets)))

    values = scores(task, test(batch, (4,)), Mistaken(solved))
    assert values["exact_match"] == values["field_place"] == values["field_bit"] == values["field_form"] == 1.0
    assert values["state_accuracy"] == pytest.approx(1 - 0.5 / 5)
    assert values["field_parity"] == pytest.approx(1 - 0.5 / 5)
    assert values["token_accuracy"] == pytest.approx(1 - 0.5 / 40)


@pytest.mark.parametrize("case", ["inductive", "full", "none"])
def test_rows_have_so_many_bits_anywhere_on_the_canvas(case: str) -> None:
    task, _ = CASES[case]
    for test in batches_of(task, 300):
        batch, (length,) = test.batch, test.lengths
        assert isinstance(batch, ScratchpadBatch)
        rows = [text_of(row) for row in batch.prompt[0]]
        assert all(len(row) == 13 and row.endswith("=") and row.count("_") == 12 - length for row in rows)
        ones = sum(row.count("1") for row in rows)
        assert abs(ones - 150 * length) < 5 * (75 * length) ** 0.5
        if length == 3:
            used = [sum(row[cell] != "_" for row in rows) for cell in range(12)]
            assert all(abs(count - 75) < 40 for count in used)


def test_training_is_on_few_bits_and_the_answer_is_that_of_the_rule() -> None:
    task = Parity(canvas=7, train_bits=3, scratchpad="full")
    (batch,) = task.sample(Stream(torch.tensor([2]), "data", torch.tensor(1)), 200)
    seen = set()
    for row in range(200):
        text = "".join(task.format_row(batch, row)[0])
        question = text.split(":")[0]
        seen.add(7 - question.count("_"))
        assert (question + solved(question)).startswith(text)
    assert seen == {1, 2, 3}


def test_the_test_inputs_of_a_seed_come_from_its_eval_stream(member) -> None:
    task = Parity(canvas=5, train_bits=2)
    config: MemberConfig = replace(member(7, evaluation={"samples": 6, "lengths": [2, 4]}), task=task)
    pack = Pack([replace(config, model=build("model", {"name": "decoder", "layers": 1, "width": 8, "heads": 2}))], CPU)
    tested = [test.batch.tokens for test in draw_evaluation_inputs(pack)]
    stream = Stream(torch.tensor([7]), "eval", torch.tensor(0))
    wanted = [test.batch.tokens for test in task.evaluation_batches(stream, 6, (2, 4))]
    assert all(torch.equal(*two) for two in zip(tested, wanted, strict=True))
    trained = task.sample(Stream(torch.tensor([7]), "data", torch.tensor(0)), 6)[0].tokens
    assert not torch.equal(tested[0][..., :5], trained[..., :5])


@pytest.mark.parametrize("form", ["mask", "transition"])
def test_a_pack_is_evaluated_with_every_metric(member, form: str) -> None:
    config = member(
        1,
        task={"name": "parity", "canvas": 4, "train_bits": 2, "row_form": form},
        model={"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": "learned"},
        evaluation={"samples": 6, "lengths": [2, 4]},
    )
    pack = Pack([config, replace(config, seed=2)], CPU)
    names, values = evaluate(pack, TrainingState.make_initial(pack))
    assert set(names) == set(config.metrics) and "steps_to_exact_match" in names
    assert np.isfinite(values[:, :, [names.index(name) for name in names if "steps" not in name]]).all()


def test_steps_to_the_first_solved_evaluation() -> None:
    task = Parity(solved=0.9)
    past = [
        EvaluationCurves(step, {"exact_match": np.full((1, 1, 1), of)})
        for step, of in ((10, 0.5), (20, 0.9), (30, 0.2))
    ]
    assert task.derive_metrics(past, (3,))["steps_to_exact_match"].tolist() == [[[20.0]]]
    assert np.isinf(task.derive_metrics(past[:1], (3,))["steps_to_exact_match"]).all()


def test_the_first_rows_of_a_seed_stay() -> None:
    """Sweeps are compared over years: the same seed has the same rows for good."""
    rows = []
    for task in (Parity(canvas=6, train_bits=3), HalfParity(size=4)):
        (batch,) = task.sample(Stream(torch.tensor([0]), "data", torch.tensor(1)), 1)
        test = next(iter(task.evaluation_batches(Stream(torch.tensor([0]), "eval", torch.tensor(0)), 1, (1,)))).batch
        rows += ["".join(task.format_row(of, 0)[0]) for of in (batch, test)]
    assert rows == [
        "0__10_=:[00]0,0#[00]0,0#[03]1,1#[03]1,1#[04]0,1#[04]0,1#[06]_,1",
        "1_____=:[00]1,1#[00]1,1#[06]_,1",
        "01100100=0100",
        "00110111=0010",
    ]
