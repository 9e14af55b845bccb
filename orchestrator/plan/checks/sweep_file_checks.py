"""Report all problems of a sweep file at once: grammar, single values, and combinations of values."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from orchestrator.code.user_code import import_spec_modules
from orchestrator.interface.trainer import DeclaredObjective
from orchestrator.plan.checks.field_checks import check_fields
from orchestrator.plan.checks.trials import try_user_code
from orchestrator.plan.configurations import (
    Configuration,
    assign_values,
    find_unmeasured_parts,
    list_warnings,
    make_configurations,
)
from orchestrator.plan.optuna_draws import draw_configurations, draw_sample, list_generations
from orchestrator.trainer_choice import get_trainer
from search_spaces import FileProblem, Grid, SweepFileError, SweepSpec
from search_spaces.grammar.load import AVERAGES, Reading
from search_spaces.grammar.objective import ShareAbove
from search_spaces.grammar.problems import Findings, is_within, join_key_path
from search_spaces.grammar.sections import SECTIONS
from search_spaces.grammar.space import MAX_GRID_POINTS

SAMPLES = 50  # built configurations of larger searches
UNIMPORTED = "fix this first; names and values in task, model, training and evaluation were not checked"
UNBUILT = "fix this first; combinations of values were not checked"


def check_parsed_sweep(reading: Reading) -> SweepSpec:
    """Return the specification of a read sweep file, after importing the user's modules in it.

    Raises SweepFileError for problems of the grammar, together with the problems of single values, in the order of
    lines. Without problems of the grammar, `build_configurations` checks the values.
    """
    spec, findings, unchecked = reading.spec, reading.findings, reading.unchecked
    if spec is not None and not _import_modules(spec, findings):
        raise SweepFileError(findings.problems, UNIMPORTED)

    # A user wants all problems in a single run, so values are checked as far as the grammar allows.
    if spec is not None and findings.problems:
        if _can_be_built(spec, findings):
            _build_and_report(complete_objective(spec), _draw_values(spec), findings)
        else:
            check_fields(spec, findings)
            unchecked = UNBUILT
        raise SweepFileError(findings.problems, unchecked)
    return complete_objective(reading.checked_spec())


def complete_objective(spec: SweepSpec) -> SweepSpec:
    """Return the specification with the plain name and the declared direction of its metric.

    The direction stays assumed if the metric has none, or different directions in the drawn tasks.
    """
    spec = _remove_distribution(spec)
    if not spec.direction_is_assumed:
        return spec
    import_spec_modules(spec)
    declarations = _read_declarations(spec, _draw_values(spec))
    metrics = (declaration.metrics.get(spec.objective.metric) for declaration in declarations)
    directions = {metric.direction for metric in metrics if metric is not None}
    return spec.with_direction(directions.pop()) if directions in ({"minimize"}, {"maximize"}) else spec


def _read_declarations(spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[DeclaredObjective]:
    """Yield the declared metrics, averages and lengths of each draw whose task can be built."""
    trainer = get_trainer(spec.sections)
    return filter(None, (trainer.read_declared_objective(assign_values(spec, values)) for _, values in draws))


def _draw_values(spec: SweepSpec) -> list[tuple[int, Mapping[str, Any]]]:
    """Return numbers and values of every grid point, with enough draws for SAMPLES configurations."""
    return [(draw.number, draw.values) for draw in draw_sample(spec, SAMPLES)]


def _remove_distribution(spec: SweepSpec) -> SweepSpec:
    """Return the specification with the plain metric name if the file prefixed it with the task's first distribution.

    Example: accuracy.iid -> accuracy if `iid` is the trained distribution.
    """
    base, dot, distribution = spec.objective.metric.rpartition(".")
    draws = ((draw.number, draw.values) for draw in (draw_sample(spec, 1)[:1] if dot else ()))
    for declaration in _read_declarations(spec, draws):
        if distribution == declaration.distribution:
            return spec.model_copy(update={"objective": spec.objective.model_copy(update={"metric": base})})
    return spec


def _import_modules(spec: SweepSpec, findings: Findings) -> bool:
    """Import the user's modules, and record problems; return whether all are imported."""
    try:
        import_spec_modules(spec)
    except SweepFileError as error:
        for problem in error.problems:
            findings.add(problem.key, problem.message, location=spec.find_location(problem.key))
        return False
    return not findings.is_doubtful("imports")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The summary of built configurations for `validate`: their number, warnings and evaluated lengths."""

    configuration_count: int  # built configurations
    warnings: list[str]
    evaluated: str | None  # the evaluated lengths of the first configuration; None unless it has several distributions


def summarize_sample(spec: SweepSpec) -> Sample:
    """Return a description of every grid point, with enough draws for SAMPLES configurations, after building them.

    Raises SweepFileError with every problem found.
    """
    built = build_configurations(spec, _draw_values(spec))
    member = built[0].build_member(spec.seeds[0])
    measurements = get_trainer(spec.sections).list_measurements(member)
    evaluated = measurements.describe_lengths() if measurements.list_further_distributions() else None
    warnings = list_warnings(spec, [configuration.build_member(spec.seeds[0]) for configuration in built])
    return Sample(configuration_count=len(built), warnings=warnings, evaluated=evaluated)


def build_configurations(
    spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]], *, should_try_code: bool = True
) -> list[Configuration]:
    """Return the configurations of (number, values) draws, after checking every value that the sweep can draw.

    Raises SweepFileError with every problem, also of values that none of these draws has. With `should_try_code` the
    user's tasks and models are tried, and their problems are reported, too.
    """
    import_spec_modules(spec)
    findings = spec.copy_findings()
    built = _build_and_report(spec, draws, findings)
    findings.raise_any()
    if should_try_code:
        try_user_code(spec, built, findings)
        findings.raise_any()
    return built


def build_sample_configurations(spec: SweepSpec) -> list[Configuration]:
    """Return the configurations of every grid point, with enough draws for SAMPLES; does not try the user's code.

    Raises SweepFileError with every problem found.
    """
    return build_configurations(spec, _draw_values(spec), should_try_code=False)


def build_first_generation(spec: SweepSpec) -> list[Configuration]:
    """Return all configurations of the first generation, after every check that needs no worker.

    Later draws of tpe are not known yet; a random sample of them is checked, too. Raises SweepFileError with every
    problem, including data that are missing on this machine.
    """
    if spec.search.sampler == "tpe":
        build_sample_configurations(spec)
    drawn = draw_configurations(spec, list_generations(spec)[0])
    built = build_configurations(spec, [(draw.number, draw.values) for draw in drawn])
    check_data(spec, built)
    return built


def check_data(spec: SweepSpec, built: Iterable[Configuration]) -> None:
    """Raise SweepFileError if data of these configurations' tasks cannot be used on this machine."""
    findings = spec.copy_findings()
    for problem in get_trainer(spec.sections).find_local_problems(
        configuration.build_member(spec.seeds[0]) for configuration in built
    ):
        findings.add_problem(problem, problem.key, location=spec.find_location(problem.key))
    findings.raise_any()


