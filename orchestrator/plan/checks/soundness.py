"""Reports everything that is wrong with a sweep file at once: grammar, single values, and values that do not fit."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from orchestrator.code.own_code import import_for
from orchestrator.interface.trainer import DeclaredObjective
from orchestrator.plan.checks.field_checks import check_fields
from orchestrator.plan.checks.trials import try_own_code
from orchestrator.plan.configurations import Configuration, assign_values, configure, find_unmeasured, list_warnings
from orchestrator.plan.distributions import describe_evaluated, list_further_distributions
from orchestrator.plan.search import draw_configurations, draw_sample, list_generations
from orchestrator.trainer import trainer_of
from search_spaces import Grid, Problem, SweepFileError, SweepSpec
from search_spaces.grammar.load import AVERAGES, Reading
from search_spaces.grammar.objective import ShareAbove
from search_spaces.grammar.problems import SECTIONS, Findings, child, within
from search_spaces.grammar.space import MAX_GRID_POINTS

SAMPLES = 50  # random draws that are built when there are more
UNIMPORTED = "names and values in task, model, training and evaluation are checked once these modules are imported"
UNBUILT = "whether the values fit together is checked once this is fixed"


def check_reading(reading: Reading) -> SweepSpec:
    """Return the specification of a sweep file that was read, after importing the user's modules that it names.

    Raises SweepFileError for a file with problems of the grammar, with those that `trainers` finds in single values, in
    the order of lines. Otherwise `build_configurations` checks the values.
    """
    spec, findings, unchecked = reading.spec, reading.findings, reading.unchecked
    if spec is not None and not _import_modules(spec, findings):
        raise SweepFileError(findings.problems, UNIMPORTED)
    if spec is not None and findings.problems:
        if _can_be_built(spec, findings):
            _build(complete_objective(spec), _draw_values(spec), findings)
        else:
            check_fields(spec, findings)
            unchecked = UNBUILT
        raise SweepFileError(findings.problems, unchecked)
    return complete_objective(reading.checked_spec())


def complete_objective(spec: SweepSpec) -> SweepSpec:
    """Return the specification with the objective as its task declares it: the metric's plain name, its direction.

    The direction stays assumed if the metric has none, or not the same in all tasks; then nothing is built of it.
    """
    spec = _remove_distribution(spec)
    if not spec.direction_is_assumed:
        return spec
    import_for(spec)
    judged = (declared.metrics.get(spec.objective.metric) for declared in _read_declarations(spec, _draw_values(spec)))
    directions = {metric.direction for metric in judged if metric is not None}
    return spec.with_direction(directions.pop()) if directions in ({"minimize"}, {"maximize"}) else spec


def _read_declarations(spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[DeclaredObjective]:
    """Yield each draw's declaration of the objective, except for draws that cannot be built far enough."""
    trainer = trainer_of(spec.sections)
    return filter(None, (trainer.read_declared_objective(assign_values(spec, values)) for _, values in draws))


def _draw_values(spec: SweepSpec) -> list[tuple[int, Mapping[str, Any]]]:
    """Draw every grid point, with as many draws as make SAMPLES configurations."""
    return [(draw.number, draw.values) for draw in draw_sample(spec, SAMPLES)]


def _remove_distribution(spec: SweepSpec) -> SweepSpec:
    """Return the specification with the plain metric name if the file prefixed it with the task's first distribution.

    accuracy.iid -> accuracy, where `iid` is the distribution that is trained on.
    """
    base, dot, distribution = spec.objective.metric.rpartition(".")
    draws = ((draw.number, draw.values) for draw in (draw_sample(spec, 1)[:1] if dot else ()))
    for declared in _read_declarations(spec, draws):
        if distribution == declared.distribution:
            return spec.model_copy(update={"objective": spec.objective.model_copy(update={"metric": base})})
    return spec


