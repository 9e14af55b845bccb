"""Examples that a member trains on, as text, and histograms of how hard its inputs are.

A task measures how hard inputs are in `measure_difficulty(tokens)` and shows a row as text in `format_row(batch, row)`.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.random import Stream
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch

TRAINING = "training"
ROWS_AT_ONCE = 10_000
BESIDE = {"ids": "position ids", "groups": "groups", "weight": "weights"}  # values of tokens, if a batch has them
Example = tuple[list[str], ...]  # tokens, targets, and the values of `annotations`


@dataclass(frozen=True)
class Histogram:
    """How many inputs of a data set (TRAINING, or "length 8") have each value of a measure."""

    data: str
    counts: dict[int, int]

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return sum(self.counts.values())

    def share(self, value: int) -> float:
        """Return the share of the inputs that have this value."""
        return self.counts.get(value, 0) / self.inputs

    @property
    def mean(self) -> float:
        """The mean value."""
        return sum(value * count for value, count in self.counts.items()) / self.inputs


def has_measures(member: MemberConfig) -> bool:
    """Return whether the task of a member has measures."""
    return type(member.task).measure_difficulty is not Task.measure_difficulty


def examples(member: MemberConfig, count: int) -> list[Example]:
    """Return the first `count` training inputs with their targets and the values of `annotations`.

    Only one if all are the same.
    """
    found: list[Example] = []
    rows = member.training.batch_size
    for step in range(1, -(-count // rows) + 1):
        batches = member.task.training_batches(_stream(member, "data", step), rows)
        shown = (_shown(member.task, batch, row) for batch in batches for row in range(batch.tokens.shape[1]))
        found += list(itertools.islice(shown, count - len(found)))
    return found[:1] if all(example == found[0] for example in found) else found


def annotations(member: MemberConfig) -> list[str]:
    """Return the names of the values that training tokens have beside their targets."""
    batch = member.task.training_batches(_stream(member, "data", 1), member.training.batch_size)[0]
    return [words for name, words in BESIDE.items() if getattr(batch, name) is not None]


def histograms(member: MemberConfig, lengths: Iterable[int], samples: int) -> dict[str, list[Histogram]]:
    """Return histograms by measure, of the first `samples` training inputs and as many inputs of each length.

    Lengths are those of the distribution that is trained on. Inputs of one kind at the end of an evaluation batch,
    which are scored separately, are left out.
    """
    sets = {TRAINING: _counted(member, _training(member, samples))}
    sets |= {f"length {length}": _counted(member, _evaluation(member, length, samples)) for length in lengths}
    return {
        measure: [Histogram(data, dict(sorted(counts[measure].items()))) for data, counts in sets.items()]
        for measure in sets[TRAINING]
    }


def _shown(task: Task, batch: Batch, row: int) -> Example:
    tokens, targets = task.format_row(batch, row)
    values = [getattr(batch, name) for name in BESIDE]
    more = [one[0, row, : len(tokens)].tolist() for one in values if one is not None]
    return tokens, targets, *([f"{number:g}" for number in numbers] for numbers in more)


def _training(member: MemberConfig, samples: int) -> Iterator[Tensor]:
    for step in range(1, math.ceil(samples / ROWS_AT_ONCE) + 1):
        for batch in member.task.training_batches(_stream(member, "data", step), ROWS_AT_ONCE):
            yield batch.tokens[0, : samples - (step - 1) * ROWS_AT_ONCE]


def _evaluation(member: MemberConfig, length: int, samples: int) -> Iterator[Tensor]:
    for step, start in enumerate(range(0, samples, ROWS_AT_ONCE)):
        rows = min(ROWS_AT_ONCE, samples - start)
        for test in member.task.evaluation_batches(_stream(member, "eval", step), rows, (length,)):
            if test.distribution in ("", member.task.distributions[0].name):
                yield test.batch.tokens[0, :rows]


def _counted(member: MemberConfig, pieces: Iterable[Tensor]) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = {}
    for tokens in pieces:
        for measure, values in member.task.measure_difficulty(tokens).items():
            found.setdefault(measure, Counter()).update(values.tolist())
    return found


def _stream(member: MemberConfig, name: str, step: int) -> Stream:
    return Stream(torch.tensor([member.seed]), name, torch.tensor(step))
