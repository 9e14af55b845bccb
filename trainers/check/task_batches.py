"""Checks of a task without a model: its declarations, its draws, and the shapes of its batches."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from trainers.check.small_members import ROWS
from trainers.errors import locate_method
from trainers.packs.batches import are_equal_batches
from trainers.random import Stream
from trainers.tasks.supervised import IGNORED, make_loss_mask
from trainers.tasks.task import EvaluationBatch, Task
from trainers.tensors.batch import Batch


def find_declaration_problems(task: Task) -> Iterator[str]:
    """Yield contradictions between the declarations of a task."""
    # A headline metric that no batch computes would be an empty chart.
    if unknown := set(task.headline) - set(task.metrics):
        yield f"headline: unknown metrics {', '.join(sorted(unknown))}; allowed: {', '.join(task.metrics)}"
    if task.samples_answers and task.passes <= 1:
        yield f"passes is {task.passes:g}, but sample_answers generates texts; allowed: more than 1"

    # A trained length that is not evaluated has no curve, and a stage must be a length that training can draw.
    if mismatched := set(task.trained_lengths) - set(task.lengths):
        yield f"trained_lengths: {sorted(mismatched)} are not among `lengths`"
    lengths = {length for distribution in task.distributions for length in distribution.lengths}
    if mismatched := lengths ^ set(task.lengths):
        yield f"lengths: {sorted(mismatched)} are either in `lengths` or in a distribution; allowed: in both"
    if mismatched := set(task.stages) - set(task.distributions[0].trained_lengths):
        yield f"stages: {sorted(mismatched)} are not among the trained lengths"

    # Metrics of a distribution are recorded under its name, so a repeated name would overwrite them.
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


def find_type_problems(task: Task, evaluation_batches: Iterable[object]) -> Iterator[str]:
    """Yield a problem of the first batch that is no Batch, or has a field that is no tensor.

    Other checks and the engine rely on these types, so their errors would not name the wrong value.
    """
    sampled = task.sample(Stream(torch.tensor([3, 5]), "data", torch.tensor(1)), ROWS)
    training_batches = sampled if isinstance(sampled, (tuple, list)) else (sampled,)
    test_batches = [
        evaluation_batch.batch if isinstance(evaluation_batch, EvaluationBatch) else evaluation_batch
        for evaluation_batch in evaluation_batches
    ]
    training_method, test_method = _get_batch_methods(task)
    for kind, batches, method in (
        ("training", training_batches, training_method),
        ("test", test_batches, test_method),
    ):
        for problem in filter(None, map(_find_type_problem, batches)):
            yield f"{kind} batches {problem}{locate_method(method)}"
            return


def _find_type_problem(batch: object) -> str | None:
    """Return which value of a batch has a wrong type, and which types are allowed; None if all are right."""
    if not isinstance(batch, Batch):
        return f"are of type {_name_type(batch)}; allowed: Batch"
    for batch_field in fields(Batch):
        value = getattr(batch, batch_field.name)
        is_required = batch_field.name in ("tokens", "targets")
        if not isinstance(value, Tensor) and (is_required or value is not None):
            allowed = "a tensor" if is_required else "a tensor, or None"
            return f"have {batch_field.name} of type {_name_type(value)}; allowed: {allowed}"
    return None


def _name_type(value: object) -> str:
    """Return the name of a value's type, such as "None", "list" or "torch.return_types.cummax"."""
    if value is None:
        return "None"
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"


def _get_batch_methods(task: Task) -> tuple[Callable[..., object], Callable[..., object]]:
    """Return the methods that make a task's training batches and its test batches."""
    training_method = task.draw_rows if type(task).sample is Task.sample else task.sample
    has_own_tests = type(task).evaluation_batches is not Task.evaluation_batches
    return training_method, task.evaluation_batches if has_own_tests else task.draw_rows


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
        yield "the batch differs between two calls with the same stream; draw every random number from the stream"
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
    # The extremes below do not exist for empty tensors.
    if any(0 in batch.tokens.shape for batch in batches):
        yield f"{kind} batches have no rows or no tokens"
        return
    if any(int(batch.tokens.max()) >= task.inputs or int(batch.tokens.min()) < 0 for batch in batches):
        yield f"{kind} tokens are not in 0..{task.inputs - 1}; `inputs` is {task.inputs}"
    if (widest := max((batch.tokens.shape[2] for batch in batches), default=0)) > task.positions:
        yield f"{kind} rows have up to {widest} tokens, but `positions` is {task.positions}"

    # A length outside of its row has no answer to score; models may ignore groups that the task does not declare.
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


def find_target_problems(
    task: Task, training_batches: Iterable[Batch], test_batches: Iterable[Batch], include_own: bool = False
) -> Iterator[str]:
    """Yield a problem of the first batch whose targets, weights or other tensors do not fit its tokens.

    Targets that only the task's own loss or scores read may have any form, unless `include_own` is set.
    """
    has_own_loss = task.has_own_loss and not include_own
    has_own_scores = (type(task).score_batch is not Task.score_batch and not include_own) or (
        type(task).score_rows is not Task.score_rows and has_own_loss
    )
    training_method, test_method = _get_batch_methods(task)
    for kind, batches, any_targets, method in (
        ("training", training_batches, has_own_loss, training_method),
        ("test", test_batches, has_own_scores, test_method),
    ):
        for batch in batches:
            problem = _find_batch_problem(batch, task.outputs, any_targets)
            if problem:
                yield f"{kind} {problem}{locate_method(method)}"
                return


def _find_batch_problem(batch: Batch, outputs: int, any_targets: bool) -> str | None:
    """Return the problem of the first tensor of a wrong shape, else of the values of the targets, else None."""
    tokens = tuple(batch.tokens.shape)
    distributions = (*tokens, outputs)
    for name, tensor in vars(batch).items():
        if not isinstance(tensor, Tensor) or name == "lengths":
            continue
        shape = tuple(tensor.shape)
        if name == "targets" and not any_targets:
            is_valid = shape in (tokens, distributions)
            allowed = f"{tokens}, or {distributions}, a distribution over the outputs at each position"
        elif name in ("ids", "groups", "weight"):
            forms = [tokens, (*tokens[:2], 1)] if name == "weight" else [tokens]  # the loss expands the weight of a row
            is_valid, allowed = shape in forms, " or ".join(map(str, forms))
        else:  # a row for each row of tokens of each seed
            is_valid, allowed = shape[:2] == tokens[:2], f"({tokens[0]}, {tokens[1]}, ...)"
        if not is_valid:
            return f"batches have {name} of shape {shape} for tokens of shape {tokens}; allowed: {allowed}"

    # Values that a loss would read as others, or not at all.
    targets = batch.targets
    if any_targets:
        return None
    if targets.dim() == len(distributions):
        return None if bool((targets >= 0).all()) else "targets are distributions with negative values or NaN"
    if targets.dtype != torch.int64:
        dtype = str(targets.dtype).removeprefix("torch.")
        return f"targets of shape {tokens} are {dtype}; allowed: int64, or distributions of shape {distributions}"
    counted = torch.where(make_loss_mask(batch), targets, targets.clamp(min=0))
    if int(counted.min()) < 0 or int(counted.max()) >= outputs:
        return f"targets are not in 0..{outputs - 1}, or {IGNORED} for no target; `outputs` is {outputs}"
    return None
