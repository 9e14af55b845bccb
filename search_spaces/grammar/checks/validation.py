"""From plain data to a SweepSpec: what pydantic finds is said in the words of sweep files, and mended where it can be.

A file with problems still gives a spec, in which defaults and stand-ins have the place of what is wrong, so that the
rest of it can be looked at in the same round.
"""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from search_spaces.grammar.problems.errors import nearest_name
from search_spaces.grammar.problems.findings import SECTIONS, Findings, child, leaves
from search_spaces.grammar.spec.spec import SweepSpec

_STAND_INS: dict[str, Any] = {
    **{"name": "unnamed", "study": "unnamed", "task": {}, "model": {}, "training": {}, "seeds": 1},
    "objective": {"metric": "unnamed", "average": "unnamed", "lengths": [1], "direction": "minimize"},
}
"""What is put where a value without a default is missing or wrong. What it says is in doubt and never looked at."""


def build(data: dict[str, Any], findings: Findings) -> tuple[SweepSpec, list[str]]:
    """The spec of `data`, problems recorded, and the addresses at which it does not say what was written."""
    try:
        return SweepSpec.model_validate(data), []
    except ValidationError as error:
        faults = error.errors(include_url=False)
    misspelt = report(faults, data, findings, SweepSpec)
    mended = [_mend(data, fault["loc"]) for fault in faults]
    meant = [str(loc[0]) for loc in misspelt if len(loc) == 1 and loc[0] and not data.get(str(loc[0]))]
    return SweepSpec.model_validate(data), [*mended, *meant]


def report(
    faults: Sequence[ErrorDetails], data: dict[str, Any], findings: Findings, model: type[BaseModel]
) -> set[tuple[int | str | None, ...]]:
    """Record what pydantic found wrong with the data of a model; returns the addresses that misspelt keys mean.

    A key that is missing where a misspelt one means it is no problem of its own.
    """
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    if model is SweepSpec:
        unknown = [fault for fault in unknown if not _section_key(fault, data)]
    misspelt = {(*fault["loc"][:-1], _meant_key(fault, model)) for fault in unknown}
    for fault in faults:
        if fault["type"] != "missing" or fault["loc"] not in misspelt:
            _translate(fault, data, findings, model)
    return misspelt


def _mend(data: dict[str, Any], location: tuple[int | str, ...]) -> str:
    """Put a stand-in in the place of one fault, or nothing where there is a default; its address."""
    model: type[BaseModel] = SweepSpec
    stand_ins, address = _STAND_INS, ""
    for depth, step in enumerate(map(str, location), 1):
        address = child(address, step)
        inner = model.model_fields[step].annotation if step in model.model_fields else None
        if depth == len(location) or not isinstance(inner, type) or not issubclass(inner, BaseModel):
            data.pop(step, None)
            data |= {step: stand_ins[step]} if step in stand_ins else {}
            break
        data[step] = dict(data[step])
        data, model, stand_ins = data[step], inner, stand_ins.get(step, {})
    return address


_MESSAGES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "too_long": "has too many entries",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
}
_BOUNDS = {"greater_than": "above {gt}", "greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}"}
_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def _translate(details: ErrorDetails, data: dict[str, Any], findings: Findings, model: type[BaseModel]) -> None:
    """Record one error of pydantic about `model` as a problem in the words of the file."""
    address = ""
    for step in details["loc"]:
        address = child(address, step)
    given, context, kind = details["input"], details.get("ctx", {}), details["type"]
    if kind == "missing":
        findings.add(address, "is missing")
    elif kind == "extra_forbidden" and findings.referred(address):
        return  # that it is there to be referred to is a problem already
    elif kind == "extra_forbidden":
        allowed = ", ".join(_fields_above(details["loc"], model))
        nearest = (_section_key(details, data) if model is SweepSpec else None) or _meant_key(details, model)
        findings.add(address, "is not a key here", allowed=allowed, nearest=nearest)
    elif kind == "literal_error":
        names = [option.strip("'") for option in context["expected"].replace(" or ", ", ").split(", ")]
        findings.add(
            address, "is not allowed", given=given, allowed=", ".join(names), nearest=nearest_name(given, names)
        )
    elif kind == "lengthwise":
        findings.add(address, context["message"], given=given, allowed=context["allowed"])
    elif kind in _BOUNDS:
        findings.add(address, "is out of bounds", given=given, allowed=_BOUNDS[kind].format(**context))
    elif kind in _MESSAGES:
        findings.add(address, _MESSAGES[kind], given=given, nearest=_meant(kind, given))
    else:
        findings.add(address, details["msg"], given=given)


def _meant(kind: str, given: Any) -> str | None:
    if kind == "bool_type" and isinstance(given, str):
        return _BOOLEANS.get(given.casefold())
    if kind == "int_type" and isinstance(given, float) and given.is_integer():
        return str(int(given))
    if kind in ("int_type", "float_type") and isinstance(given, str):
        bare = given.replace("_", "").strip()
        return bare if bare.isascii() and bare.isdigit() else None
    return None


def _meant_key(unknown: ErrorDetails, model: type[BaseModel] = SweepSpec) -> str | None:
    return nearest_name(str(unknown["loc"][-1]), _fields_above(unknown["loc"], model))


def _section_key(unknown: ErrorDetails, data: dict[str, Any]) -> str | None:
    """The dotted key of which an unknown top-level key is the last part: steps -> training.steps.

    None where it may as well be a top-level key with one letter wrong, as seed is (seeds).
    """
    name = str(unknown["loc"][-1])
    if len(unknown["loc"]) > 1 or nearest_name(name, _fields_above(unknown["loc"]), cutoff=0.85):
        return None
    written = leaves({section: data[section] for section in SECTIONS if isinstance(data.get(section), dict)})
    models = {key: field.annotation for key, field in SweepSpec.model_fields.items()}
    typed = (
        f"{section}.{key}"
        for section, model in models.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for key in model.model_fields
    )
    return next((key for key in (*written, *typed) if "." in key and key.rpartition(".")[2] == name), None)


def _fields_above(location: tuple[int | str, ...], model: type[BaseModel] = SweepSpec) -> Sequence[str]:
    """The keys beside the one at a location, in a model that may hold models in lists and mappings."""
    for step in location[:-1]:
        if step in model.model_fields and (inner := _models_in(model.model_fields[str(step)].annotation)):
            model = inner[0]
    return tuple(model.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that a type is made of: those of dict[str, Arm] are [Arm]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
