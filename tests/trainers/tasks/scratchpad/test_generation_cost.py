"""What writing costs is what passes through a model: its tokens are counted."""

from typing import Any, ClassVar

import pytest
import torch

from tests.trainers.positions.passes import drawn, noise
from tests.trainers.tasks.scratchpad.toys import Shrinking
from trainers.evaluation import generate
from trainers.evaluation.forward import Forward
from trainers.models.decoder import Decoder
from trainers.random import Stream
from trainers.settings.registry import build
from trainers.tasks.scratchpad.generation_cost import count_passes
from trainers.tasks.scratchpad.scratchpad_task import INDUCTIVE, ScratchpadTask

EVAL = Stream(torch.tensor([1]), "eval", torch.tensor(0))
SIZES: dict[str, Any] = {"layers": 1, "width": 4, "heads": 1, "position": "learned"}


class Counting(Decoder):
    """Counts the tokens of its passes."""

    tokens: ClassVar[list[int]] = []

    def _compute_logits(self, forward_pass, caches=None):
        self.tokens.append(forward_pass.count)
        return super()._compute_logits(forward_pass, caches)


class Forgetful(Counting):
    """Keeps nothing of them."""

    supports_masked_cache = _has_cache = False


def tasks() -> dict[str, ScratchpadTask]:
    return {
        "question": Shrinking(),
        "no question": Shrinking(asks=False),
        "full": Shrinking(scratchpad="full"),
        "none": build("task", {"name": "half_parity", "size": 3, "scratchpad": "none"}),
        "a start mark to write": build("task", {"name": "cycles", "size": 2, "test_sizes": [3], "names": 8}),
    }


def counted(task: ScratchpadTask, model: Counting) -> tuple[int, int]:
    """Tokens that passed in tests of all lengths, and those of the rows alone."""
    model.tokens.clear()
    rows, weights = 0, drawn(model, task, members=1)
    for test in task.evaluation_batches(EVAL, 2, task.lengths):
        task.score_batch(Forward(model, weights, "plain", noise(1, training=False)), test.batch, test.lengths)
        rows += test.batch.tokens.shape[-1]
    return sum(model.tokens), rows


@pytest.mark.parametrize("name", tasks())
@pytest.mark.parametrize("model", [Counting(**SIZES), Forgetful(**SIZES)], ids=["kept", "forgotten"])
def test_passes_are_the_tokens_that_pass(monkeypatch, model: Counting, name: str) -> None:
    monkeypatch.setattr(generate, "_all_ended", lambda going: False)  # as on a GPU: all write to the end
    task, keeps = tasks()[name], type(model) is Counting
    tokens, rows = counted(task, model)
    passes = count_passes(
        map(task.widths, task.lengths), by_state=task.scratchpad == INDUCTIVE, cached=keeps, cost=lambda among: 1.0
    )
    if name == "no question" and not keeps:
        assert tokens / rows <= passes < 1.3 * tokens / rows
    else:
        assert passes == pytest.approx(tokens / rows)
    if keeps:
        assert task.passes == passes < 3
    monkeypatch.setattr(type(model), "count_operations", lambda self, task, rows, positions: 5.0 * rows * positions)
    assert task.passes_with(model) == pytest.approx(passes), "tokens alone count where no attention does"


def test_the_text_of_the_benchmark_costs_what_it_was_measured_to() -> None:
    """tests/benchmarks/README.md: .7 of a pass where keys are kept, 7.4 otherwise."""

    class Long(Shrinking):
        start = None

        def question_width(self, length: int) -> int:
            return 14

        def state_widths(self, length: int) -> tuple[int, ...]:
            return (8,) * 12

    sizes = {"layers": 2, "width": 64, "heads": 4, "position": "learned"}
    task, kept, forgetful = Long(), Decoder(**sizes), Forgetful(**sizes)
    assert task.passes_with(kept) == pytest.approx(1.7, abs=0.1)
    assert 8 < task.passes_with(forgetful) < 12
