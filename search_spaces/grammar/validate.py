"""Validate plain data as a SweepSpec, and report pydantic's errors in the terms of sweep files.

A file with problems still becomes a specification, with defaults or placeholders for invalid values, so that the rest
of the file is checked in the same run.
"""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from search_spaces.grammar.domains import suggest_number
from search_spaces.grammar.problems import Findings, find_nearest_name, join_key_path
from search_spaces.grammar.sections import SECTIONS, list_dotted_keys
from search_spaces.grammar.spec import SweepSpec

_PLACEHOLDERS: dict[str, Any] = {
    **{"name": "unnamed", "study": "unnamed", "task": {}, "model": {}, "training": {}, "seeds": 1},
    "objective": {"metric": "unnamed", "average": "unnamed", "lengths": [1], "direction": "minimize"},
}
"""Placeholders for missing or invalid values without a default. They are marked as doubtful and never checked."""


def build_spec(data: dict[str, Any], findings: Findings) -> tuple[SweepSpec, list[str]]:
    """Return the specification in `data` and the key paths of replaced values; record problems."""
    try:
        return SweepSpec.model_validate(data), []
    except ValidationError as error:
        errors = error.errors(include_url=False)

    # With the invalid values replaced, the rest of the file can be checked in the same run.
    misspelt = add_errors(errors, data, findings, SweepSpec)
    replaced = [_replace_value(data, error["loc"]) for error in errors]
    missing = [str(loc[0]) for loc in misspelt if len(loc) == 1 and loc[0] and not data.get(str(loc[0]))]
    return SweepSpec.model_validate(data), [*replaced, *missing]


def add_errors(
    errors: Sequence[ErrorDetails], data: dict[str, Any], findings: Findings, section_class: type[BaseModel]
) -> set[tuple[int | str | None, ...]]:
    """Record pydantic's errors about the data of a section; return the locations of keys that were misspelt.

    A missing key is not reported if an unknown key probably misspells it.
    """
    # A misspelt key gives two errors, an unknown and a missing key: only the unknown one is worth reading.
    unknown = [error for error in errors if error["type"] == "extra_forbidden"]
    if section_class is SweepSpec:
        unknown = [error for error in unknown if not _find_dotted_key(error, data)]
    misspelt = {(*error["loc"][:-1], _find_nearest_key(error, section_class)) for error in unknown}
    for error in errors:
        if error["type"] != "missing" or error["loc"] not in misspelt:
            _translate_error(error, data, findings, section_class)
    return misspelt


def _replace_value(data: dict[str, Any], location: tuple[int | str, ...]) -> str:
    """Replace an invalid value by a placeholder, or remove it if its key has a default; return its key path."""
    # Only the innermost section is replaced, so that the valid keys beside it are kept.
    section_class: type[BaseModel] = SweepSpec
    placeholders = _PLACEHOLDERS
    key_path = ""
    for depth, key in enumerate(map(str, location), 1):
        key_path = join_key_path(key_path, key)
        inner_class = section_class.model_fields[key].annotation if key in section_class.model_fields else None
        if depth == len(location) or not isinstance(inner_class, type) or not issubclass(inner_class, BaseModel):
            data.pop(key, None)
            data |= {key: placeholders[key]} if key in placeholders else {}
            break
        data[key] = dict(data[key])
        data = data[key]
        section_class = inner_class
        placeholders = placeholders.get(key, {})
    return key_path


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
_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def _translate_error(
    details: ErrorDetails, data: dict[str, Any], findings: Findings, section_class: type[BaseModel]
) -> None:
    """Record an error of pydantic about a section as a problem in the terms of the file."""
    # Keys that are missing or unknown.
    key_path = ""
    for part in details["loc"]:
        key_path = join_key_path(key_path, part)
    given = details["input"]
    context = details.get("ctx", {})
    error_type = details["type"]
    if error_type == "missing":
        allowed = "task and model, or program for a script of your own" if key_path in ("task", "model") else None
        findings.add(key_path, "is missing", allowed=allowed)
    elif error_type == "extra_forbidden" and findings.has_anchor(key_path):
        return  # its anchor is reported already
    elif error_type == "extra_forbidden":
        allowed = ", ".join(_list_fields(details["loc"], section_class))
        nearest = (_find_dotted_key(details, data) if section_class is SweepSpec else None) or _find_nearest_key(
            details, section_class
        )
        findings.add(key_path, "unknown key", allowed=allowed, nearest=nearest)

    # Values that are invalid; pydantic gives the options of a literal only as a sentence.
    elif error_type == "literal_error":
        names = [option.strip("'") for option in context["expected"].replace(" or ", ", ").split(", ")]
        findings.add(key_path, "is not allowed", given=given, names=names)
    elif error_type == "lengthwise":
        findings.add(key_path, context["message"], given=given, allowed=context["allowed"], nearest=context["nearest"])
    elif error_type in _BOUNDS:
        findings.add(key_path, "is out of bounds", given=given, allowed=_BOUNDS[error_type].format(**context))
    elif error_type in _MESSAGES:
        findings.add(key_path, _MESSAGES[error_type], given=given, nearest=_suggest_value(error_type, given))
    else:
        findings.add(key_path, details["msg"], given=given)


