"""Tasks on padded numbers with small and large settings, and readers of their rows."""

from typing import Any

import torch

from trainers.random import Stream
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tasks.supervised import IGNORED
from trainers.tensors.numerals import PAD, PLUS, TIMES

Task = PaddedAddition | PaddedMultiplication


def stream(*seeds: int, step: int = 1, name: str = "data") -> Stream:
    return Stream(torch.tensor(seeds or (0,)), name, torch.tensor(step))


def value(tokens: list[int]) -> int:
    """The integer that pads and digits spell; pads stand on the left only, and no number starts with 0."""
    digits = [token for token in tokens if token != PAD]
    assert digits and tokens == [PAD] * (len(tokens) - len(digits)) + digits
    assert len(digits) == 1 or digits[0] > 0
    return int("".join(map(str, digits)))


def parsed(task: Task, tokens: list[int], targets: list[int]) -> tuple[int, int, int]:
    """Both numbers and the answer of one sequence, read without the task's own reader."""
    numbers = [token for token in tokens if token <= PAD]
    sign = PLUS if isinstance(task, PaddedAddition) else TIMES
    width, _ = task.blocks
    assert tokens.count(sign) == 1 and len(numbers) == sum(task.blocks)
    scored = [target for target in targets if target != IGNORED]
    return value(numbers[:width]), value(numbers[width:]), value(scored)


def rows(task: Task, batch: Any) -> list[tuple[int, int, int]]:
    return [
        parsed(task, tokens, targets)
        for tokens, targets in zip(
            batch.tokens.flatten(0, 1).tolist(), batch.targets.flatten(0, 1).tolist(), strict=True
        )
    ]


def evaluated(task: Task, samples: int = 50, lengths: tuple[int, ...] | None = None) -> dict[int, Any]:
    chosen = task.lengths if lengths is None else lengths
    tests = task.evaluation_batches(stream(name="eval", step=0), samples, chosen)
    return {test.lengths[0]: test.batch for test in tests}


def perfect(batch: Any, outputs: int = 11) -> torch.Tensor:
    """Logits (M, B, T, V) that are right everywhere."""
    return 9.0 * torch.nn.functional.one_hot(batch.targets.clamp(min=0), outputs).float()


ADDITIONS = [
    PaddedAddition(width=6, train_digits=3),
    PaddedAddition(width=50, train_digits=50),
    PaddedAddition(width=6, train_digits=6, distribution="complexity"),
    PaddedAddition(width=7, train_digits=3, zero_shift=True, distribution="mixed"),
    PaddedAddition(width=6, train_digits=3, text_tokens=4, text_ids=5, zero_shift=True),
    PaddedAddition(width=6, train_digits=3, text_tokens=1, fixed_set=10),
    PaddedAddition(width=6, train_digits=6, carries="sum_le_9"),
]
PRODUCTS = [
    PaddedMultiplication(number_digits=6, train_digits=3),
    PaddedMultiplication(multiplier_digits=3, number_digits=50, train_digits=50),
    PaddedMultiplication(multiplier_digits=2, number_digits=6, train_digits=3, zero_shift=True, right_block_width=9),
    PaddedMultiplication(multiplier_digits=3, number_digits=5, train_digits=5, text_tokens=6, fixed_set=30),
    PaddedMultiplication(multiplier_digits=1, number_digits=5, train_digits=2, multiplier_range=(0, 4)),
]