def _build_and_report(
    spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]], findings: Findings
) -> list[Configuration]:
    """Return the configurations of the draws; record problems at their lines, each problem of a single value once."""
    draws = list(draws)
    reported_keys = {problem.key for problem in findings.problems}
    problem_keys = check_fields(spec, findings)

    # Some problems of the objective depend on the metric, which is known only after configurations are built.
    try:
        built = make_configurations(spec, draws)
        if built and spec.direction_is_assumed:
            message = "is missing, and the metric has none of its own"
            findings.add("objective.direction", message, allowed="minimize, maximize")
        elif built and isinstance(spec.objective.seeds, ShareAbove) and spec.objective.direction == "minimize":
            findings.add(
                "objective.seeds", "needs a metric that is maximized", allowed="a quantile, median, mean, max, min"
            )
        return built
    except SweepFileError as error:
        problems = [*error.problems, *(_check_declared_objective(spec, draws) if problem_keys else ())]

    # Report problems, unless a problem of the grammar or of a single value covers them.
    if problem_keys & {
        AVERAGES,
        join_key_path(AVERAGES, spec.objective.average),
    }:  # the label may be in the unreadable section
        reported_keys.add("objective.average")
    for problem in problems:
        if problem.key not in reported_keys and not any(
            is_within(problem.key, key) or is_within(key, problem.key) for key in problem_keys
        ):
            findings.add_problem(problem, location=spec.find_location(problem.key))
    return []


def _check_declared_objective(spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]]) -> list[FileProblem]:
    """Return a problem for each part of the objective that the first draw with a valid task does not declare."""
    for declaration in _read_declarations(spec, draws):
        if declaration.averages is not None and declaration.lengths is not None:
            return find_unmeasured_parts(spec, declaration.metrics, declaration.averages, declaration.lengths)
    return []


def _can_be_built(spec: SweepSpec, findings: Findings) -> bool:
    """Return whether the parts of a file that decide its configurations are valid, in spite of other problems."""
    decisive = [*SECTIONS, "space", "search.listed", *(["search.sampler"] if spec.search.listed else [])]
    points = prod(len(domain.values) for domain in spec.space.values() if isinstance(domain, Grid))
    return points <= MAX_GRID_POINTS and not any(map(findings.is_doubtful, decisive))
