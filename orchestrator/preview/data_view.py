"""Show the first inputs that a sweep trains on, as text."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from orchestrator.engine.engine import Engine
from orchestrator.plan import optuna_draws
from orchestrator.plan.checks.sweep_file_checks import build_configurations, check_data
from orchestrator.text.wording import compact_value, format_lengths, join_with_and
from orchestrator.trainer_choice import refuse_program
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig
from trainers.random import Stream
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch

ANNOTATIONS = {"ids": "position ids", "groups": "groups", "weight": "weights"}  # titles of optional values of tokens
Example = tuple[list[str], ...]  # tokens, targets, and the values of `list_annotations`


def describe_data(spec: SweepSpec, count: int) -> list[str]:
    """Return lines on the first configuration and seed, with the first `count` training inputs.

    Raises UserError for a program, SweepFileError if the configuration cannot be built.
    """
    refuse_program(spec.sections, "data")

    # Building one configuration is quick; building all of a large sweep is not.
    first = optuna_draws.draw_sample(spec, 1)[0]
    built = build_configurations(spec, [(first.number, first.values)])
    check_data(spec, built)
    member, configuration_count = built[0].build_member(spec.seeds[0]), optuna_draws.count_configurations(spec)

    # Another configuration may train on other inputs, so the title names this one.
    title = f"configuration 0 of {configuration_count}" if configuration_count > 1 else "its only configuration"
    if first.values:
        title += f" ({', '.join(f'{key} {compact_value(value)}' for key, value in first.values.items())})"
    return [
        f"{spec.name}: task {member.task.name}, {title}, seed {member.seed}",
        f"trained on {format_lengths(member.task.trained_lengths)}, "
        f"evaluated at {Engine.list_measurements(member).describe_lengths()}",
        "",
        *format_examples(read_examples(member, count), list_annotations(member)),
    ]


def read_examples(member: MemberConfig, count: int) -> list[Example]:
    """Return the first `count` training inputs with their targets and annotations; a single one if all are equal."""
    # A step may have fewer rows than `count`.
    examples: list[Example] = []
    rows = member.training.batch_size
    for step in range(1, -(-count // rows) + 1):
        inputs = ((batch, row) for batch in _draw_batches(member, step) for row in range(batch.tokens.shape[1]))
        examples += [_format_example(member.task, *pair) for pair in itertools.islice(inputs, count - len(examples))]
    return examples[:1] if all(example == examples[0] for example in examples) else examples


def list_annotations(member: MemberConfig) -> list[str]:
    """Return the names of the values that training tokens have in addition to targets."""
    batch = _draw_batches(member, 1)[0]
    return [title for name, title in ANNOTATIONS.items() if getattr(batch, name) is not None]


def format_examples(examples: Sequence[Example], annotations: Sequence[str] = ()) -> list[str]:
    """Return lines of tokens above their targets and annotations, in columns if all have equal numbers of words.

    Single characters are not separated by blanks.
    """
    rows_below = join_with_and(["their targets", *annotations])
    lines = [f"the first training inputs, above {rows_below}:", ""] if examples else []
    for rows in examples:
        # A target is printed below its token; tokens with blanks need a wider separator, single characters none.
        separator, widths = " ", [0] * max(map(len, rows))
        if len({len(words) for words in rows}) == 1:
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            has_several = any(" " in word for words in rows for word in words)
            separator = "  " if has_several else "" if max(widths) == 1 else " "
        lines += [separator.join(map(str.ljust, words, widths)).rstrip() for words in rows] + [""]
    return lines


def _format_example(task: Task, batch: Batch, row: int) -> Example:
    """Return a row of a batch as text: tokens, targets, annotations."""
    tokens, targets = task.format_row(batch, row)
    values: list[Any] = [getattr(batch, name) for name in ANNOTATIONS]
    rows = [value[0, row, : len(tokens)].tolist() for value in values if value is not None]
    return tokens, targets, *([f"{number:g}" for number in numbers] for numbers in rows)


def _draw_batches(member: MemberConfig, step: int) -> Sequence[Batch]:
    """Return the training batches of a step, as a sweep with this member draws them."""
    stream = Stream(torch.tensor([member.seed]), "data", torch.tensor(step))
    return member.task.training_batches(stream, member.training.batch_size)
