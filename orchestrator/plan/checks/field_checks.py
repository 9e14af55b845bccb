"""Check every value that a sweep file sets or can draw against its field, key by key instead of draw by draw.

The result does not depend on which values are drawn, and the cost grows with the lists of a space, not with its grid
points. If class names are drawn (`model.name`), a value must fit every class that is possible under its conditions.
Problems between individually valid values are reported when configurations are built.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from orchestrator.plan.checks.bounds import find_domain_problems
from orchestrator.plan.checks.unimported import suggest_import
from orchestrator.plan.configurations import assign_values
from orchestrator.plan.optuna_distributions import find_range
from orchestrator.trainer_choice import get_trainer
from search_spaces import ABSENT, SweepSpec, select_active_values
from search_spaces.grammar.domains import DOMAINS, Choice, Domain, Grid, make_value_key
from search_spaces.grammar.problems import Findings, format_value, get_outer_key_path, is_within, list_outer_key_paths
from search_spaces.grammar.sections import read_key
from trainers.errors import Problem
from trainers.settings.fields_by_key import check_single_values, find_field

T = TypeVar("T")
MAX_COMBINATIONS = 100_000  # checked combinations of class names; dependent conditions rarely have a hundred
CLASS_KEYS = ("name", "kind")  # keys that name the class to which their sibling keys belong


def check_fields(spec: SweepSpec, findings: Findings) -> set[str]:
    """Record problems of single values; return the dotted keys of their fields."""
    problem_keys = set(
        _check_listed_configurations(spec, findings) if spec.search.listed else _check_fixed_values(spec, findings)
    )
    for key, domain in spec.space.items():
        if not _is_doubtful_with_class(key, findings):
            problem_keys |= set(_check_domain(spec, key, domain, findings))
    return problem_keys


# Fixed values ---------------------------------------------------------------------------------------------------------


def _check_fixed_values(spec: SweepSpec, findings: Findings) -> Iterator[str]:
    """Check the sections as written, including values that the space replaces; yield the keys of problems."""
    # Sections lack required values that the space draws: check them with an example of each domain.
    fixed_sections = assign_values(spec, {})
    drawn_keys = [
        key for key in spec.space if read_key(fixed_sections, key) in (ABSENT, {}) and not findings.is_doubtful(key)
    ]
    examples = {key: _make_example(spec.space[key]) for key in drawn_keys}
    class_keys = [key for key in spec.space if key.rpartition(".")[2] in CLASS_KEYS and not findings.is_doubtful(key)]
    unconditional = [key for key, domain in spec.space.items() if not domain.when]
    problems = check_single_values(fixed_sections, get_trainer(spec.sections).member_class)
    unused_problems = [problem for problem in problems if problem.key in class_keys and problem.key in unconditional]
    problems = [
        *(
            problem
            for section in spec.sections
            for problem in _find_section_problems(spec, section, class_keys, examples)
        ),
        *unused_problems,
    ]

    # A missing value may be drawn, and an earlier problem may be the cause of this one.
    is_incomplete = findings.is_doubtful("space") or findings.is_doubtful("search")
    for problem in problems:
        given: Any = read_key(fixed_sections, problem.key)
        if given is ABSENT and (
            is_incomplete or any(is_within(key, problem.key) or is_within(problem.key, key) for key in drawn_keys)
        ):
            continue
        if _is_doubtful_with_class(problem.key, findings):
            continue
        drawn_key = next((key for key in unconditional if is_within(problem.key, key)), None)
        advice = f"; never used, because the space draws {drawn_key}; correct or remove it" if drawn_key else ""
        suggestion = problem.nearest or _suggest_space_entry(problem, given)
        if isinstance(problem.given, str) and (given is None or isinstance(given, dict)):
            given = problem.given  # a label that is also the name of a class
        problem = replace(problem, message=problem.message + advice, given=given, nearest=suggestion)
        findings.add_problem(suggest_import(problem, spec))
        yield problem.key


def _suggest_space_entry(problem: Problem, given: Any) -> str | None:
    """Return the space entry to suggest for a domain written as a fixed value; None if the value is not a domain."""
    if problem.message == "unknown key" or "list" in (problem.allowed or "list"):
        return None
    domain = {"choice": given} if isinstance(given, list) and len(given) > 1 else given
    if not isinstance(domain, dict) or not any(name in DOMAINS for name in domain):
        return None
    return (
        f"space: {{{problem.key}: {{{', '.join(f'{name}: {format_value(value)}' for name, value in domain.items())}}}}}"
    )


def _find_section_problems(
    spec: SweepSpec, section: str, class_keys: Sequence[str], examples: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield the problems of a section for every combination of its drawn class names."""
    # A drawn class name decides which keys exist, so a problem may exist in some cases only.
    cases = list_cases(spec, [key for key in class_keys if is_within(key, section)])
    member_class = get_trainer(spec.sections).member_class
    problems = [
        {
            (problem.key, problem.message, problem.allowed): problem
            for problem in check_single_values(sections, member_class)
        }
        for sections in (assign_values(spec, {**examples, **case}) for case in cases)
    ]
    for problem, suffix in _join_cases(problems, cases):
        if is_within(problem.key, section):
            if suffix and problem.message == "unknown key":
                suffix += (
                    f"; draw the whole section to search a key that only one class has: {_suggest_section(problem.key)}"
                )
            yield replace(problem, message=problem.message + suffix)


