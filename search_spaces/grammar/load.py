"""Read a sweep file, with --set overrides, as a SweepSpec, or as a list of all its problems.

Where its keys and values are checked, in this order; every check adds its problems to the same `Findings`:

YAML, then --set overrides                     `read_yaml`, `apply_override`   parse.py
short forms, such as a program in one line     `_expand_*`                     here
keys of the space                              `check_key`                     space.py
domains of the space                           `parse_space`                   space.py
keys of lengthwise: search, resources, ...     `build_spec`                    validate.py, by the classes of spec.py
sections against each other                    `check_between_sections`        section_checks.py
a whole specification                          `_check_spec`                   here

Then, in orchestrator/plan/checks, with the user's modules imported:

each key and value of task, model, training    `check_fields`                  field_checks.py; drawn ones: bounds.py
  of a class, as declared by `setting`         `find_field_problems`           trainers/settings/fields.py
combinations of values                         `MemberConfig.from_dict`        trainers/config/member.py
a trial of the user's task, model, ...         `try_user_code`                 trials.py
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from search_spaces.grammar.dump import dump_yaml
from search_spaces.grammar.parse import MAX_FILE_BYTES, apply_override, read_yaml
from search_spaces.grammar.problems import Findings, Location, find_nearest_name, is_within, join_key_path
from search_spaces.grammar.section_checks import check_between_sections, note_random_search, note_unread_search
from search_spaces.grammar.sections import ABSENT, ENGINE_SECTIONS, KEY_PART, list_sections, read_key
from search_spaces.grammar.shipped import find_shipped_sweeps
from search_spaces.grammar.space import (
    check_conditions_on_fixed_keys,
    check_misplaced_domains,
    find_drawn_sections,
    parse_space,
)
from search_spaces.grammar.spec import SweepSpec
from search_spaces.grammar.validate import build_spec
from search_spaces.grammar.values import STORES, expand_ranges, find_store_problem

DATA_ENDINGS = (".csv", ".tsv", ".jsonl", ".npz", ".parquet")
MAX_RECORDED_BYTES = 2 * MAX_FILE_BYTES  # of a recorded specification as JSON, which has all defaults
UNCHECKED_REST = "fix this first; the rest of the file was not checked"
AVERAGES, PROGRAM_AVERAGES = "training.averages", "evaluation.averages"
FREE_MAPPINGS = ("training.initial.rename",)  # mappings with arbitrary keys
RAW_AVERAGE = "raw"  # the average of a sweep file without averages
# A Python file has an import, or a first line that names the interpreter.
_PROGRAM = re.compile(r"\A#!.*python|^(import \w[\w.]*( as \w+)?(, .*)?|from [\w.]+ import .+)$", re.MULTILINE)
_LENGTHS = re.compile(r"(^|\.)(test_\w+|\w*lengths)$")  # keys whose value is a list of lengths
ASSUMED_DIRECTION = "minimize"  # placeholder until the direction of the metric is known


@dataclass(frozen=True)
class Reading:
    """The result of reading a sweep file that may have problems.

    findings: the problems so far. spec: the specification, or None if the text is not a sweep file; invalid values are
    placeholders, doubtful in `findings`. unchecked: the parts that were not checked, as text.
    """

    spec: SweepSpec | None
    findings: Findings
    unchecked: str = ""

    def checked_spec(self) -> SweepSpec:
        """Return the specification. Raises SweepFileError with all problems of the file."""
        self.findings.raise_any(self.unchecked)
        assert self.spec is not None
        return self.spec


def load_sweep(
    path: str | Path,
    overrides: Sequence[str] = (),
    name: str | None = None,
    imports: Sequence[str] = (),
    *,
    recorded: bool = False,
) -> SweepSpec:
    """Return the specification in a sweep file, checked as far as possible without the registries of `trainers`.

    overrides: texts `dotted.key=value` with the value in YAML, applied in order; `space.KEY=null` removes a key from
    the space. name: replaces the sweep's name. imports: modules added to the imports of the file. recorded: whether the
    sweep has begun already, so that newer checks are skipped. Raises SweepFileError with all problems.
    """
    spec = read_sweep(path, overrides, name, imports, recorded=recorded).checked_spec()
    return spec.mark_recorded() if recorded else spec


def parse_recorded(spec: Mapping[str, Any], source: str, overrides: Sequence[str] = ()) -> SweepSpec:
    """Return a specification recorded in a ledger, checked like a file; `source` is its name in problems."""
    # A ledger may have been edited by hand, so its size is limited, too.
    findings = Findings(source)
    text = json.dumps(spec)
    if (size := len(text)) > MAX_RECORDED_BYTES:
        findings.add("", f"is {size} bytes large", allowed=f"at most {MAX_RECORDED_BYTES} bytes")
    findings.raise_any()
    return parse_sweep(_convert_to_yaml(text), source, overrides).mark_recorded()


@lru_cache(maxsize=32)
def _convert_to_yaml(text: str) -> str:
    """Return JSON text as YAML; cached, because a command parses the same specification several times."""
    return dump_yaml(json.loads(text))


def parse_sweep(text: str, source: str, overrides: Sequence[str] = (), name: str | None = None) -> SweepSpec:
    """Return the specification in the text of a sweep file; `source` is its name in problems. See `load_sweep`."""
    return _parse(text, Findings(source), overrides, name).checked_spec()


def read_sweep(
    path: str | Path,
    overrides: Sequence[str] = (),
    name: str | None = None,
    imports: Sequence[str] = (),
    *,
    recorded: bool = False,
) -> Reading:
    """Return a sweep file with its problems; otherwise like `load_sweep`, which raises them."""
    findings = Findings(str(path))
    text = read_text(Path(path), findings)
    if findings.problems:
        return Reading(None, findings)

    # A text has no folder, so only a file gets one; modules and data are searched there.
    reading = _parse(text, findings, overrides, name, imports)
    if reading.spec is not None:
        reading.spec.set_folder(Path(path).resolve().parent)
        _check_spec(reading.spec, findings, recorded=recorded)
    return reading


def read_sections(
    sections: Mapping[str, Any], source: str, overrides: Sequence[str], name: str | None, imports: Sequence[str]
) -> Reading:
    """Return a new sweep, given as a dictionary of sections, checked like a file; see `read_sweep`."""
    findings = Findings(source)
    reading = _parse(dump_yaml(dict(sections)), findings, overrides, name, imports)
    if reading.spec is not None:
        _check_spec(reading.spec, findings, recorded=False)
    return reading


def _check_spec(spec: SweepSpec, findings: Findings, *, recorded: bool) -> None:
    """Record problems that only a whole specification shows; for a recorded sweep those that can still be corrected."""
    # Recorded sweeps may be older than this check.
    if not recorded:
        check_conditions_on_fixed_keys(
            spec.space, {section: getattr(spec, section) for section in spec.sections}, findings
        )

    # A program declares the direction of its metric; for a task it is known only after its class is imported.
    metrics = spec.evaluation.get("metrics") if spec.program and not recorded else None
    declared = metrics.get(spec.objective.metric) if isinstance(metrics, dict) else None
    declared = declared.get("direction") if isinstance(declared, dict) else declared
    direction = spec.objective.direction
    if declared in ("minimize", "maximize") and not spec.direction_is_assumed and direction != declared:
        message = f"contradicts evaluation.metrics.{spec.objective.metric}: {declared}"
        findings.add("objective.direction", message, given=direction, allowed=declared)

    # Otherwise a wrong address would be noticed only after the first configurations have finished.
    uri = spec.tracking.uri
    if uri is not None and (problem := find_store_problem(uri)):
        findings.add("tracking.uri", problem, given=uri, allowed=STORES)


def _parse(
    text: str,
    findings: Findings,
    overrides: Sequence[str],
    name: str | None,
    imports: Sequence[str] = (),
) -> Reading:
    """Return the sweep in a text, with its problems; the checks are listed above."""
    # A text that is not a sweep file would give a problem for every key.
    data = read_yaml(text, findings)
    if not isinstance(data, dict):
        if data is None:
            findings.add("", "is empty; a sweep file is a mapping with name, study, task, model, training ...")
        elif data is not ABSENT:
            findings.add("", "must be a mapping of keys to values", given=data)
        return Reading(None, findings, UNCHECKED_REST if data is ABSENT else "")
    if isinstance(data.get("claims"), list) and not data.keys() & {"task", "program"}:
        message = f"is a claims file, not a sweep file; judge its claims by: lengthwise claims {findings.source}"
        findings.add("", message, location=Location(findings.source))
        return Reading(None, findings)

    # Options of the command line come before the checks, because they may fix a problem of the file.
    overridden = [apply_override(override, data, findings) for override in overrides]
    if name is not None:
        if name != data.get("name"):
            data.pop("claims", None)  # claims are registered under the name in the file
        data["name"] = name
        findings.relocate("name", {"name": Location("--name")})
    written_imports = data.get("imports", [])
    for module in imports:
        if isinstance(written_imports, list) and module not in written_imports:
            findings.locations[join_key_path("imports", len(written_imports))] = Location(f"--import {module}")
            data["imports"] = written_imports = [*written_imports, module]

    # Expand short forms here, so that later code sees a single form.
    _expand_program(data, findings)
    for section in ("task", "evaluation", "objective", "search"):
        _expand_lengths(data.get(section), section, findings)
    data |= {section: {} for section in sorted(find_drawn_sections(data)) if section not in data}
    sections = {section: data.get(section, {}) for section in list_sections(data)}
    check_misplaced_domains(sections, findings)
    for section, value in sections.items():
        _check_key_names(value, section, findings)
    is_direction_assumed = _fill_objective(data)

    # A sweep has the sections of a task or of a program; the others are empty, because the specification has fields for
    # both.
    written_space = data.get("space", ABSENT)
    space = parse_space(written_space, sections, findings)
    unused: dict[str, Any] = {section: {} for section in ENGINE_SECTIONS if section not in sections}
    spec, replaced = build_spec({**unused, **data, "space": space}, findings)
    check_between_sections(data, space, [key for key in overridden if key], findings)
    note_random_search(spec.search, findings)
    note_unread_search(spec.search, findings)

    # Placeholders are doubtful, so that later checks do not report a value that nobody wrote.
    invalid_keys = [key for key in written_space if key not in space] if isinstance(written_space, dict) else []
    invalid_space = ["space"] if written_space is not ABSENT and not isinstance(written_space, dict) else []
    for key_path in [*replaced, *invalid_space, *invalid_keys, *(join_key_path("space", key) for key in invalid_keys)]:
        findings.mark_doubtful(key_path)
    spec._findings, spec._direction_is_assumed = findings, is_direction_assumed
    return Reading(spec, findings)


def _expand_program(data: dict[str, Any], findings: Findings) -> None:
    """Expand the short form of `program` and add the module of its function to `imports`.

    Records a task or model beside a program as a problem.
    """
    if "program" not in data:
        return

    program = data["program"]
    if isinstance(program, str | list):
        data["program"] = program = {"command": program}
    if program == {}:
        findings.add("program", "is empty", allowed="command: [...] or function: MODULE.NAME")

    # Sections that a program does not use are removed: their keys would be checked for a task that is never built.
    for section in ("task", "model"):
        if section in data:
            findings.add(section, "is not allowed beside program, which trains without it; keep one of the two")
            del data[section]

    # The module of a function is imported and recorded like any other module of the user.
    function = program.get("function") if isinstance(program, dict) else None
    module = function.rpartition(".")[0] if isinstance(function, str) else ""
    imports = data.get("imports", [])
    if module and isinstance(imports, list) and module not in imports:
        findings.locations[join_key_path("imports", len(imports))] = findings.find_location("program.function")
        data["imports"] = [*imports, module]


def _expand_lengths(value: Any, key_path: str, findings: Findings) -> None:
    """Expand the ranges in lists of lengths inside a section: `lengths: [1-3, 8]` becomes [1, 2, 3, 8]."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            _expand_lengths(item, join_key_path(key_path, index), findings)
    for key, item in list(value.items()) if isinstance(value, dict) else ():
        expanded = expand_ranges(item) if _LENGTHS.search(key) else item
        if expanded is item:
            _expand_lengths(item, join_key_path(key_path, key), findings)
        else:
            value[key] = expanded
            list_path = join_key_path(key_path, key)
            findings.relocate(list_path, {list_path: findings.find_location(list_path)})


