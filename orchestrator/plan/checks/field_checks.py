"""Every value a sweep file gives or can draw, checked against the field it fills: key by key, not draw by draw.

So nothing depends on which values happen to be drawn, and the cost grows with the lists of a space, not with its grid
points. Where names are drawn (`model.name`), a value must fit every class that it can meet under its conditions.
Building configurations reports what is wrong between values that are each valid alone.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from orchestrator.plan.checks.bounds import find_misfits
from orchestrator.plan.configurations import assign_values
from orchestrator.plan.domains import find_range
from orchestrator.trainer import trainer_of
from search_spaces import ABSENT, SweepSpec, active_values
from search_spaces.grammar.domains import KINDS, Choice, Domain, Grid, value_key
from search_spaces.grammar.problems import Findings, ancestors, format_value, lookup, parent, within
from trainers.errors import Problem

T = TypeVar("T")
MOST = 100_000  # combinations that are looked at; conditions that hang together rarely make a hundred
NAMES = ("name", "kind")  # keys that say which class the keys beside them belong to


def check_fields(spec: SweepSpec, findings: Findings) -> set[str]:
    """Record problems of single values; return the dotted keys of their fields."""
    wrong = set(_check_listed(spec, findings) if spec.search.listed else _check_fixed(spec, findings))
    for key, domain in spec.space.items():
        if not _is_uncertain(key, findings):
            wrong |= set(_check_domain(spec, key, domain, findings))
    return wrong


# Fixed values ---------------------------------------------------------------------------------------------------------


def _check_fixed(spec: SweepSpec, findings: Findings) -> Iterator[str]:
    """Check the sections as written, with values that the space replaces; yield the keys of problems."""
    fixed = assign_values(spec, {})
    drawn = [key for key in spec.space if lookup(fixed, key) in (ABSENT, {}) and not findings.is_doubtful(key)]
    example = {key: _make_example(spec.space[key]) for key in drawn}
    names = [key for key in spec.space if key.rpartition(".")[2] in NAMES and not findings.is_doubtful(key)]
    always = [key for key, domain in spec.space.items() if not domain.when]
    problems = trainer_of(spec.sections).find_value_problems(fixed)
    unused = [problem for problem in problems if problem.key in names and problem.key in always]
    problems = [
        *(problem for section in spec.sections for problem in _find_section_problems(spec, section, names, example)),
        *unused,
    ]

    # Report problems, but none of a key that is drawn or that an earlier problem leaves unclear.
    incomplete = findings.is_doubtful("space") or findings.is_doubtful("search")
    for problem in problems:
        given: Any = lookup(fixed, problem.key)
        if given is ABSENT and (
            incomplete or any(within(key, problem.key) or within(problem.key, key) for key in drawn)
        ):
            continue
        if _is_uncertain(problem.key, findings):
            continue
        cover = next((key for key in always if within(problem.key, key)), None)
        said = f"; the space draws {cover}, so this value is never used; correct or remove it" if cover else ""
        nearest = problem.nearest or _describe_searched(problem, given)
        if isinstance(problem.given, str) and (given is None or isinstance(given, dict)):
            given = problem.given  # a label that is also the name of a class
        findings.report(replace(problem, message=problem.message + said, given=given, nearest=nearest))
        yield problem.key


def _describe_searched(problem: Problem, given: Any) -> str | None:
    """Return the entry of the space that a domain in the place of a fixed value means, None if it is no domain."""
    if problem.message == "unknown key" or "list" in (problem.allowed or "list"):
        return None
    domain = {"choice": given} if isinstance(given, list) and len(given) > 1 else given
    if not isinstance(domain, dict) or not any(name in KINDS for name in domain):
        return None
    return (
        f"space: {{{problem.key}: {{{', '.join(f'{name}: {format_value(value)}' for name, value in domain.items())}}}}}"
    )


def _find_section_problems(
    spec: SweepSpec, section: str, names: Sequence[str], example: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield the problems of one section for every combination of the class names drawn in it."""
    cases = list_cases(spec, [key for key in names if within(key, section)])
    trainer = trainer_of(spec.sections)
    problems = [
        {(problem.key, problem.message, problem.allowed): problem for problem in trainer.find_value_problems(sections)}
        for sections in (assign_values(spec, {**example, **case}) for case in cases)
    ]
    for problem, suffix in _join_cases(problems, cases):
        if within(problem.key, section):
            if suffix and problem.message == "unknown key":
                suffix += (
                    f"; values that only one class has belong in its own section: {_describe_sections(problem.key)}"
                )
            yield replace(problem, message=problem.message + suffix)


def _describe_sections(key: str) -> str:
    name = "kind" if parent(key).startswith("training.averages.") else "name"
    return f"space: {{{parent(key)}: {{grid: [{{{name}: ..., {key.rpartition('.')[2]}: ...}}, {{{name}: ...}}]}}}}"


# Listed configurations ------------------------------------------------------------------------------------------------


def _check_listed(spec: SweepSpec, findings: Findings) -> Iterator[str]:
    """Check every configuration of `search.listed`, each value at its own line; yield the keys of problems."""
    for index, values in enumerate(spec.search.listed or ()):
        if findings.is_doubtful(f"search.listed[{index}]") or any(map(findings.is_doubtful, values)):
            continue
        sections = assign_values(spec, values)
        for problem in trainer_of(spec.sections).find_value_problems(sections):
            if _is_uncertain(problem.key, findings):
                continue
            listed_key = next((key for key in values if within(problem.key, key)), None)
            address = f"search.listed[{index}].{problem.key}" if listed_key else problem.key
            findings.report(replace(problem, given=lookup(sections, problem.key)), address)
            yield problem.key


