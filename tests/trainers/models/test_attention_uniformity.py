"""How uniform attention is, against loops over queries and keys: at the positions that are scored, and nowhere else."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainers.own_tasks import TOKENS, Last
from trainers.evaluation.evaluate import evaluate
from trainers.packs.evaluation_inputs import draw_evaluation_inputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.tasks.supervised import IGNORED
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.batch import Batch

CPU = torch.device("cpu")


class Padded(Last):
    """A fixed set: rows of 2, 3 or 5 tokens in one batch, filled up with pads, each scored at its last token."""

    lengths = (2, 3, 5)
    trained_lengths = (2, 3)
    metrics: ClassVar[Mapping[str, str]] = {"accuracy": "maximize"}

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        tokens = stream.integers(1, (samples, max(self.lengths)), TOKENS - 1) + 1
        row_lengths = torch.tensor(self.lengths)[torch.arange(samples) % 3][:, None]
        positions = torch.arange(tokens.shape[-1])
        rows = torch.where(positions < row_lengths, tokens, 0)
        yield EvaluationBatch(Batch(rows, torch.where(positions == row_lengths - 1, rows, IGNORED)), lengths)

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        at = [length - 1 for length in lengths]
        return {"accuracy": (logits_MBTV.argmax(dim=-1) == batch.targets)[..., at].float()}


def positions_scored(task: Task, test: EvaluationBatch, targets: list[int], length: int) -> list[int]:
    """The positions of a row that are scored at a length, as its task says."""
    if task.name in ("set_complement", "padded"):
        return [length - 1] if targets[length - 1] != IGNORED else []
    return [position for position, target in enumerate(targets) if target != IGNORED]


def by_hand(weights: dict[str, np.ndarray], tokens: list[int], query: int) -> float:
    """How many keys a query sees times the largest of its attention weights."""
    x = weights["embedding"][tokens]
    scores = [(x[query] @ weights["query"]) @ (x[key] @ weights["key"]) / math.sqrt(8) for key in range(query + 1)]
    attention = [math.exp(score - max(scores)) for score in scores]
    return len(attention) * max(attention) / sum(attention)


TASKS = {
    "set_complement": {"vocabulary": 8, "train_length": 3},
    "padded": {},
    "flip_flop": {"pairs": 3, "test_pairs": [5]},
    "copy_string": {"train_length": 4, "test_lengths": [7], "symbols": 5},
    "induction": {"train_length": 4, "test_lengths": [7], "symbols": 5},
    "half_parity": {"size": 4},
    "parity": {"canvas": 4, "train_bits": 2, "scratchpad": "none"},
    "padded_addition": {"width": 3, "train_digits": 2},
}


@pytest.mark.parametrize("form", ["plain", "table"])
@pytest.mark.parametrize(("name", "settings"), TASKS.items(), ids=TASKS)
def test_only_scored_positions_count_over_the_keys_they_see(
    member, registered, name: str, settings: dict[str, Any], form: str
) -> None:
    registered("task", "padded", Padded)
    task = {"name": name, **settings}
    changes = {"model__init_std": 0.6, "model__form": form, "evaluation__samples": 12}
    pack = Pack([member(seed, task=task, **changes) for seed in (0, 1)], CPU)
    state = TrainingState.make_initial(pack)
    names, values = evaluate(pack, state)
    curves = dict(zip(names, values[:, 0].swapaxes(0, 1), strict=True))
    views = pack.layout.split(state.theta.double())
    compared = 0
    for test in draw_evaluation_inputs(pack):
        metric = pack.task.recorded_name("attention_uniformity", test.distribution)
        for length in test.lengths:
            for m in range(2):
                weights = {key: value[m].numpy() for key, value in views.items()}
                each = []
                for row, targets in zip(test.batch.tokens[m].tolist(), test.batch.targets[m].tolist(), strict=True):
                    each += [by_hand(weights, row, at) for at in positions_scored(pack.task, test, targets, length)]
                got = curves[metric][m, pack.lengths.index(length)]
                assert got == pytest.approx(np.mean(each), rel=1e-4), (metric, length, m)
                compared += max(each) > 1.01
    assert compared >= 2