def _fill_objective(data: dict[str, Any]) -> bool:
    """Fill in a missing average and direction of the objective in `data`; return whether the direction is assumed.

    The average is filled in if all configurations have the same single label. The direction is only known to the task,
    or to the metrics of a program; `orchestrator.plan.checks.sweep_file_checks` reads it there.
    """
    objective = data.get("objective")
    if not isinstance(objective, dict):
        return False  # reported by its type

    # Averages are a mapping of labels; a program may also give a list or a single label.
    key = PROGRAM_AVERAGES if "program" in data else AVERAGES
    averages = read_key(data, key)
    if isinstance(averages, dict | list):
        labels = list(averages)
    else:
        labels = [averages] if isinstance(averages, str) else [RAW_AVERAGE]
    if "average" not in objective and len(labels) == 1 and not _varies_averages(data, key, labels):
        objective = {**objective, "average": labels[0]}
    is_assumed = "direction" not in objective
    data["objective"] = {**objective, "direction": ASSUMED_DIRECTION} if is_assumed else objective
    return is_assumed


def _varies_averages(data: dict[str, Any], averages: str, labels: list[str]) -> bool:
    """Return whether configurations may have other weight averages than these; `averages` is their key."""
    listed = read_key(data, "search.listed")
    tables = [data.get("space"), *(listed if isinstance(listed, list) else ())]
    keys = [str(key) for table in tables if isinstance(table, dict) for key in table]

    # A key above the averages replaces them all; a key inside them may add a label.
    label_keys = [join_key_path(averages, label) for label in labels]
    return any(
        is_within(averages, key)
        or (is_within(key, averages) and not any(is_within(key, label_key) for label_key in label_keys))
        for key in keys
    )


