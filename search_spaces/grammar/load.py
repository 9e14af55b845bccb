"""load_sweep: from a YAML file and --set overrides to a SweepSpec, or to every problem at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from search_spaces.grammar.checks import check_across
from search_spaces.grammar.errors import ABSENT, nearest_name
from search_spaces.grammar.findings import SECTIONS, STEP, Findings, Place, child
from search_spaces.grammar.overrides import apply_override
from search_spaces.grammar.space import parse_space
from search_spaces.grammar.spec import SweepSpec
from search_spaces.grammar.strict_yaml import MAX_BYTES, read_yaml

UNCHECKED = "the names and values in task, model, training and evaluation are checked once this is mended"


def load_sweep(path: str | Path, overrides: Sequence[str] = (), name: str | None = None) -> SweepSpec:
    """Read and check a sweep file.

    `overrides` are `dotted.key=value` texts with the value in YAML, applied in order; `space.KEY=null` takes a key out
    of the space. `name` replaces the sweep's name. Raises SweepFileError with every problem found.
    """
    findings = Findings(str(path))
    text = _read_text(Path(path), findings)
    findings.raise_any()
    return _parse(text, findings, overrides, name)


def parse_sweep(text: str, source: str, overrides: Sequence[str] = (), name: str | None = None) -> SweepSpec:
    """Check the text of a sweep file that is in no file; `source` is what problems call it. Else as `load_sweep`."""
    return _parse(text, Findings(source), overrides, name)


def _parse(text: str, findings: Findings, overrides: Sequence[str], name: str | None) -> SweepSpec:
    data = read_yaml(text, findings)
    if not isinstance(data, dict):
        if data is None:
            findings.add("", "is empty; a sweep file is a mapping with name, study, task, model, training ...")
        elif data is not ABSENT:
            findings.add("", "must be a mapping of keys to values", given=data)
        findings.raise_any()
    overridden = [apply_override(text, data, findings) for text in overrides]
    if name is not None:
        data["name"] = name
        findings.relocate("name", {"name": Place("--name")})
    sections = {section: data.get(section, {}) for section in SECTIONS}
    for section, value in sections.items():
        _check_step_names(value, section, findings)
    space = parse_space(data.get("space", ABSENT), sections, findings)
    spec = _build({**data, "space": space}, findings)
    check_across(data, space, [key for key in overridden if key], findings)
    findings.raise_any(UNCHECKED)
    assert spec is not None
    spec._findings = findings
    return spec


def _read_text(path: Path, findings: Findings) -> str:
    here = Place(findings.source)
    try:
        if path.is_dir():
            findings.add("", "is a directory; give a sweep file", place=here)
        elif not path.exists():
            beside = sorted(path.parent.glob("*.yaml")) if path.parent.is_dir() else []
            nearest = nearest_name(path.name, [other.name for other in beside])
            findings.add("", "there is no such file", nearest=nearest and str(path.parent / nearest), place=here)
        elif not path.is_file():
            findings.add("", "is not a regular file", place=here)
        elif (size := path.stat().st_size) > MAX_BYTES:
            findings.add("", f"is {size} bytes large", allowed=f"at most {MAX_BYTES} bytes", place=here)
        else:
            return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        findings.add("", f"is not UTF-8: byte 0x{error.object[error.start]:02X}", place=Place(findings.source, line))
    except (OSError, ValueError) as error:
        findings.add("", f"cannot be read: {getattr(error, 'strerror', None) or error}", place=here)
    return ""


def _check_step_names(value: Any, address: str, findings: Findings) -> None:
    """Keys of the open sections take part in dotted keys, so they must not hold dots themselves."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_step_names(item, child(address, index), findings)
    if isinstance(value, dict):
        for key, item in value.items():
            if not STEP.fullmatch(key):
                said = "is not usable as a key: dots separate levels" if "." in key else "is not usable as a key"
                findings.add(child(address, key), said, given=key, allowed="letters, digits, '_' and '-'")
            _check_step_names(item, child(address, key), findings)


def _build(data: dict[str, Any], findings: Findings) -> SweepSpec | None:
    try:
        return SweepSpec.model_validate(data)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        misspelt = {(*fault["loc"][:-1], _meant_key(fault)) for fault in faults if fault["type"] == "extra_forbidden"}
        for fault in faults:
            if fault["type"] != "missing" or fault["loc"] not in misspelt:
                _translate(fault, findings)
        return None


_MESSAGES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
}
_BOUNDS = {"greater_than": "above {gt}", "greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}"}
_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def _translate(details: ErrorDetails, findings: Findings) -> None:
    """One error of pydantic as a problem in the words of the sweep file."""
    address = ""
    for step in details["loc"]:
        address = child(address, step)
    given, context, kind = details["input"], details.get("ctx", {}), details["type"]
    if kind == "missing":
        findings.add(address, "is missing")
    elif kind == "extra_forbidden":
        allowed = ", ".join(_fields_above(details["loc"]))
        findings.add(address, "is not a key here", allowed=allowed, nearest=_meant_key(details))
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


def _meant_key(unknown: ErrorDetails) -> str | None:
    return nearest_name(str(unknown["loc"][-1]), _fields_above(unknown["loc"]))


def _fields_above(location: tuple[int | str, ...]) -> Sequence[str]:
    model: type[BaseModel] = SweepSpec
    for step in location[:-1]:
        annotation = model.model_fields[str(step)].annotation
        assert isinstance(annotation, type) and issubclass(annotation, BaseModel)
        model = annotation
    return tuple(model.model_fields)