# Domains --------------------------------------------------------------------------------------------------------------


def _check_domain(spec: SweepSpec, key: str, domain: Domain, findings: Findings) -> Iterator[str]:
    """Check one domain for every combination of the class names along its key; yield the key for each problem."""
    names = [f"{outer}.{name}" for outer in ancestors(key) for name in NAMES if f"{outer}.{name}" in spec.space]
    cases = list_cases(spec, [name for name in names if name != key], active=key)
    misfits = [
        {(misfit.key, misfit.message, misfit.allowed): misfit for misfit in _list_misfits(spec, key, domain, case)}
        for case in cases
    ]
    for misfit, suffix in _join_cases(misfits, cases):
        findings.report(replace(misfit, message=misfit.message + suffix), f"space.{key}{misfit.key}")
        yield key


def _list_misfits(spec: SweepSpec, key: str, domain: Domain, case: Mapping[str, Any]) -> list[Problem]:
    """Return the values of a domain that the class named by this case rejects."""
    trainer = trainer_of(spec.sections)
    slot = trainer.find_slot(assign_values(spec, {**case, key: _make_example(domain)}), key)
    if slot is not None:
        return list(find_misfits(domain, slot))
    listed = isinstance(domain, (Choice, Grid))
    values = domain.values if isinstance(domain, (Choice, Grid)) else (_make_example(domain),)
    problems = []
    for index, value in enumerate(values):
        sections = assign_values(spec, {**case, key: value})
        for problem in trainer.find_value_problems(sections):
            if problem.key == key and problem.message == "unknown key":
                return [replace(problem, key="", given=ABSENT)]
            if within(problem.key, key):
                is_whole_value = not isinstance(value, Mapping) and problem.message != "is required"
                inner = "" if is_whole_value else problem.key.removeprefix(key)
                address = f".{domain.kind}[{index}]{inner}" if listed else f".{domain.kind}"
                problems.append(replace(problem, key=address, given=lookup(sections, key + inner)))
            elif within(key, problem.key) and lookup(assign_values(spec, case), problem.key) is ABSENT:
                return [replace(problem, key="", message=f"{problem.key}: {problem.message}", given=ABSENT)]
    return problems


# Which values keys can have together under the conditions of a space --------------------------------------------------


def list_cases(spec: SweepSpec, keys: Sequence[str], *, active: str | None = None) -> list[dict[str, Any]]:
    """Return every combination of values that `keys` of the space can have; keys that are not drawn are left out.

    The keys are choices and grids. With `active`, only combinations in which that key is drawn, too.
    """
    relevant = _add_conditions(spec, [*keys, *([active] if active else [])])
    drawn = [key for key in relevant if isinstance(spec.space[key], (Choice, Grid)) and key != active]
    values = [_list_values(spec, key, relevant, every=key in keys) for key in drawn]
    distinct: dict[Any, dict[str, Any]] = {}
    for combination in itertools.islice(itertools.product(*values), MOST):
        candidate = dict(zip(drawn, combination, strict=True)) | ({active: None} if active else {})
        held_values = active_values(spec, candidate)
        if active is None or active in held_values:
            relevant_values = {key: held_values[key] for key in keys if key in held_values}
            distinct.setdefault(value_key(relevant_values), relevant_values)
    return list(distinct.values())


def _add_conditions(spec: SweepSpec, keys: Iterable[str]) -> list[str]:
    """Return the keys of the space among `keys`, and all keys that their conditions depend on."""
    closed = [key for key in dict.fromkeys(keys) if key in spec.space]
    for key in closed:  # which grows
        closed += [other for other in spec.space[key].when if other in spec.space and other not in closed]
    return closed


def _list_values(spec: SweepSpec, key: str, relevant: Iterable[str], *, every: bool) -> list[Any]:
    """Return the values of a choice or grid; unless `every`, only one of all values that no condition tells apart."""
    domain = spec.space[key]
    assert isinstance(domain, (Choice, Grid))
    if every:
        return list(domain.values)
    tested = [spec.space[other].when[key] for other in relevant if key in spec.space[other].when]
    sets = [{value_key(value) for value in values} for values in tested]
    kinds: dict[tuple[bool, ...], Any] = {}
    for value in domain.values:
        kinds.setdefault(tuple(value_key(value) in values for values in sets), value)
    return list(kinds.values())


# Keys and words -------------------------------------------------------------------------------------------------------


def _make_example(domain: Domain) -> Any:
    return domain.values[0] if isinstance(domain, (Choice, Grid)) else find_range(domain)[0]


def _is_uncertain(key: str, findings: Findings) -> bool:
    """Return whether a value, or the name of the class that declares it, is unknown."""
    return findings.is_doubtful(key) or any(
        findings.is_doubtful(f"{outer}.{name}") for outer in ancestors(key) for name in NAMES
    )


def _join_cases(by_case: Sequence[Mapping[Any, T]], cases: Sequence[Mapping[str, Any]]) -> Iterator[tuple[T, str]]:
    """Yield each problem once, with the first case that has it; without a case if all have it."""
    first: dict[Any, T] = {}
    for problems in by_case:
        first |= {same: problem for same, problem in problems.items() if same not in first}
    for same, problem in first.items():
        where = [index for index, problems in enumerate(by_case) if same in problems]
        yield problem, "" if len(where) == len(cases) else _describe_case(cases[where[0]])


def _describe_case(case: Mapping[str, Any]) -> str:
    return f" (with {', '.join(f'{key}: {format_value(value, 40)}' for key, value in case.items())})" if case else ""