def read_text(path: Path, findings: Findings, kind: str = "sweep file") -> str:
    """Return the text of a file of this kind; "", with a problem, if it is missing or cannot be read."""
    location = Location(findings.source)
    try:
        # Mistakes that would otherwise end in hundreds of YAML problems: data files, Python files, folders.
        if path.is_dir():
            inside = path / "sweep.yaml"
            nearest = str(inside) if kind == "sweep file" and inside.is_file() else None
            findings.add("", f"is a directory, not a {kind}", nearest=nearest, location=location)
        elif not path.exists():
            allowed = "a file, or a name that `lengthwise list examples` shows" if kind == "sweep file" else None
            findings.add(
                "", "there is no such file", allowed=allowed, nearest=_find_nearest_file(path), location=location
            )
        elif not path.is_file():
            findings.add("", "is not a regular file", location=location)
        elif kind == "sweep file" and path.suffix in DATA_ENDINGS:
            findings.add(
                "", "is a data file, not a sweep file", allowed="the YAML file that names it", location=location
            )
        elif (size := path.stat().st_size) > MAX_FILE_BYTES:
            findings.add("", f"is {size} bytes large", allowed=f"at most {MAX_FILE_BYTES} bytes", location=location)
        elif _PROGRAM.search(text := path.read_bytes().decode("utf-8-sig")) or path.suffix == ".py":
            findings.add(
                "", f"is a Python program, not a {kind}; name it in a sweep file under program:", location=location
            )
        else:
            return text

    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        findings.add(
            "", f"is not UTF-8: byte 0x{error.object[error.start]:02X}", location=Location(findings.source, line)
        )
    except (OSError, ValueError) as error:
        findings.add("", f"cannot be read: {getattr(error, 'strerror', None) or error}", location=location)
    return ""


