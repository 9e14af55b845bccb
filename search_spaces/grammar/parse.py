"""A strict YAML reader that returns plain data and the line of every key.

It reads YAML 1.2 scalars (`1e-4` is a number; `on`, `no` and dates are text) from the event stream of PyYAML, and
constructs only dict, list, str, int, float, bool and None. Anchors, aliases, merge keys, tags, directives, duplicate
keys, keys that are not text, and numbers that are not finite are problems.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from search_spaces.grammar.problems import SECRET_KEY, Findings, Location, format_value, join_key_path
from search_spaces.grammar.sections import ABSENT

MAX_FILE_BYTES = 1_000_000
MAX_DEPTH = 20
MAX_INT = 2**63 - 1

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_INDENTATION_ERROR = re.compile("mapping values are not allowed|expected (key|<block end>|<document start>)")
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class _UnreadableError(Exception):
    """The rest of the text cannot be read; a problem has been recorded."""


def read_yaml(text: str, findings: Findings, *, key_path: str = "", location: Location | None = None) -> Any:
    """Return the value of a YAML document, ABSENT if it cannot be read; record problems and locations in `findings`.

    key_path: the key of an override, '' for a file. location: the location to record instead of the lines of the text.
    Unreadable values inside a mapping or list are ABSENT.
    """
    return _Reader(findings, location).read_document(text, key_path)


class _Reader:
    """A reader of YAML events that records locations and problems."""

    def __init__(self, findings: Findings, location: Location | None) -> None:
        self.findings = findings
        self.fixed_location = location
        self.references: list[tuple[str, str, Location]] = []  # (&name or *name, key path, location)

    def locate_line(self, line: int) -> Location:
        """Return the location of a line, counted from 0."""
        return self.fixed_location or Location(self.findings.source, line + 1)

    def locate_event(self, event: Any) -> Location:
        """Return the location of an event: the line at which it begins."""
        return self.locate_line(event.start_mark.line)

    def read_document(self, text: str, key_path: str) -> Any:
        """Return the value of a document, ABSENT with a problem if it cannot be read."""
        # PyYAML would raise at such a character without its line.
        if match := _UNPRINTABLE.search(text):
            line = text.count("\n", 0, match.start())
            problem = f"character U+{ord(match[0]):04X} is not allowed in YAML"
            self.findings.add_unreadable(key_path, problem, location=self.locate_line(line))
            return ABSENT

        # After an error of syntax the rest cannot be read, so there is a single problem.
        try:
            try:
                return self._read_events(yaml.parse(text, Loader=_Loader), key_path)
            finally:
                self._report_references()
        except _UnreadableError:
            return ABSENT
        except yaml.YAMLError as error:
            lines = text.rstrip().splitlines() or [""]
            line = _find_mistaken_line(error, lines)
            message = " ".join(
                part for part in (getattr(error, "context", None), getattr(error, "problem", None)) if part
            )
            line_text = lines[line]
            hint = ""
            if line_text.lstrip(" ").startswith("\t"):
                hint = "; indent with spaces, not tabs"
            elif "mapping values" in message and ":" not in line_text:
                hint = "; a key needs a colon and a space after it"
            elif _INDENTATION_ERROR.search(message) and line_text.count(": ") < 2:  # `a: b: c` has too many colons
                hint = "; check the indentation of this line and of the lines above it"
            self.findings.add_unreadable(
                key_path, f"is not valid YAML: {message}{hint}".lstrip(), location=self.locate_line(line)
            )
            return ABSENT

    def _read_events(self, events: Iterator[Any], key_path: str) -> Any:
        """Return the value of the only document in the events."""
        value: Any = None
        has_document = False
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                location = self.locate_event(event)
                if has_document:
                    self.findings.add("", "has more than one YAML document; keep one", location=location)
                    raise _UnreadableError
                has_document = True
                if event.version or event.tags:  # they would change the meaning of the text
                    self.findings.add("", "YAML directives (%YAML, %TAG) are not allowed", location=location)
                value = self._read_value(next(events), events, key_path, 0)
        return value

    def _report_references(self) -> None:
        """Record a single problem for all anchors and aliases, because a file can have thousands."""
        if not self.references:
            return

        # Name the first and the last one, to show where to look.
        first, key_path, location = self.references[0]
        kind = "anchors" if first[0] == "&" else "aliases"
        message = f"{kind} ({first}) are not allowed; write it out"
        if count := len(self.references) - 1:
            last, _, end = self.references[-1]
            line_text = "" if end.line is None else f" in line {end.line}"
            last_reference = f"{last}{line_text}" if count == 1 else f"{count:,} more, the last{line_text}"
            message = f"anchors and aliases ({first} and {last_reference}) are not allowed; write the values out"

        # The value of an alias is unknown, so any later problem of it would follow from this one.
        self.findings.add(key_path, message, location=location)
        for name, key_path, _ in self.references:
            if name[0] == "*":
                self.findings.mark_doubtful(key_path)

    def _read_value(self, event: Any, events: Iterator[Any], key_path: str, depth: int) -> Any:
        """Return the value that begins with an event."""
        # A limit on depth guards the recursion; anchors and tags would construct other values than are written.
        location = self.locate_event(event)
        if depth > MAX_DEPTH:
            self.findings.add_unreadable(key_path, f"is nested more than {MAX_DEPTH} levels deep", location=location)
            raise _UnreadableError
        if key_path:
            self.findings.locations.setdefault(key_path, location)
        if isinstance(event, yaml.AliasEvent):
            self.references.append((f"*{event.anchor}", key_path, location))
            return ABSENT
        if event.anchor:
            self.references.append((f"&{event.anchor}", key_path, location))
            self.findings.mark_anchor(key_path)
        if event.tag:
            message = f"YAML tags ({event.tag}) are not allowed; write a plain value"
            self.findings.add_unreadable(key_path, message, location=location)

        # The events of a list or mapping are consumed up to its end.
        if isinstance(event, yaml.ScalarEvent):
            return self._read_scalar(event, key_path, location)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                items.append(self._read_value(event, events, join_key_path(key_path, len(items)), depth + 1))
            return items
        return self._read_mapping(events, key_path, depth)

    def _read_mapping(self, events: Iterator[Any], key_path: str, depth: int) -> dict[str, Any]:
        """Return a mapping without its invalid and repeated keys, which are recorded."""
        mapping: dict[str, Any] = {}
        first_locations: dict[str, Location] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            # The value of an invalid or repeated key is consumed, without recording its problems.
            location = self.locate_event(event)
            key = self._read_key(event, events, key_path, location, depth)
            if key is None or key in mapping:
                if key is not None:
                    message = f"is written twice (first at {first_locations[key]}); keep one"
                    self.findings.add(join_key_path(key_path, key), message, location=location)
                reader = _Reader(Findings(self.findings.source), self.fixed_location)  # skips the value
                reader._read_value(next(events), events, "", depth + 1)
                continue

            # The location of a key is its own line, not the line of a value below it.
            first_locations[key] = location
            self.findings.locations[join_key_path(key_path, key)] = location
            mapping[key] = self._read_value(next(events), events, join_key_path(key_path, key), depth + 1)
        return mapping

    def _read_key(self, event: Any, events: Iterator[Any], key_path: str, location: Location, depth: int) -> str | None:
        """Return a key of a mapping; None, with a problem, if it is invalid."""
        if not isinstance(event, yaml.ScalarEvent):
            self.findings.add(key_path, "has a key that is not text", allowed="text keys", location=location)
            if not isinstance(event, yaml.AliasEvent):
                reader = _Reader(Findings(self.findings.source), self.fixed_location)  # skips the key
                reader._read_value(event, events, "", depth + 1)
            return None

        # A key that YAML reads as a number or null (1:, ~:) is probably a mistake, so it must be in quotes.
        text: str = event.value
        is_plain = event.implicit[0]  # neither quoted nor tagged
        if is_plain and text == "<<":
            self.findings.add(key_path, "merge keys (<<) are not allowed; write the keys out", location=location)
            return None
        if event.anchor or event.tag:
            self.findings.add(
                join_key_path(key_path, text), "a key must not have an anchor or a tag", location=location
            )
        if is_plain and (text in _CONSTANTS or _INT.fullmatch(text) or _FLOAT.fullmatch(text)):
            message = f"has the key {text or 'null'}, which is not text; put it in quotes if it is meant as a name"
            self.findings.add(key_path, message, allowed="text keys", location=location)
            return None
        return text

    def _read_scalar(self, event: Any, key_path: str, location: Location) -> Any:
        """Return a text, number, flag or null; ABSENT, with a problem, if the scalar is invalid."""
        text: str = event.value
        if not event.implicit[0]:
            if any("\ud800" <= letter <= "\udfff" for letter in text):
                self.findings.add_unreadable(
                    key_path, "has half a character (a lone surrogate escape)", location=location
                )
                return ABSENT
            return text

        # Numbers that do not fit are rejected, because Python would turn them into infinity or zero in silence.
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INT.fullmatch(text):
            number = int(text, 0) if len(text) <= 30 else MAX_INT + 1
            if abs(number) > MAX_INT:
                self.findings.add_unreadable(key_path, "is too large for a whole number", given=text, location=location)
                return ABSENT
            return number
        if _FLOAT.fullmatch(text):
            value = float(text)
            if value in (float("inf"), float("-inf")):
                self.findings.add_unreadable(key_path, "is too large a number", given=text, location=location)
                return ABSENT
            if value == 0 and re.match(r"[-+]?[0.]*[1-9]", text):
                self.findings.add_unreadable(
                    key_path, "is too small a number: it would be zero", given=text, location=location
                )
                return ABSENT
            return value

        # The rest is text, unless another YAML reader would take it for a number.
        if _NOT_FINITE.fullmatch(text):
            self.findings.add_unreadable(key_path, "must be a finite number", given=text, location=location)
            return ABSENT
        if _LEADING_ZERO.fullmatch(text):
            message = "has a leading zero, which YAML versions read differently; drop it, or quote it as text"
            self.findings.add_unreadable(key_path, message, given=text, location=location)
            return ABSENT
        return text


def _find_mistaken_line(error: yaml.YAMLError, lines: list[str]) -> int:
    """Return the line of a syntax error, counted from 0; PyYAML may notice a mistake only lines later."""
    mark = getattr(error, "problem_mark", None)
    context = getattr(error, "context_mark", None) or mark
    if context is None:
        return 0
    begin = min(int(context.line), len(lines) - 1)
    noticed = min(int((mark or context).line), len(lines) - 1)

    # A key without a colon, and an open quotation mark, are noticed at the next key or at the end.
    reason, problem = getattr(error, "context", None) or "", getattr(error, "problem", None) or ""
    if "simple key" in reason or "end of stream" in problem:
        return begin

    # A line inside an open brace is indented more than the line of the brace.
    if "flow" in reason:
        return begin if _measure_indentation(lines[noticed]) <= _measure_indentation(lines[begin]) else noticed

    # Without its colon a line is joined with the next one, which then seems to have two keys.
    previous = next((index for index in range(noticed - 1, -1, -1) if lines[index].partition("#")[0].strip()), noticed)
    has_colon = ":" in lines[previous] or lines[previous].lstrip().startswith("-")
    is_joined = _measure_indentation(lines[previous]) == _measure_indentation(lines[noticed])
    return previous if "mapping values" in problem and is_joined and not has_colon else noticed


def _measure_indentation(line: str) -> int:
    """Return the number of spaces at the beginning of a line."""
    return len(line) - len(line.lstrip(" "))


def apply_override(text: str, data: dict[str, Any], findings: Findings) -> str | None:
    """Apply an override to `data` in place and return its key; None, with a problem, if the override is invalid.

    After `space.` the rest is a single key of the space, including its dots; null removes this key from the space.
    """
    # Problems name the override instead of a line; the address of a webhook is a secret.
    key = read_override_key(text)
    (_, equals, value_text) = text.partition("=")
    visible = f"{SECRET_KEY}=***" if key == SECRET_KEY else text
    location = Location(
        f"--set {visible}" if visible.isprintable() and len(visible) <= 120 else f"--set {format_value(visible, 120)}"
    )
    if not equals or not key or not key.isprintable():
        findings.add("", "an override is written dotted.key=value", given=text, location=location)
        return None

    # Separate findings, so that an unreadable value does not change the locations of the file.
    value_findings = Findings(findings.source)
    value = read_yaml(_without_comment(value_text), value_findings, key_path=key, location=location)
    for problem in value_findings.problems:
        findings.add_problem(problem, location=location)
    if value_findings.problems:
        return None

    # A key of the space has dots inside; for all other keys a dot leads into a mapping, which may be missing yet.
    parts = ["space", key.removeprefix("space.")] if key.startswith("space.") else key.split(".")
    if "" in parts or len(parts) > MAX_DEPTH:
        findings.add("", "an override is written dotted.key=value", given=text, location=location)
        return None
    target = data
    for depth, part in enumerate(parts[:-1]):
        inner = target.setdefault(part, {})
        outer_key = ".".join(parts[: depth + 1])
        if not isinstance(inner, dict):
            given = {} if inner is ABSENT else {"given": inner}
            findings.add(key, f"{outer_key} has no keys inside it", location=location, **given)
            return None
        findings.locations.setdefault(outer_key, location)
        target = inner

    # A domain cannot be null, so null is free to remove the key from the space.
    if parts[0] == "space" and len(parts) == 2 and value is None:
        if target.pop(parts[1], ABSENT) is ABSENT:
            findings.add(key, "is not in the space, so it cannot be removed", location=location)
            return None
        findings.relocate(key, {})
        return key
    target[parts[-1]] = value
    findings.relocate(key, value_findings.locations | {key: location})
    return key


def read_override_key(text: str) -> str:
    """Return the dotted key of an override: read_override_key(" training.steps = 3000") -> "training.steps"."""
    return text.partition("=")[0].strip()


def quote_text(text: str) -> str:
    """Return a text as a quoted YAML value."""
    return "'{}'".format(text.replace("'", "''"))


def _without_comment(value_text: str) -> str:
    """Return the value of an override, quoted if it has a number sign, because an override has no comments."""
    is_plain = value_text.strip()[:1] not in set("'\"[{|>&*!%@`") and "\n" not in value_text
    return quote_text(value_text.strip()) if is_plain and re.search(r"(^|\s)#", value_text) else value_text
