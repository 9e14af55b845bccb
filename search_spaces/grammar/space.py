"""Read the `space` section: dotted keys with domains, and the conditions under which they are drawn."""

import math
from collections.abc import Iterable
from typing import Any

from search_spaces.grammar.domains import DOMAINS, SYNTAX, Choice, Domain, Grid, When, is_number, make_value_key
from search_spaces.grammar.problems import Findings, find_nearest_name, format_value, is_within, join_key_path
from search_spaces.grammar.sections import ABSENT, SECTION_KEY, SECTIONS, list_dotted_keys, read_key

METRICS = "evaluation.metrics"
MAX_GRID_POINTS = 100_000


def parse_space(raw: Any, sections: dict[str, Any], findings: Findings) -> dict[str, Domain]:
    """Return the valid domains of a space in the order of the file; record problems. `sections`: the fixed values."""
    if raw is ABSENT:
        return {}
    if not isinstance(raw, dict):
        findings.add("space", "must be a mapping of dotted keys to domains", given=raw)
        return {}
    domains = {}
    is_random = any(
        isinstance(raw_domain, dict) and raw_domain.keys() & (DOMAINS.keys() - {"grid"}) for raw_domain in raw.values()
    )

    # A domain below an invalid key is still read, because it may have problems of its own.
    for key, raw_domain in raw.items():
        is_valid = check_key("space", key, raw, sections, findings)
        if not is_valid and not (isinstance(raw_domain, dict) and raw_domain.keys() & DOMAINS.keys()):
            continue  # a second problem, that the value is not a domain, would mislead
        domain = _parse_domain(join_key_path("space", key), raw_domain, findings, "choice" if is_random else "grid")
        if is_valid and domain is not None:
            domains[key] = domain

    # A cycle of conditions has no order of drawing, so its keys are left out.
    for key, domain in domains.items():
        for other, values in domain.when.items():
            key_path = join_key_path(f"space.{key}.when", other)
            _check_condition(key_path, other, values, domains, list(raw), sections, findings)
    for key in _find_cyclic_keys(domains, findings):
        del domains[key]
    points = math.prod(len(domain.values) for domain in domains.values() if isinstance(domain, Grid))
    if points > MAX_GRID_POINTS:
        findings.add("space", f"its grids have {points} points together", allowed=f"at most {MAX_GRID_POINTS}")
    return domains


def check_key(parent: str, key: str, raw: dict[str, Any], sections: dict[str, Any], findings: Findings) -> bool:
    """Return whether `key` of the mapping `raw` at the key path `parent` can be set; record a problem if not."""
    # The last part alone is often right: width is meant as model.width.
    key_path = join_key_path(parent, key)
    section = parent.partition("[")[0]  # space or search.listed
    if not SECTION_KEY.fullmatch(key) or key.partition(".")[0] not in sections:
        names = list(list_dotted_keys(sections))
        names_by_last_part = {name.rpartition(".")[2]: name for name in names}
        nearest = find_nearest_name(key, names) or names_by_last_part.get(
            find_nearest_name(key.rpartition(".")[2], names_by_last_part) or ""
        )
        example = "config.lr" if "program" in sections else "model.width"
        if nearest is None and "program" in sections and SECTION_KEY.fullmatch(f"config.{key}"):
            nearest = f"config.{key}"
        allowed = f"a section ({', '.join(sections)}) or a dotted key inside one, such as {example}"
        findings.add(key_path, f"a {section} key is {allowed}", nearest=nearest)
        return False
    if "program" not in sections and is_within(key, METRICS):
        findings.add(key_path, "is the same for all configurations, because metrics change no result; remove it")
        return False

    # Of a key and a key inside it, one would overwrite the other; a fixed number has no keys inside.
    parts = key.split(".")
    for depth in range(1, len(parts)):
        outer = ".".join(parts[:depth])
        if outer in raw:
            setter = "the space draws" if section == "space" else f"{section} sets"
            findings.add(key_path, f"is inside {outer}, which {setter}; keep one of the two")
            return False
        value = read_key(sections, outer)
        if value is not ABSENT and not isinstance(value, dict):
            findings.add(key_path, f"{outer} is fixed to {format_value(value)}, which has no keys inside")
            return False
    return True


