"""What a registered class must have, read off the base class of its kind, so that faults are named before a run."""

from collections.abc import Iterator
from dataclasses import Field, fields
from inspect import Parameter, Signature, getattr_static, isroutine, signature
from typing import Any

HANDED_ON = {("model", "dropout")}  # member hyperparameters that reach the code as tensors, beside those of averages
_DRAWING = ("draw_rows", "sample", "evaluation_batches")  # the first is needed unless the others are overridden
COLUMNS = (int, float)  # types of a member hyperparameter of an average: it becomes a column of numbers


def missing(kind: str, cls: type[Any], base: type[Any], hints: dict[str, Any]) -> Iterator[str]:
    """Yield what keeps `cls` from being of its kind, a sentence each; `hints` are the types of its fields."""
    if not issubclass(cls, base):
        yield f"{cls.__name__} does not derive from {base.__module__}.{base.__name__}"
        return
    for item in fields(cls):
        if problem := _field_problem(kind, item, hints[item.name]):
            yield f"{cls.__name__}.{item.name} {problem}"
    declared = {item.name for item in fields(cls)}
    for name in dir(base):
        if name.startswith("_") or name in declared:
            continue
        meant, own = getattr_static(base, name), getattr_static(cls, name)
        if getattr(own, "__isabstractmethod__", False):
            yield f"{cls.__name__} has no {'method ' if isroutine(meant) else ''}{name}"
        elif own is not meant and (problem := _override_problem(meant, own)):
            yield f"{cls.__name__}.{name} {problem}"
    if kind == "task":
        own = {name for name in _DRAWING if getattr_static(cls, name) is not getattr_static(base, name)}
        if not own & {"draw_rows"} and len(own) < 2:
            yield f"{cls.__name__} has no method draw_rows; allowed: draw_rows, or both sample and evaluation_batches"


def _field_problem(kind: str, item: Field[Any], type_hint: Any) -> str | None:
    """Return why a field would be no option of the YAML file, or would not reach the code with its members' values."""
    if "bounds" not in item.metadata:
        return "is declared without setting(...): it would be no option of the YAML file"
    is_member = bool(item.metadata.get("member"))
    if (kind, item.name) in HANDED_ON:
        if is_member and item.metadata.get("variant") is not None:
            return None
        return f"is not declared with trainers.models.{item.name}.{item.name}_rate(): it would not reach the {kind}"
    if is_member and kind != "average":
        return f"is declared with member=True, but a {kind} has one value for a whole pack; declare it without"
    if is_member and type_hint not in COLUMNS:
        return "is declared with member=True, which only integers and real numbers can be"
    return None


def _override_problem(meant: Any, own: Any) -> str | None:
    """Return what is wrong with an attribute that overrides one of the base, if anything."""
    if isroutine(meant) != isroutine(own):
        return "is not a method" if isroutine(meant) else "is a method; write @property above it"
    if not isroutine(meant) or isinstance(meant, classmethod | staticmethod):
        return None
    call = signature(meant)
    try:
        signature(own).bind(*call.parameters)
    except TypeError:
        return f"takes {_names(signature(own))}, and it is called with {_names(call)}"
    return None


def _names(of_method: Signature) -> str:
    """Return the names of the arguments without self, as in a call."""
    empty = Parameter.empty
    bare = [one.replace(annotation=empty, default=empty) for one in [*of_method.parameters.values()][1:]]
    return str(Signature(bare))
