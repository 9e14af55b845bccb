"""--set overrides of a sweep file: `dotted.key=value`, with the value in YAML."""

import re
from typing import Any

from search_spaces.grammar.problems.errors import ABSENT, shown
from search_spaces.grammar.problems.findings import SECRET, SECTION_KEY, Findings, Place
from search_spaces.grammar.space.domains import KINDS
from search_spaces.grammar.text.strict_yaml import MAX_DEPTH, read_yaml


def apply_override(text: str, data: dict[str, Any], findings: Findings) -> str | None:
    """Change `data` in place and return the key that was set; None, with a problem, if the override cannot be read.

    After `space.` the rest is one key of the space, including dots; null removes that key from the space.
    """
    key, (_, equals, written) = overridden_key(text), text.partition("=")
    seen = f"{SECRET}=***" if key == SECRET else text
    place = Place(f"--set {seen}" if seen.isprintable() and len(seen) <= 120 else f"--set {shown(seen, 120)}")
    if not equals or not key or not key.isprintable():
        findings.add("", "an override is written dotted.key=value", given=text, place=place)
        return None
    own = Findings(findings.source)
    value = read_yaml(_without_comment(written), own, address=key, place=place)
    for problem in own.problems:
        findings.report(problem, place=place)
    if own.problems:
        return None
    steps = ["space", key.removeprefix("space.")] if key.startswith("space.") else key.split(".")
    if "" in steps or len(steps) > MAX_DEPTH:
        findings.add("", "an override is written dotted.key=value", given=text, place=place)
        return None
    if (meant := _whole_domain(key, data, value)) is not None:
        findings.add(key, "a domain is replaced as a whole", place=place, nearest=f"--set '{meant}'")
        return None
    target = data
    for depth, step in enumerate(steps[:-1]):
        below = target.setdefault(step, {})
        if not isinstance(below, dict):
            above = ".".join(steps[: depth + 1])
            given = {} if below is ABSENT else {"given": below}
            findings.add(key, f"{above} has no keys inside it", place=place, **given)
            return None
        findings.places.setdefault(".".join(steps[: depth + 1]), place)
        target = below
    if steps[0] == "space" and len(steps) == 2 and value is None:
        if target.pop(steps[1], ABSENT) is ABSENT:
            findings.add(key, "is not in the space, so it cannot be taken out", place=place)
            return None
        findings.relocate(key, {})
        return key
    target[steps[-1]] = value
    findings.relocate(key, own.places | {key: place})
    return key


def overridden_key(text: str) -> str:
    """Return the dotted key of an override: overridden_key(" training.steps = 3000") -> "training.steps"."""
    return text.partition("=")[0].strip()


def quote_text(text: str) -> str:
    """Return any text as a quoted value in YAML."""
    return "'{}'".format(text.replace("'", "''"))


def _without_comment(written: str) -> str:
    """Quote a plain value with a number sign, as in a file name, because an override has no comments."""
    is_plain = written.strip()[:1] not in set("'\"[{|>&*!%@`") and "\n" not in written
    return quote_text(written.strip()) if is_plain and re.search(r"(^|\s)#", written) else written


def _whole_domain(key: str, data: dict[str, Any], value: Any) -> str | None:
    """Return the override of a whole domain that an override of one of its parts means, None for other overrides.

    `space.KEY.uniform=[0, 1]` -> `space.KEY={uniform: [0, 1]}`
    """
    space = data.get("space")
    whole, _, part = key.removeprefix("space.").rpartition(".")
    written = space.get(whole) if isinstance(space, dict) else None
    kind = next((name for name in written if name in KINDS), None) if isinstance(written, dict) else None
    options = {*KINDS[kind].options, "when"} if kind else set()
    if not key.startswith("space.") or not (part in options or (part in KINDS and SECTION_KEY.fullmatch(whole))):
        return None
    domain = {**(written or {}), part: value} if part in options else {part: value}
    return f"space.{whole}={{{', '.join(f'{name}: {shown(item)}' for name, item in domain.items())}}}"