def _suggest_section(key: str) -> str:
    """Return the space entry that draws the section around a key as a whole, as text."""
    section = get_outer_key_path(key)
    name = "kind" if section.startswith("training.averages.") else "name"
    return f"space: {{{section}: {{grid: [{{{name}: ..., {key.rpartition('.')[2]}: ...}}, {{{name}: ...}}]}}}}"


# Listed configurations ------------------------------------------------------------------------------------------------


def _check_listed_configurations(spec: SweepSpec, findings: Findings) -> Iterator[str]:
    """Check every configuration of `search.listed`, each value at its own line; yield the keys of problems."""
    for index, values in enumerate(spec.search.listed or ()):
        if findings.is_doubtful(f"search.listed[{index}]") or any(map(findings.is_doubtful, values)):
            continue
        # Report a problem of a listed value at its line in the list, any other at the fixed value that causes it.
        sections = assign_values(spec, values)
        for problem in check_single_values(sections, get_trainer(spec.sections).member_class):
            if _is_doubtful_with_class(problem.key, findings):
                continue
            listed_key = next((key for key in values if is_within(problem.key, key)), None)
            key_path = f"search.listed[{index}].{problem.key}" if listed_key else problem.key
            problem = replace(problem, given=read_key(sections, problem.key))
            findings.add_problem(suggest_import(problem, spec), key_path)
            yield problem.key


# Domains --------------------------------------------------------------------------------------------------------------


def _check_domain(spec: SweepSpec, key: str, domain: Domain, findings: Findings) -> Iterator[str]:
    """Check a domain for every combination of the class names above its key; yield the key for each problem."""
    # If the space draws the class that declares the key, the bounds of the key may differ between the classes.
    class_keys = [
        f"{outer}.{name}"
        for outer in list_outer_key_paths(key)
        for name in CLASS_KEYS
        if f"{outer}.{name}" in spec.space
    ]
    cases = list_cases(spec, [name for name in class_keys if name != key], active=key)
    problems_by_case = [
        {
            (problem.key, problem.message, problem.allowed): problem
            for problem in _list_domain_problems(spec, key, domain, case)
        }
        for case in cases
    ]
    for problem, suffix in _join_cases(problems_by_case, cases):
        problem = replace(problem, message=problem.message + suffix)
        findings.add_problem(suggest_import(problem, spec), f"space.{key}{problem.key}")
        yield key


