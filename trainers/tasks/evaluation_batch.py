"""Distributions of inputs that are evaluated, and batches of their rows."""

from dataclasses import dataclass

from trainers.tensors.batch import Batch


@dataclass(frozen=True)
class Distribution:
    """A set of inputs that is evaluated separately: its name, its lengths, and its trained lengths.

    Metrics of a task's first distribution are recorded by their plain names, metrics of the others as <metric>.<name>.
    """

    name: str
    lengths: tuple[int, ...]
    trained_lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class EvaluationBatch:
    """Rows that measure some lengths of a distribution; "" names the first distribution of the task."""

    batch: Batch
    lengths: tuple[int, ...]
    distribution: str = ""
