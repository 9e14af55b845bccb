"""Validation of plain data as a SweepSpec, with pydantic's errors translated into the terms of sweep files.

A file with problems still gives a spec, with defaults or placeholders instead of wrong values, so that the rest of the
file is checked in the same run.
"""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from search_spaces.grammar.problems.errors import nearest_name
from search_spaces.grammar.problems.findings import SECTIONS, Findings, child, dotted_keys
from search_spaces.grammar.space.domains import meant_number
from search_spaces.grammar.spec.spec import SweepSpec

_PLACEHOLDERS: dict[str, Any] = {
    **{"name": "unnamed", "study": "unnamed", "task": {}, "model": {}, "training": {}, "seeds": 1},
    "objective": {"metric": "unnamed", "average": "unnamed", "lengths": [1], "direction": "minimize"},
}
"""Placeholders for missing or wrong values without a default. They are marked as doubtful and never checked."""


def build_spec(data: dict[str, Any], findings: Findings) -> tuple[SweepSpec, list[str]]:
    """Build the spec of `data` and record problems; return it and the addresses of replaced values."""
    try:
        return SweepSpec.model_validate(data), []
    except ValidationError as error:
        faults = error.errors(include_url=False)
    misspelt = report_faults(faults, data, findings, SweepSpec)
    replaced = [_substitute(data, fault["loc"]) for fault in faults]
    meant = [str(loc[0]) for loc in misspelt if len(loc) == 1 and loc[0] and not data.get(str(loc[0]))]
    return SweepSpec.model_validate(data), [*replaced, *meant]


def report_faults(
    faults: Sequence[ErrorDetails], data: dict[str, Any], findings: Findings, model: type[BaseModel]
) -> set[tuple[int | str | None, ...]]:
    """Record pydantic's errors about the data of a model; return the locations of the keys meant by misspelt ones.

    A missing key is not reported if a misspelt key probably means it.
    """
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    if model is SweepSpec:
        unknown = [fault for fault in unknown if not _section_key(fault, data)]
    misspelt = {(*fault["loc"][:-1], _meant_key(fault, model)) for fault in unknown}
    for fault in faults:
        if fault["type"] != "missing" or fault["loc"] not in misspelt:
            _translate(fault, data, findings, model)
    return misspelt


def _substitute(data: dict[str, Any], location: tuple[int | str, ...]) -> str:
    """Replace one wrong value by a placeholder, or remove it if it has a default; return its address."""
    model: type[BaseModel] = SweepSpec
    placeholders, address = _PLACEHOLDERS, ""
    for depth, step in enumerate(map(str, location), 1):
        address = child(address, step)
        inner = model.model_fields[step].annotation if step in model.model_fields else None
        if depth == len(location) or not isinstance(inner, type) or not issubclass(inner, BaseModel):
            data.pop(step, None)
            data |= {step: placeholders[step]} if step in placeholders else {}
            break
        data[step] = dict(data[step])
        data, model, placeholders = data[step], inner, placeholders.get(step, {})
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
_BOUNDS = {"greater_than": "above {gt}", "greater_than_equal": "at least {ge}"}
_BOUNDS |= {"less_than": "below {lt}", "less_than_equal": "at most {le}"}
_ELSEWHERE = {
    **dict.fromkeys(("parameters", "params", "search_space"), "space"),
    **dict.fromkeys(("n_trials", "num_samples", "run_cap", "count"), "search.configurations"),
    **{"method": "search.sampler", "algorithm": "search.sampler", "goal": "objective.direction"},
}
"""Top-level keys of other tools, and ours of the same meaning."""
_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def _translate(details: ErrorDetails, data: dict[str, Any], findings: Findings, model: type[BaseModel]) -> None:
    """Record one error of pydantic about `model` as a problem in the terms of the file."""
    address = ""
    for step in details["loc"]:
        address = child(address, step)
    given, context, kind = details["input"], details.get("ctx", {}), details["type"]
    if kind == "missing":
        findings.add(address, "is missing")
    elif kind == "extra_forbidden" and findings.holds_anchor(address):
        return  # it only holds an anchor, which is reported already
    elif kind == "extra_forbidden":
        allowed = ", ".join(_fields_above(details["loc"], model))
        nearest = (_section_key(details, data) if model is SweepSpec else None) or _meant_key(details, model)
        nearest = nearest or (_ELSEWHERE.get(address) if model is SweepSpec else None)
        findings.add(address, "is not a key here", allowed=allowed, nearest=nearest)
    elif kind == "literal_error":
        names = [option.strip("'") for option in context["expected"].replace(" or ", ", ").split(", ")]
        findings.add(
            address, "is not allowed", given=given, allowed=", ".join(names), nearest=nearest_name(given, names)
        )
    elif kind == "lengthwise":
        findings.add(address, context["message"], given=given, allowed=context["allowed"], nearest=context["nearest"])
    elif kind in _BOUNDS:
        findings.add(address, "is out of bounds", given=given, allowed=_BOUNDS[kind].format(**context))
    elif kind in _MESSAGES:
        findings.add(address, _MESSAGES[kind], given=given, nearest=_meant(kind, given))
    else:
        findings.add(address, details["msg"], given=given)


def _meant(kind: str, given: Any) -> str | None:
    if kind == "bool_type" and isinstance(given, str):
        return _BOOLEANS.get(given.casefold())
    return meant_number(given, whole=kind == "int_type") if kind in ("int_type", "float_type") else None


def _meant_key(unknown: ErrorDetails, model: type[BaseModel]) -> str | None:
    return nearest_name(str(unknown["loc"][-1]), _fields_above(unknown["loc"], model))


def _section_key(unknown: ErrorDetails, data: dict[str, Any]) -> str | None:
    """Return the dotted key that ends with an unknown top-level key: steps -> training.steps.

    None if it may be a misspelt top-level key, such as seed (seeds).
    """
    name = str(unknown["loc"][-1])
    if len(unknown["loc"]) > 1 or nearest_name(name, _fields_above(unknown["loc"]), cutoff=0.85):
        return None
    written = dotted_keys({section: data[section] for section in SECTIONS if isinstance(data.get(section), dict)})
    models = {key: field.annotation for key, field in SweepSpec.model_fields.items()}
    typed = (
        f"{section}.{key}"
        for section, model in models.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for key in model.model_fields
    )
    return next((key for key in (*written, *typed) if "." in key and key.rpartition(".")[2] == name), None)


def _fields_above(location: tuple[int | str, ...], model: type[BaseModel] = SweepSpec) -> Sequence[str]:
    """Return the valid keys at a location, in a model that may hold models in lists and mappings."""
    for step in location[:-1]:
        if step in model.model_fields and (inner := _models_in(model.model_fields[str(step)].annotation)):
            model = inner[0]
    return tuple(model.model_fields)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in a type: [Arm] for dict[str, Arm]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