def _suggest_value(error_type: str, given: Any) -> str | None:
    """Return the YAML text of the flag or number that was probably meant by a value of another type, else None."""
    if error_type == "bool_type" and isinstance(given, str):
        return _BOOLEANS.get(given.casefold())
    return suggest_number(given, whole=error_type == "int_type") if error_type in ("int_type", "float_type") else None


def _find_nearest_key(unknown: ErrorDetails, section_class: type[BaseModel]) -> str | None:
    """Return the valid key that an unknown key probably misspells."""
    return find_nearest_name(str(unknown["loc"][-1]), _list_fields(unknown["loc"], section_class))


def _find_dotted_key(unknown: ErrorDetails, data: dict[str, Any]) -> str | None:
    """Return the dotted key that ends with an unknown top-level key: steps -> training.steps.

    Or with the only key inside it, and either may be initials: optimizer.lr -> training.learning_rate. None if it may
    be a misspelt top-level key, such as seed (seeds).
    """
    name = str(unknown["loc"][-1])
    if len(unknown["loc"]) > 1 or find_nearest_name(name, _list_fields(unknown["loc"]), cutoff=0.85):
        return None

    # Keys of the file come first: task and model have keys that no class of the grammar declares.
    file_keys = list_dotted_keys(
        {section: data[section] for section in SECTIONS if isinstance(data.get(section), dict)}
    )
    annotations = {key: field.annotation for key, field in SweepSpec.model_fields.items()}
    declared_keys = (
        f"{section}.{key}"
        for section, annotation in annotations.items()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel)
        for key in annotation.model_fields
    )
    last_parts = {key: key.rpartition(".")[2] for key in (*file_keys, *declared_keys) if "." in key}

    # Many sections have a `name`, so it tells nothing about the section that was meant.
    given = unknown["input"]
    inner = next(iter(given)) if isinstance(given, dict) and len(given) == 1 and "name" not in given else name
    for wanted in (name, inner):
        for key, last_part in last_parts.items():
            initials = "".join(word[:1] for word in last_part.split("_"))
            if wanted == last_part or (wanted == initials and "_" in last_part):
                return key
    return None


def _list_fields(location: tuple[int | str, ...], section_class: type[BaseModel] = SweepSpec) -> Sequence[str]:
    """Return the valid keys at a location of a section, which may have sections in lists and mappings."""
    for part in location[:-1]:
        if part not in section_class.model_fields:
            continue
        if inner_classes := _find_section_classes(section_class.model_fields[str(part)].annotation):
            section_class = inner_classes[0]
    return tuple(section_class.model_fields)


def _find_section_classes(annotation: Any) -> list[type[BaseModel]]:
    """Return the classes of sections in a type: [Arm] for dict[str, Arm]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [cls for part in get_args(annotation) for cls in _find_section_classes(part)]