def _list_domain_problems(spec: SweepSpec, key: str, domain: Domain, case: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each value of a domain that the classes of this case reject; keys are relative to `key`."""
    member_class = get_trainer(spec.sections).member_class
    field = find_field(assign_values(spec, {**case, key: _make_example(domain)}), key, member_class)
    if field is not None:
        return list(find_domain_problems(domain, field))

    # A key without a field has no bounds to compare with, so each value is tried in its section.
    is_list = isinstance(domain, (Choice, Grid))
    values = domain.values if isinstance(domain, (Choice, Grid)) else (_make_example(domain),)
    problems = []
    for index, value in enumerate(values):
        sections = assign_values(spec, {**case, key: value})
        for problem in check_single_values(sections, member_class):
            if problem.key == key and problem.message == "unknown key":
                return [replace(problem, key="", given=ABSENT)]
            if is_within(problem.key, key):
                is_whole_value = not isinstance(value, Mapping) and problem.message != "is required"
                inner = "" if is_whole_value else problem.key.removeprefix(key)
                subkey = f".{domain.kind}[{index}]{inner}" if is_list else f".{domain.kind}"
                problems.append(replace(problem, key=subkey, given=read_key(sections, key + inner)))
            elif is_within(key, problem.key) and read_key(assign_values(spec, case), problem.key) is ABSENT:
                return [replace(problem, key="", message=f"{problem.key}: {problem.message}", given=ABSENT)]
    return problems


# Combinations of values under the conditions of a space ---------------------------------------------------------------


def list_cases(spec: SweepSpec, keys: Sequence[str], *, active: str | None = None) -> list[dict[str, Any]]:
    """Return the possible combinations of values of `keys`, without keys that are not drawn.

    The keys are choices and grids. With `active`, only combinations in which that key is drawn are returned.
    """
    relevant_keys = _add_conditions(spec, [*keys, *([active] if active else [])])
    drawn_keys = [key for key in relevant_keys if isinstance(spec.space[key], (Choice, Grid)) and key != active]
    values = [_list_values(spec, key, relevant_keys, all_values=key in keys) for key in drawn_keys]
    distinct_cases: dict[Any, dict[str, Any]] = {}
    for combination in itertools.islice(itertools.product(*values), MAX_COMBINATIONS):
        candidate = dict(zip(drawn_keys, combination, strict=True)) | ({active: None} if active else {})
        active_candidate = select_active_values(spec, candidate)
        if active is None or active in active_candidate:
            relevant_values = {key: active_candidate[key] for key in keys if key in active_candidate}
            distinct_cases.setdefault(make_value_key(relevant_values), relevant_values)
    return list(distinct_cases.values())


def _add_conditions(spec: SweepSpec, keys: Iterable[str]) -> list[str]:
    """Return the keys of the space among `keys`, and all keys that their conditions depend on."""
    relevant_keys = [key for key in dict.fromkeys(keys) if key in spec.space]
    for key in relevant_keys:  # grows while it is read: conditions of conditions
        relevant_keys += [other for other in spec.space[key].when if other in spec.space and other not in relevant_keys]
    return relevant_keys


def _list_values(spec: SweepSpec, key: str, relevant_keys: Iterable[str], *, all_values: bool) -> list[Any]:
    """Return the values of a choice or grid; without `all_values` one of each group that all conditions treat alike."""
    domain = spec.space[key]
    assert isinstance(domain, (Choice, Grid))
    if all_values:
        return list(domain.values)

    # A choice of a thousand values with a condition on one of them has two groups.
    condition_values = [spec.space[other].when[key] for other in relevant_keys if key in spec.space[other].when]
    condition_keys = [{make_value_key(value) for value in values} for values in condition_values]
    representatives: dict[tuple[bool, ...], Any] = {}
    for value in domain.values:
        representatives.setdefault(tuple(make_value_key(value) in values for values in condition_keys), value)
    return list(representatives.values())


# Examples and descriptions --------------------------------------------------------------------------------------------


def _make_example(domain: Domain) -> Any:
    """Return a value that a domain can draw."""
    return domain.values[0] if isinstance(domain, (Choice, Grid)) else find_range(domain)[0]


def _is_doubtful_with_class(key: str, findings: Findings) -> bool:
    """Return whether an earlier problem makes the value, or the class that declares its key, uncertain."""
    return findings.is_doubtful(key) or any(
        findings.is_doubtful(f"{outer}.{name}") for outer in list_outer_key_paths(key) for name in CLASS_KEYS
    )


def _join_cases(by_case: Sequence[Mapping[Any, T]], cases: Sequence[Mapping[str, Any]]) -> Iterator[tuple[T, str]]:
    """Yield each distinct problem; unless all cases have it, with a description of its first case."""
    first_problems: dict[Any, T] = {}
    for problems in by_case:
        first_problems |= {
            identity: problem for identity, problem in problems.items() if identity not in first_problems
        }
    for identity, problem in first_problems.items():
        indices = [index for index, problems in enumerate(by_case) if identity in problems]
        yield problem, "" if len(indices) == len(cases) else _describe_case(cases[indices[0]])


def _describe_case(case: Mapping[str, Any]) -> str:
    """Return the class names of a case as the end of a message: " (with model.name: gpt)"."""
    return f" (with {', '.join(f'{key}: {format_value(value, 40)}' for key, value in case.items())})" if case else ""