def _parse_domain(key_path: str, raw: Any, findings: Findings, list_kind: str) -> Domain | None:
    """Return the domain of a key; None, with a problem, if it is invalid.

    list_kind: the kind of domain to suggest for a plain list.
    """

    def report(subkey: str, message: str, **details: Any) -> None:
        findings.add(key_path + subkey, message, **details)

    if not isinstance(raw, dict):
        message = "must be a domain; a fixed value belongs in its own section"
        report("", message, given=raw, allowed=SYNTAX, nearest=_guess_domain(raw, list_kind))
        return None

    # Without a domain, or with several, suggest what was probably meant: a dotted key, a similar name, a list.
    kinds = [name for name in raw if name in DOMAINS]
    if len(kinds) != 1:
        nested = next((name for name, inner in raw.items() if isinstance(inner, dict)), None)
        dotted = f"{key_path.removeprefix('space.')}.{nested}, with dots" if nested and not kinds else None
        similar = [
            find_nearest_name(name, DOMAINS, cutoff=0.75 if isinstance(inner, list) else 0.85)
            for name, inner in raw.items()
        ]
        nearest = None if kinds else next(filter(None, [*similar, _guess_domain(raw, list_kind)]), dotted)
        message = f"has {len(kinds)} domains ({', '.join(kinds)}); keep one" if kinds else "needs a domain"
        report("", message, given=raw, allowed=SYNTAX, nearest=nearest)
        return None

    # A domain with an unknown option is read nevertheless, so that all of its problems are reported together.
    kind = DOMAINS[kinds[0]]
    options = (*kind.options, "when")
    unknown = [name for name in raw if name not in (kind.kind, *options)]
    for name in unknown:
        report(
            f".{join_key_path('', name)}",
            f"is not an option of {kind.kind}",
            given=raw[name],
            names=options,
            misspelt=name,
        )
    when = _parse_when(raw, report)
    domain = kind.parse(raw, when or {}, report)
    return None if unknown or when is None else domain


def _guess_domain(raw: Any, list_kind: str) -> str | None:
    """Return the text of the domain that was probably meant; None if unclear.

    raw: a list, a value, a call such as "uniform(0, 1)", or a parameter of a W&B sweep.
    """
    # W&B sweeps write parameters as {min, max} or {values: [...]}.
    if isinstance(raw, dict):
        ends = [raw.get("min"), raw.get("max")]
        if isinstance(raw.get("values"), list):
            return _guess_domain(raw["values"], list_kind)
        kind = "log_uniform" if "log" in str(raw.get("distribution")) else "uniform"
        return f"{{{kind}: {format_value(ends)}}}" if all(map(is_number, ends)) else None

    # Ray Tune and Optuna write domains as calls: uniform(0, 1).
    name, bracket, values = str(raw).rstrip(") ").partition("(")
    if bracket and (called := find_nearest_name(name.strip(), DOMAINS, cutoff=0.85)):
        return f"{{{called}: [{values}]}}"
    if isinstance(raw, list) and raw:
        return f"{{{list_kind}: {format_value(raw, 40)}}}"
    return f"{{grid: {format_value([raw], 40)}}}" if raw not in (None, []) else None


def _parse_when(raw: dict[str, Any], report: Any) -> When | None:
    """Return the conditions of a domain; None, with a problem, if they are invalid."""
    raw_conditions = raw.get("when", {})
    if not isinstance(raw_conditions, dict) or ("when" in raw and not raw_conditions):
        report(
            ".when", "must map other keys to the value, or list of values, that they must have", given=raw_conditions
        )
        return None

    when: When = {}
    for other, values in raw_conditions.items():
        if values == []:
            report(join_key_path(".when", other), "must have at least one value", given=values)
            return None
        when[other] = tuple(values) if isinstance(values, list) else (values,)
    return when


