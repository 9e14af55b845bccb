"""load_sweep: from a YAML file and --set overrides to a SweepSpec, or to every problem at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_spaces.grammar.checks.across_sections import check_across, note_nothing_learned
from search_spaces.grammar.checks.validation import build
from search_spaces.grammar.problems.errors import ABSENT, nearest_name
from search_spaces.grammar.problems.findings import SECTIONS, STEP, Findings, Place, child
from search_spaces.grammar.space.keys import parse_space
from search_spaces.grammar.spec.spec import SweepSpec
from search_spaces.grammar.text.dump import dump_yaml
from search_spaces.grammar.text.overrides import apply_override
from search_spaces.grammar.text.strict_yaml import MAX_BYTES, read_yaml

UNREAD = "nothing else in it was checked: it can only be read when this is mended"


@dataclass(frozen=True)
class Reading:
    """A sweep file as far as it could be read, for checks that go on after the first problems.

    `findings` has the problems so far and takes more. `spec` is None if the text is no sweep file at all; else it has
    stand-ins where a problem was found, and `findings.doubts` says of an address whether what stands there is one.
    `unchecked` says in words what was not looked at.
    """

    spec: SweepSpec | None
    findings: Findings
    unchecked: str = ""

    def sound(self) -> SweepSpec:
        """The spec of a file without problems. Raises SweepFileError with every problem found."""
        self.findings.raise_any(self.unchecked)
        assert self.spec is not None
        return self.spec


def load_sweep(
    path: str | Path, overrides: Sequence[str] = (), name: str | None = None, imports: Sequence[str] = ()
) -> SweepSpec:
    """Read and check a sweep file: all that can be known of it without the registries of `trainers`.

    `overrides` are `dotted.key=value` texts with the value in YAML, applied in order; `space.KEY=null` takes a key out
    of the space. `name` replaces the sweep's name, `imports` are added to its own. Raises
    SweepFileError with every problem found.
    """
    return read_sweep(path, overrides, name, imports).sound()


def parse_recorded(spec: Mapping[str, Any], source: str, overrides: Sequence[str] = ()) -> SweepSpec:
    """Check a specification that a ledger has recorded. Else as `parse_sweep`."""
    return parse_sweep(dump_yaml(dict(spec)), source, overrides)


def parse_sweep(text: str, source: str, overrides: Sequence[str] = (), name: str | None = None) -> SweepSpec:
    """Check the text of a sweep file that is in no file; `source` is what problems call it. Else as `load_sweep`."""
    return _parse(text, Findings(source), overrides, name).sound()


def read_sweep(
    path: str | Path, overrides: Sequence[str] = (), name: str | None = None, imports: Sequence[str] = ()
) -> Reading:
    """As `load_sweep`, but problems are handed over with what could be read; raises nothing."""
    findings = Findings(str(path))
    text = read_text(Path(path), findings)
    if findings.problems:
        return Reading(None, findings)
    reading = _parse(text, findings, overrides, name, imports)
    if reading.spec is not None:
        reading.spec._folder = Path(path).resolve().parent
    return reading


def _parse(
    text: str,
    findings: Findings,
    overrides: Sequence[str],
    name: str | None,
    imports: Sequence[str] = (),
) -> Reading:
    data = read_yaml(text, findings)
    if not isinstance(data, dict):
        if data is None:
            findings.add("", "is empty; a sweep file is a mapping with name, study, task, model, training ...")
        elif data is not ABSENT:
            findings.add("", "must be a mapping of keys to values", given=data)
        return Reading(None, findings, UNREAD if data is ABSENT else "")
    overridden = [apply_override(text, data, findings) for text in overrides]
    if name is not None:
        if name != data.get("name"):
            data.pop("claims", None)  # they are about the sweep of the file's own name
        data["name"] = name
        findings.relocate("name", {"name": Place("--name")})
    written = data.get("imports", [])
    for module in imports:
        if isinstance(written, list) and module not in written:
            findings.places[child("imports", len(written))] = Place(f"--import {module}")
            data["imports"] = written = [*written, module]
    sections = {section: data.get(section, {}) for section in SECTIONS}
    for section, value in sections.items():
        _check_step_names(value, section, findings)
    written = data.get("space", ABSENT)
    space = parse_space(written, sections, findings)
    spec, mended = build({**data, "space": space}, findings)
    check_across(data, space, [key for key in overridden if key], findings)
    note_nothing_learned(spec.search, findings)
    lost = [key for key in written if key not in space] if isinstance(written, dict) else []
    wholly = ["space"] if written is not ABSENT and not isinstance(written, dict) else []
    for address in [*mended, *wholly, *lost, *(child("space", key) for key in lost)]:
        findings.doubt(address)
    spec._findings = findings
    return Reading(spec, findings)


def read_text(path: Path, findings: Findings, kind: str = "sweep file") -> str:
    """The text of a file of this kind; "" and a problem where there is none, or none that can be read."""
    here = Place(findings.source)
    try:
        if path.is_dir():
            findings.add("", f"is a directory; give a {kind}", place=here)
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
