"""Checks of a task without a model: its declarations, its draws, and the shapes of its batches."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import unwrap

import torch
from torch import Tensor

from trainers.check.small_members import ROWS
from trainers.packs.batches import are_equal_batches
from trainers.random import Stream
from trainers.tasks.supervised import IGNORED
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.batch import Batch


def find_declaration_problems(task: Task) -> Iterator[str]:
    """Yield contradictions between the declarations of a task."""
    # Metrics and answers.
    if unknown := set(task.headline) - set(task.metrics):
        yield f"headline: {', '.join(sorted(unknown))} is not a metric; allowed: {', '.join(task.metrics)}"
    if task.samples_answers and task.passes <= 1:
        yield f"passes is {task.passes:g}, but sample_answers generates texts; allowed: more than 1"

    # Lengths of training, of distributions and of stages.
    if mismatched := set(task.trained_lengths) - set(task.lengths):
        yield f"trained_lengths: {sorted(mismatched)} are not among `lengths`"
    lengths = {length for distribution in task.distributions for length in distribution.lengths}
    if mismatched := lengths ^ set(task.lengths):
        yield f"lengths: {sorted(mismatched)} are either in `lengths` or in a distribution; allowed: in both"
    if mismatched := set(task.stages) - set(task.distributions[0].trained_lengths):
        yield f"stages: {sorted(mismatched)} are not among the trained lengths"

    # Names of distributions.
    names = [distribution.name for distribution in task.distributions]
    if len({*names}) < len(names):
        yield f"distributions: names repeat: {', '.join(map(repr, names))}"


def find_missing_lengths(
    task: Task, evaluation_batches: Sequence[EvaluationBatch], lengths: Sequence[int]
) -> Iterator[str]:
    """Yield a problem for each distribution with lengths that no evaluation batch measures."""
    first_name = task.distributions[0].name
    for distribution in task.distributions:
        measured_lengths = {
            length
            for evaluation_batch in evaluation_batches
            if (evaluation_batch.distribution or first_name) == distribution.name
            for length in evaluation_batch.lengths
        }
        if missing := {*lengths}.intersection(distribution.lengths) - measured_lengths:
            source = f" of {distribution.name!r}" if distribution.name else ""
            yield f"evaluation_batches does not measure lengths {sorted(missing)}{source}"


@dataclass(frozen=True)
class _RecordingStream(Stream):
    """A stream that records the site of every draw."""

    sites: list[int] = field(default_factory=list)

    def bits(self, site: int, shape: tuple[int, ...], rows: tuple[int, int] | None = None) -> Tensor:
        self.sites.append(site)
        return super().bits(site, shape, rows)


def find_draw_problems(task: Task, stages: Sequence[int] | None) -> Iterator[str]:
    """Yield problems of training batches that depend on more than the stream (and the stage) of a seed."""
    # Two draws at the same site are equal, which is easily overlooked.
    recording = _RecordingStream(torch.tensor([3]), "data", torch.tensor(1))
    task.training_batches(recording, ROWS, None if stages is None else torch.tensor(stages[:1]))
    for site, count in sorted(Counter(recording.sites).items()):
        if count > 1:
            yield (
                f"a training batch makes {count} draws at site {site}, which return the same numbers; allowed: a "
                "different site, the first argument, for each draw"
            )

    # A batch that depends on more than the stream of its seed would differ between packs and after a restart.
    two_seeds = draw_training_batches(task, [3, 5], stages)
    alone = draw_training_batches(task, [5], stages and stages[1:])
    if not are_equal_batches(two_seeds, draw_training_batches(task, [3, 5], stages)):
        yield "the same stream gives another batch in a second call; allowed: random numbers from the stream alone"
    if not are_equal_batches([batch.slice_seeds(1, 2) for batch in two_seeds], alone):
        yield f"the batch of a seed depends on the other seeds {'and stages ' if stages else ''}of the pack"

    if sum(batch.tokens.shape[1] for batch in two_seeds) != ROWS or any(len(batch.tokens) != 2 for batch in two_seeds):
        shapes = ", ".join(str(tuple(batch.tokens.shape)) for batch in two_seeds)
        method = "sample_staged" if stages else "draw_rows" if task.draws_rows else "sample"
        yield f"{method}: {ROWS} rows of 2 seeds have tokens of shape {shapes}; allowed: {ROWS} rows in all"


def draw_training_batches(task: Task, seeds: Sequence[int], stages: Sequence[int] | None = None) -> tuple[Batch, ...]:
    """Return the training batches of some seeds in the first step."""
    stream = Stream(torch.tensor(seeds), "data", torch.tensor(1))
    return task.training_batches(stream, ROWS, None if stages is None else torch.tensor(stages))


def find_row_problems(task: Task, kind: str, batches: Sequence[Batch]) -> Iterator[str]:
    """Yield problems of rows whose tokens, widths, lengths or groups contradict the task's declarations."""
    if any(int(batch.tokens.max()) >= task.inputs or int(batch.tokens.min()) < 0 for batch in batches):
        yield f"{kind} tokens are not in 0..{task.inputs - 1}; `inputs` is {task.inputs}"
    if (widest := max((batch.tokens.shape[2] for batch in batches), default=0)) > task.positions:
        yield f"{kind} rows have up to {widest} tokens, but `positions` is {task.positions}"

    # Lengths and groups.
    for batch in batches:
        rows = batch.tokens.shape[:2]
        width = batch.tokens.shape[2]
        lengths = batch.lengths
        if lengths is not None and lengths.shape != rows:
            yield f"{kind} batches have lengths of shape {tuple(lengths.shape)}; allowed: {tuple(rows)}"
        elif lengths is not None and (int(lengths.min()) < 1 or int(lengths.max()) > width):
            yield f"{kind} rows have lengths {int(lengths.min())}..{int(lengths.max())}; allowed: 1..{width}"
    if not task.has_groups and any(batch.groups is not None for batch in batches):
        yield f"{kind} rows have groups, but `has_groups` is false"


def find_target_problems(task: Task, batches: Iterable[Batch]) -> Iterator[str]:
    """Yield a problem for each batch whose targets do not have the shape that the default loss and metrics read."""
    for batch in batches:
        tokens, targets = tuple(batch.tokens.shape), tuple(batch.targets.shape)
        distributions = (*tokens, task.outputs)
        if targets not in (tokens, distributions):
            yield (
                f"targets of shape {targets} for tokens of shape {tokens}{_locate_rows(task)}; allowed: {tokens}, "
                f"with {IGNORED} at positions without a target, or {distributions}, a distribution at each position"
            )


def _locate_rows(task: Task) -> str:
    """Return the method of a task that makes its rows, as " (FILE:LINE, METHOD)"."""
    method = unwrap(type(task).draw_rows if task.draws_rows else type(task).sample)
    code = getattr(method, "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno}, {method.__name__})" if code else ""