def _check_condition(
    key_path: str,
    other: str,
    values: tuple[Any, ...],
    domains: dict[str, Domain],
    space_keys: Iterable[str],
    sections: dict[str, Any],
    findings: Findings,
) -> None:
    """Record a condition on a key that is unknown, cannot be a condition, or never has the value."""
    # A key outside the space must have a fixed value; `check_conditions_on_fixed_keys` compares it with the condition.
    fixed = read_key(sections, other)
    if other not in space_keys:
        if fixed is ABSENT:
            candidates = [*space_keys, *(name for name in list_dotted_keys(sections) if "." in name)]
            nearest = find_nearest_name(other, candidates)
            findings.add(key_path, "is neither in the space nor a key with a fixed value", nearest=nearest)
        return

    # A condition can only hold if the searched key has a list of values that includes one of the condition's.
    domain = domains.get(other)
    if domain is None:
        return  # a problem of this domain is recorded already
    if not isinstance(domain, (Choice, Grid)):
        message = f"{other} is drawn from {domain.kind}; a condition needs a choice, a grid or a fixed value"
        findings.add(key_path, message)
        return
    possible = [*domain.values, *([fixed] if domain.when and fixed is not ABSENT else [])]
    possible_keys = {make_value_key(value) for value in possible}
    for value in values:
        if make_value_key(value) not in possible_keys:
            nearest = find_nearest_name(value, [name for name in possible if isinstance(name, str)])
            allowed = ", ".join(format_value(option, 40) for option in possible)
            findings.add(key_path, f"{other} never has this value", given=value, allowed=allowed, nearest=nearest)


def check_conditions_on_fixed_keys(space: dict[str, Domain], sections: dict[str, Any], findings: Findings) -> None:
    """Record conditions on a key above or below a key of the space; note keys that are never drawn."""
    for key, domain in space.items():
        for other, values in domain.when.items():
            key_path = join_key_path(f"space.{key}.when", other)
            outer = next((name for name in space if is_within(other, name) or is_within(name, other)), None)
            fixed = read_key(sections, other)
            if other in space:
                continue
            if outer is not None:
                findings.add(
                    key_path, f"overlaps with {outer}, which the space draws", allowed="a searched or fixed key"
                )
            elif make_value_key(fixed) not in {make_value_key(value) for value in values}:
                lists = f"; for a list write [{format_value(fixed, 40)}]" if isinstance(fixed, list) else ""
                findings.note(
                    findings.find_location(key_path),
                    f"{key_path}: {other} is {format_value(fixed, 40)}, so {key} is never drawn{lists}",
                )


def _find_cyclic_keys(domains: dict[str, Domain], findings: Findings) -> list[str]:
    """Record cyclic conditions, and return the keys of the cycles."""
    # Keys are removed in an order in which they could be drawn, until only cycles are left.
    cyclic_keys: list[str] = []
    open_conditions = {key: [other for other in domain.when if other in domains] for key, domain in domains.items()}
    while open_conditions:
        if free_keys := [
            key for key, others in open_conditions.items() if not any(other in open_conditions for other in others)
        ]:
            for key in free_keys:
                del open_conditions[key]
            continue

        # Every remaining key waits for another, so following them leads into a cycle.
        trail = [next(iter(open_conditions))]
        while (
            next_key := next(other for other in open_conditions[trail[-1]] if other in open_conditions)
        ) not in trail:
            trail.append(next_key)
        cycle = trail[trail.index(next_key) :]
        message = f"conditions must not form a cycle: {' -> '.join([*cycle, next_key])}"
        findings.add(f"space.{next_key}.when", message)
        cyclic_keys += cycle
        for key in cycle:
            del open_conditions[key]
    return cyclic_keys


def find_drawn_sections(data: dict[str, Any]) -> set[str]:
    """Return the sections set as a whole, or by their `name`, in the space or in every listed configuration."""
    search, space = data.get("search"), data.get("space")
    listed = search.get("listed") if isinstance(search, dict) else None
    entries = [space, *(listed if isinstance(listed, list) else [])]
    keys = [
        {str(key).removesuffix(".name") for key in entry} if isinstance(entry, dict) else set() for entry in entries
    ]
    return keys[0].union(set.intersection(*keys[1:]) if keys[1:] else ()) & {*SECTIONS}


def check_misplaced_domains(sections: dict[str, Any], findings: Findings) -> None:
    """Record sections whose value is a domain, such as `model: {grid: [...]}`, which belongs under `space`."""
    for section, value in sections.items():
        kind = next((name for name in value if name in DOMAINS), None) if isinstance(value, dict) else None
        if kind and not value.keys() - {kind, "when"} and isinstance(value[kind], list):
            findings.add(section, f"a {kind} belongs under space", nearest=f"space: {{{section}: {{{kind}: ...}}}}")
            findings.mark_doubtful(section)
