"""The `space` section: dotted keys to domains, with conditions that can be decided."""

from collections.abc import Iterable
from typing import Any

from search_spaces.grammar.problems.errors import ABSENT, nearest_name, shown
from search_spaces.grammar.problems.findings import SECTION_KEY, SECTIONS, Findings, child, leaves, lookup
from search_spaces.grammar.space.domains import KINDS, Choice, Domain, Grid, When, plain, value_key

MAX_GRID_POINTS = 100_000
_STARTS = ", ".join(f"{section}." for section in SECTIONS)


def parse_space(raw: Any, sections: dict[str, Any], findings: Findings) -> dict[str, Domain]:
    """The readable domains of a space, in file order; `sections` has the fixed values. Problems are recorded."""
    if raw is ABSENT:
        return {}
    if not isinstance(raw, dict):
        findings.add("space", "must be a mapping of dotted keys to domains", given=raw)
        return {}
    domains = {}
    for key, written in raw.items():
        usable = check_key("space", key, raw, sections, findings)
        domain = _parse_domain(child("space", key), written, findings)
        if usable and domain is not None:
            domains[key] = domain
    for key, domain in domains.items():
        for other, values in domain.when.items():
            _check_condition(child(f"space.{key}.when", other), other, values, domains, list(raw), sections, findings)
    _check_cycles(domains, findings)
    points = 1
    for domain in domains.values():
        points *= len(domain.values) if isinstance(domain, Grid) else 1
    if points > MAX_GRID_POINTS:
        findings.add("space", f"its grids have {points} points together", allowed=f"at most {MAX_GRID_POINTS}")
    return domains


def check_key(above: str, key: str, raw: dict[str, Any], sections: dict[str, Any], findings: Findings) -> bool:
    """Whether `key` of the mapping `raw` at the address `above` is a dotted key that can be set; records why not."""
    address, place = child(above, key), above.partition("[")[0]
    if not SECTION_KEY.fullmatch(key):
        names = list(leaves(sections))
        tail = {name.rpartition(".")[2]: name for name in names}
        nearest = nearest_name(key, names) or tail.get(nearest_name(key.rpartition(".")[2], tail) or "")
        findings.add(address, f"a {place} key is dotted and starts with one of {_STARTS}", nearest=nearest)
        return False
    steps = key.split(".")
    for depth in range(1, len(steps)):
        outer = ".".join(steps[:depth])
        if outer in raw:
            sets = "the space draws" if place == "space" else f"{place} gives"
            findings.add(address, f"is inside {outer}, which {sets} as a whole; keep one of the two")
            return False
        value = lookup(sections, outer)
        if value is not ABSENT and not isinstance(value, dict):
            findings.add(address, f"{outer} is fixed to {shown(value)}, which has no keys inside")
            return False
    return True


def _parse_domain(address: str, raw: Any, findings: Findings) -> Domain | None:
    kinds = ", ".join(KINDS)

    def fault(below: str, message: str, **details: Any) -> None:
        findings.add(address + below, message, **details)

    if not isinstance(raw, dict):
        example = f"{{choice: {shown(raw, 40)}}}" if isinstance(raw, list) else "{uniform: [0, 1]}"
        hint = f"must be a domain, such as {example}; a fixed value belongs in its own section"
        fault("", hint, given=raw, allowed=kinds)
        return None
    named = [name for name in raw if name in KINDS]
    if len(named) != 1:
        nearest = None if named else next(filter(None, (nearest_name(name, KINDS) for name in raw)), None)
        said = f"names {len(named)} domains ({', '.join(named)}); keep one" if named else "names no domain"
        fault("", said, given=raw, allowed=kinds, nearest=nearest)
        return None
    kind = KINDS[named[0]]
    options = (*kind.options, "when")
    unknown = [name for name in raw if name not in (kind.kind, *options)]
    for name in unknown:
        said = f"is not an option of {kind.kind}"
        nearest = nearest_name(name, options)
        fault(f".{child('', name)}", said, given=raw[name], allowed=", ".join(options), nearest=nearest)
    when = _parse_when(raw, fault)
    domain = kind.parse(raw, when or {}, fault)
    return None if unknown or when is None else domain


def _parse_when(raw: dict[str, Any], fault: Any) -> When | None:
    written = raw.get("when", {})
    if not isinstance(written, dict) or ("when" in raw and not written):
        fault(".when", "must map other keys to the value, or list of values, they must have", given=written)
        return None
    when: When = {}
    for other, values in written.items():
        if values == []:
            fault(child(".when", other), "must have at least one value", given=values)
            return None
        when[other] = tuple(values) if isinstance(values, list) else (values,)
    return when


def _check_condition(
    address: str,
    other: str,
    values: tuple[Any, ...],
    domains: dict[str, Domain],
    space_keys: Iterable[str],
    sections: dict[str, Any],
    findings: Findings,
) -> None:
    fixed = lookup(sections, other)
    if other not in space_keys:
        if fixed is ABSENT:
            known = [*space_keys, *(name for name in leaves(sections) if "." in name)]
            nearest = nearest_name(other, known)
            findings.add(address, "is a key that is neither in the space nor given a fixed value", nearest=nearest)
        return
    domain = domains.get(other)
    if domain is None:
        return  # it has a problem of its own
    if not isinstance(domain, (Choice, Grid)):
        said = f"{other} is drawn from {domain.kind}; a condition needs a choice, a grid or a fixed value"
        findings.add(address, said)
        return
    possible = [*domain.values, *([fixed] if domain.when and fixed is not ABSENT else [])]
    keys = {value_key(value) for value in possible}
    for value in values:
        if value_key(value) not in keys:
            nearest = nearest_name(value, [name for name in possible if isinstance(name, str)])
            allowed = ", ".join(shown(option, 40) for option in possible)
            findings.add(address, f"{other} never has this value", given=value, allowed=allowed, nearest=nearest)


def _check_cycles(domains: dict[str, Domain], findings: Findings) -> None:
    waiting = {key: [other for other in domain.when if other in domains] for key, domain in domains.items()}
    while waiting:
        if free := [key for key, others in waiting.items() if not any(other in waiting for other in others)]:
            for key in free:
                del waiting[key]
            continue
        trail = [next(iter(waiting))]  # every key waits for another: following them must come back to one
        while (following := next(other for other in waiting[trail[-1]] if other in waiting)) not in trail:
            trail.append(following)
        circle = trail[trail.index(following) :]
        said = f"conditions must not go in a circle: {' -> '.join([*circle, following])}"
        findings.add(f"space.{following}.when", said)
        for key in circle:
            del waiting[key]


def written_space(domains: dict[str, Domain]) -> dict[str, Any]:
    """The space as plain data, as a sweep file would have it."""
    return {key: plain(domain.written()) for key, domain in domains.items()}