def _find_nearest_file(path: Path) -> str | None:
    """Return the file that a missing path probably means: a shipped sweep of this name, or a file of a similar name.

    A shipped sweep is returned by its name if `path` has no ending, else by its path.
    """
    # A bare name means a shipped sweep.
    shipped = find_shipped_sweeps()
    if path.stem in shipped:
        return str(shipped[path.stem])
    if not path.suffix and (name := find_nearest_name(path.name, shipped, cutoff=0.8)):
        return name

    # Otherwise it is a misspelt file beside it, or a shipped sweep with another ending.
    siblings = sorted(path.parent.glob("*.yaml")) if path.parent.is_dir() else []
    files = {**shipped, **{other.stem: other for other in siblings}}
    nearest = find_nearest_name(path.stem, [other.stem for other in siblings]) or find_nearest_name(
        path.stem, shipped, cutoff=0.8
    )
    return str(files[nearest]) if nearest else None


def _check_key_names(value: Any, key_path: str, findings: Findings) -> None:
    """Record keys of the open sections that cannot be part of a dotted key, for example because they have dots."""
    if key_path in FREE_MAPPINGS:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_key_names(item, join_key_path(key_path, index), findings)
    if isinstance(value, dict):
        for key, item in value.items():
            if not KEY_PART.fullmatch(key):
                message = "is not usable as a key: dots separate levels" if "." in key else "is not usable as a key"
                findings.add(join_key_path(key_path, key), message, given=key, allowed="letters, digits, '_' and '-'")
            _check_key_names(item, join_key_path(key_path, key), findings)
