"""What a registered task or model must have, so that a forgotten member is named before anything runs."""

from collections.abc import Iterator
from dataclasses import fields
from inspect import isroutine
from typing import Any

VALUES = {
    "task": (
        *("inputs", "outputs", "positions", "train_positions", "trained_lengths", "lengths"),
        *("metrics", "headline", "compiles"),
    ),
    "model": ("random",),
}
METHODS = {
    "task": ("sample", "loss", "evaluation_batches", "score", "derived"),
    "model": ("task_problems", "form_used", "parameters", "operations", "logits", "diagnostics"),
}
HANDED_ON = {("model", "dropout")}  # member hyperparameters that reach the code as tensors, beside those of averages
OPTIONAL = {"model": ("maps",)}  # methods that need not be there


def missing(kind: str, cls: type) -> Iterator[str]:
    """What `cls` lacks of its kind, one sentence each: a member that is absent, or is no value, or no method."""
    declared = {item.name for item in fields(cls)}
    for item in fields(cls):
        if item.metadata.get("member") and kind != "average" and (kind, item.name) not in HANDED_ON:
            yield (
                f"{cls.__name__}.{item.name} is declared with member=True, and nothing hands a {kind} its members' "
                "values: the first one's would count for all of a pack"
            )
    for name in VALUES.get(kind, ()):
        found: Any = getattr(cls, name, None)
        if not hasattr(cls, name) and name not in declared:
            yield f"{cls.__name__} has no {name}"
        elif isroutine(found):
            yield f"{cls.__name__}.{name} is a method; write @property above it"
    for name in METHODS.get(kind, ()):
        if not hasattr(cls, name):
            yield f"{cls.__name__} has no method {name}"
    for name in (*METHODS.get(kind, ()), *OPTIONAL.get(kind, ())):
        if not callable(getattr(cls, name, missing)):
            yield f"{cls.__name__}.{name} is not a method"