def _import_modules(spec: SweepSpec, findings: Findings) -> bool:
    """Import the modules of the user's own; problems are recorded."""
    try:
        import_for(spec)
    except SweepFileError as error:
        for problem in error.problems:
            findings.add(problem.key, problem.message, place=spec.place(problem.key))
        return False
    return not findings.is_doubtful("imports")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The result of `build_sample`: the number of built configurations, warnings, and the evaluated lengths.

    `evaluated` is that of the first configuration as text, None unless it has several distributions.
    """

    built: int
    warnings: list[str]
    evaluated: str | None


def build_sample(spec: SweepSpec) -> Sample:
    """Build every grid point, with as many draws as make SAMPLES configurations.

    Raises SweepFileError with every problem found.
    """
    built = build_configurations(spec, _draw_values(spec))
    member = built[0].member(spec.seeds[0])
    measured = trainer_of(spec.sections).list_measurements(member)
    evaluated = describe_evaluated(measured) if list_further_distributions(measured) else None
    warnings = list_warnings(spec, [configuration.member(spec.seeds[0]) for configuration in built])
    return Sample(built=len(built), warnings=warnings, evaluated=evaluated)


def build_configurations(spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Configuration]:
    """Build (number, values) draws into configurations, and check every value that the sweep can draw.

    Raises SweepFileError with every problem found, also of values that none of these draws has.
    """
    import_for(spec)
    findings = spec.findings()
    built = _build(spec, draws, findings)
    findings.raise_any()
    try_own_code(spec, built, findings)
    findings.raise_any()
    return built


def build_drawn(spec: SweepSpec) -> list[Configuration]:
    """Draw every grid point, with as many draws as make SAMPLES configurations; the user's own code is not run yet.

    Raises SweepFileError with every problem found.
    """
    import_for(spec)
    findings = spec.findings()
    built = _build(spec, _draw_values(spec), findings)
    findings.raise_any()
    return built


def build_first_generation(spec: SweepSpec) -> list[Configuration]:
    """Build every configuration of the first generation, so that nothing is left to go wrong on a worker.

    What tpe will draw later is not known yet, so a sample of what it can draw is built, too. Raises SweepFileError with
    every problem found, data that are not on this machine among them.
    """
    if spec.search.sampler == "tpe":
        build_drawn(spec)
    drawn = draw_configurations(spec, list_generations(spec)[0])
    built = build_configurations(spec, [(draw.number, draw.values) for draw in drawn])
    check_data(spec, built)
    return built


def check_data(spec: SweepSpec, built: Iterable[Configuration]) -> None:
    """Raise SweepFileError where data that the tasks of these configurations depend on cannot be used here."""
    findings = spec.findings()
    for problem in trainer_of(spec.sections).find_local_problems(
        configuration.member(spec.seeds[0]) for configuration in built
    ):
        findings.report(problem, problem.key, place=spec.place(problem.key))
    findings.raise_any()


def _build(spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]], findings: Findings) -> list[Configuration]:
    """Return the configurations of some draws; record problems, those of single values once and at their line."""
    draws = list(draws)
    known = {problem.key for problem in findings.problems}  # of the grammar, which has said it first
    wrong = check_fields(spec, findings)

    # Build them; the objective has problems that only a built configuration shows.
    try:
        built = configure(spec, draws)
        if built and spec.direction_is_assumed:
            message = "is missing, and the metric has none of its own"
            findings.add("objective.direction", message, allowed="minimize, maximize")
        elif built and isinstance(spec.objective.seeds, ShareAbove) and spec.objective.direction == "minimize":
            findings.add(
                "objective.seeds", "needs a metric that is maximized", allowed="a quantile, median, mean, max, min"
            )
        return built
    except SweepFileError as error:
        problems = [*error.problems, *(_find_unmeasured(spec, draws) if wrong else ())]

    # Report a problem unless the grammar, or a problem of a single value at its line, covers it.
    if wrong & {AVERAGES, child(AVERAGES, spec.objective.average)}:  # the label may be there, and cannot be read
        known.add("objective.average")
    for problem in problems:
        if problem.key not in known and not any(within(problem.key, key) or within(key, problem.key) for key in wrong):
            findings.report(problem, place=spec.place(problem.key))
    return []


def _find_unmeasured(spec: SweepSpec, draws: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Problem]:
    """Return problems for names of the objective that the first draw which can be built does not measure."""
    for declared in _read_declarations(spec, draws):
        if declared.averages is not None and declared.lengths is not None:
            return find_unmeasured(spec, declared.metrics, declared.averages, declared.lengths)
    return []


def _can_be_built(spec: SweepSpec, findings: Findings) -> bool:
    """Return whether the problems of a file leave its configurations as the user meant them."""
    unknown = [*SECTIONS, "space", "search.listed", *(["search.sampler"] if spec.search.listed else [])]
    points = prod(len(domain.values) for domain in spec.space.values() if isinstance(domain, Grid))
    return points <= MAX_GRID_POINTS and not any(map(findings.is_doubtful, unknown))
