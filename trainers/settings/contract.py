"""Checks of a registered class against the base class of its kind, made before a run."""

from collections.abc import Iterator
from dataclasses import Field, fields
from inspect import Parameter, Signature, getattr_static, isroutine, signature
from typing import Any

MEMBER_FIELDS = {("model", "dropout")}  # member hyperparameters outside of averages, optimizers and losses
NUMBER_TYPES = (int, float)  # types of member hyperparameters, whose values become a tensor
_DRAW_METHODS = ("draw_rows", "sample", "evaluation_batches")  # a task needs the first, or both others


def find_contract_problems(kind: str, cls: type[Any], base: type[Any], hints: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each reason why `cls` is not a valid class of its kind; hints: types of its fields."""
    # Without the base class every other check would fail, too: report this reason alone.
    if not issubclass(cls, base):
        yield f"{cls.__name__} does not derive from {base.__module__}.{base.__name__}"
        return

    for field in fields(cls):
        if problem := _find_field_problem(kind, field, hints[field.name]):
            yield f"{cls.__name__}.{field.name} {problem}"

    # The engine calls every class as its base class declares it; a wrong signature would only fail during training.
    field_names = {field.name for field in fields(cls)}
    for name in dir(base):
        if name.startswith("_") or name in field_names or name in base.former_names:
            continue
        original = getattr_static(base, name)
        override = getattr_static(cls, name)
        if getattr(override, "__isabstractmethod__", False):
            yield f"{cls.__name__} has no {'method ' if isroutine(original) else ''}{name}"
        elif override is not original and (problem := _find_override_problem(original, override)):
            yield f"{cls.__name__}.{name} {problem}"

    # `draw_rows` is not abstract, because `sample` and `evaluation_batches` together replace it.
    if kind == "task":
        overridden = {name for name in _DRAW_METHODS if getattr_static(cls, name) is not getattr_static(base, name)}
        if "draw_rows" not in overridden and len(overridden) < 2:
            yield f"{cls.__name__} has no method draw_rows; allowed: draw_rows, or both sample and evaluation_batches"


def _find_field_problem(kind: str, field: Field[Any], type_hint: Any) -> str | None:
    """Return why a field cannot be an option or a member hyperparameter; None if it is valid."""
    if "bounds" not in field.metadata:
        return "is declared without setting(...), so it is not an option of the YAML file"

    # A dropout rate must have the variant "is zero", which only `dropout_rate` declares.
    is_member = bool(field.metadata.get("member"))
    if (kind, field.name) in MEMBER_FIELDS:
        if is_member and field.metadata.get("variant") is not None:
            return None
        function = f"trainers.models.{field.name}.{field.name}_rate()"
        return f"is not declared with {function}, so it would not reach the {kind}"

    # Only averages, optimizers and losses receive a tensor with the value of every member.
    if is_member and kind not in ("average", "optimizer", "loss"):
        return f"is declared with member=True, but a {kind} has one value for the whole pack; remove member=True"
    if is_member and type_hint not in NUMBER_TYPES:
        return "is declared with member=True, which is only allowed for int and float fields"
    return None


def _find_override_problem(original: Any, override: Any) -> str | None:
    """Return why an attribute cannot override the original attribute of the base class, None if it can."""
    # The engine would call a property that replaces a method, and never call a method that replaces a property.
    if isroutine(original) != isroutine(override):
        return "is not a method" if isroutine(original) else "is a method; write @property above it"
    if not isroutine(original) or isinstance(original, classmethod | staticmethod):
        return None

    # If the parameters of the base method can be bound, its callers can call the override.
    expected = signature(original)
    try:
        signature(override).bind(*expected.parameters)
    except TypeError:
        return f"takes {_list_arguments(signature(override))}, but is called with {_list_arguments(expected)}"
    return None


def _list_arguments(method: Signature) -> str:
    """Return the names of a method's arguments, without self, as text in parentheses."""
    empty = Parameter.empty
    unannotated = [
        parameter.replace(annotation=empty, default=empty) for parameter in [*method.parameters.values()][1:]
    ]
    return str(Signature(unannotated))
