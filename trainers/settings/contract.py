"""What a registered class must have, read off the base of its kind, so that what is missing is named before a run."""

from collections.abc import Iterator
from dataclasses import fields
from difflib import get_close_matches
from inspect import Parameter, getattr_static, isfunction, isroutine, signature
from typing import Any

HANDED_ON = {("model", "dropout")}  # member hyperparameters that reach the code as tensors, beside those of averages
COLUMNS = (int, float)  # types of a member hyperparameter of an average: it becomes a column of numbers


def missing(kind: str, cls: type[Any], base: type[Any], hints: dict[str, Any]) -> Iterator[str]:
    """What keeps `cls` from being of its kind, one sentence each; `base` is the kind's, `hints` are types by field."""
    yield from _of_members(kind, cls, hints)
    if not issubclass(cls, base):
        yield f"{cls.__name__} does not derive from {base.__module__}.{base.__name__}"
        return
    declared = {item.name for item in fields(cls)}
    for item in fields(cls):
        if "bounds" not in item.metadata:
            yield f"{cls.__name__}.{item.name} is declared without setting(...): it would be no option of the YAML file"
    yield from _misspelt(cls, base)
    if kind == "model" and any(item.name == "dropout" and not _is_rate(item) for item in fields(cls)):
        yield (
            f"{cls.__name__}.dropout is not declared with trainers.models.dropout.dropout_rate(): it would not reach "
            "the model as its members have it"
        )
    for name in dir(base):
        if name.startswith("_") or name in declared:
            continue
        meant, found_here = getattr_static(base, name), getattr_static(cls, name)
        if getattr(found_here, "__isabstractmethod__", False):
            what = "" if isinstance(meant, property) else "method "
            yield f"{cls.__name__} has no {what}{name}"
        elif not isroutine(meant) and isroutine(found_here):
            yield f"{cls.__name__}.{name} is a method; write @property above it"
        elif isroutine(meant) and not isroutine(found_here):
            yield f"{cls.__name__}.{name} is not a method"
        elif isroutine(meant) and found_here is not meant and (said := _taken_otherwise(meant, found_here)):
            yield f"{cls.__name__}.{name} {said}"


def _of_members(kind: str, cls: type[Any], hints: dict[str, Any]) -> Iterator[str]:
    for item in fields(cls):
        if not item.metadata.get("member") or (kind, item.name) in HANDED_ON:
            continue
        if kind != "average":
            yield (
                f"{cls.__name__}.{item.name} is declared with member=True, and nothing hands a {kind} its members' "
                "values: the first one's would count for all of a pack"
            )
        elif hints[item.name] not in COLUMNS:
            yield f"{cls.__name__}.{item.name} is declared with member=True, and only whole or real numbers can be"


def _taken_otherwise(meant: Any, found: Any) -> str | None:
    """What is wrong with the arguments of a method, if it cannot be called as that of the base is."""
    if isinstance(meant, classmethod | staticmethod) or isinstance(found, classmethod | staticmethod):
        return None
    wanted, named = (list(signature(method).parameters.values()) for method in (meant, found))
    taken = [one for one in named if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in taken if one.default is Parameter.empty]
    by_name = [one for one in named if one.kind is Parameter.KEYWORD_ONLY and one.default is Parameter.empty]
    enough = len(wanted) <= len(taken) or any(one.kind is Parameter.VAR_POSITIONAL for one in named)
    if not by_name and len(needed) <= len(wanted) and enough:
        return None
    given, mine = (", ".join(one.name for one in some[1:]) for some in (wanted, named))
    if by_name:
        return f"takes {', '.join(one.name for one in by_name)} by name alone, and it is called with ({given}) in order"
    return f"takes ({mine}), and it is called with ({given})"


def _misspelt(cls: type[Any], base: type[Any]) -> Iterator[str]:
    """Methods that nothing calls and that are nearly called as one of the base is."""
    known = {name for name in dir(base) if not name.startswith("_")}
    methods = {name: value for name, value in vars(cls).items() if isfunction(value)}
    called = {name for value in methods.values() for name in value.__code__.co_names}
    for name in methods:
        close = get_close_matches(name, known, 1, 0.85)
        if close and not name.startswith("_") and name not in known | called:
            yield f"{cls.__name__}.{name} is called by nothing; did you mean {close[0]}?"


def _is_rate(item: Any) -> bool:
    """Whether a field is one whose values reach a model, and which packs have zero and not zero apart."""
    return bool(item.metadata.get("member")) and item.metadata.get("variant") is not None
