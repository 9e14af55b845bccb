"""Draw the values of configurations with Optuna samplers (ask and tell), by configuration number.

Configuration number `n` belongs to draw `n // G` and grid point `n % G` of G grid points; if values were added to a
grid, earlier numbers keep their draws and points. A draw of the samplers random and qmc depends only on (search seed,
draw). The sampler tpe works in generations: a new study gets the scores of all earlier configurations by number, then
draws the next generation. So its draws depend on results, but not on restarts or on the order in which packs finish.
The result of a configuration is its score: the median over seeds, with failed seeds counted according to
`objective.failed_seeds`.
"""

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, QMCSampler, RandomSampler, TPESampler
from optuna.trial import TrialState, create_trial

from orchestrator.plan.optuna_distributions import (
    choose_optuna_value,
    convert_from_optuna,
    convert_to_optuna,
    make_distribution,
    suggest_value,
)
from orchestrator.text.wording import format_count
from search_spaces import SweepSpec, list_grid_points, select_active_values
from search_spaces.grammar.domains import Grid, make_plain, make_value_key


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The values of a configuration by dotted key, without domains whose condition fails.

    `draw_index` is the number of the random draw, which all grid points share.
    """

    number: int
    values: dict[str, Any]
    draw_index: int


@dataclass(frozen=True, kw_only=True)
class EarlierResult:
    """The result of an earlier draw; `score` may be infinite, and is None if the configuration failed."""

    values: Mapping[str, Any]
    score: float | None


def count_configurations(spec: SweepSpec) -> int:
    """Return the number of configurations that the sweep draws, including duplicates."""
    if spec.search.sampler == "listed":
        return len(spec.search.listed or ())
    return _count_draws(spec) * len(list_grid_points(spec))


def describe_size(spec: SweepSpec, repeated: int = 0) -> str:
    """Return the size of a sweep as text: "24 configurations (8 draws x 3 grid points) x 3 seeds".

    repeated: configurations with the values of an earlier one, which do not run.
    """
    count, points = count_configurations(spec), len(list_grid_points(spec))
    parts = [f"{count // points} draws x {points} grid points"] if 1 < points < count else []
    parts += [f"{repeated} of {count} were drawn before"] if repeated else []
    details = f" ({'; '.join(parts)})" if parts else ""
    return f"{format_count(count - repeated, 'configuration')}{details} x {format_count(len(spec.seeds), 'seed')}"


def list_generations(spec: SweepSpec) -> list[range]:
    """Return the configuration numbers of each generation: `search.generation` for tpe, else a single generation."""
    count = count_configurations(spec)
    step = spec.search.generation if spec.search.sampler == "tpe" else count
    return [range(start, min(start + step, count)) for start in range(0, count, step)]


def draw_sample(spec: SweepSpec, count: int) -> list[Draw]:
    """Return every grid point, and at least `count` configurations if the random domains have that many.

    Later draws of the sampler tpe depend on results, so its sample is drawn at random.
    """
    if spec.search.sampler == "listed":
        return draw_configurations(spec, range(count_configurations(spec)))
    if spec.search.sampler == "tpe":
        changes = {"sampler": "random", "configurations": max(count, spec.search.configurations or 1)}
        spec = spec.model_copy(update={"search": spec.search.model_copy(update=changes)})
    points = len(list_grid_points(spec))
    return draw_configurations(spec, range(points * min(_count_draws(spec), -(-count // points))))


def draw_configurations(
    spec: SweepSpec,
    numbers: range,
    results: Sequence[EarlierResult] = (),
    earlier_draws: Mapping[int, Draw] | None = None,
) -> list[Draw]:
    """Return the draws of a generation.

    results: the results of all earlier configurations by number, which only tpe reads. earlier_draws: the draws of
    earlier runs by number, possibly from a grid with fewer values.
    """
    if spec.search.sampler == "listed":
        listed = make_plain(spec.search.listed or ())
        return [Draw(number=number, values=listed[number], draw_index=0) for number in numbers]

    # Numbers count through the grid points of a draw before the next draw.
    points = list_grid_points(spec)
    domains = {key: domain for key, domain in spec.space.items() if not isinstance(domain, Grid)}
    draw_points = (
        _assign_draw_points(points, count_configurations(spec), earlier_draws)
        if earlier_draws
        else {n: divmod(n, len(points)) for n in numbers}
    )

    # All grid points of a draw have the same random values, which makes the arms of a grid comparable.
    indices = [draw_points[number][0] for number in numbers]
    first, last = min(indices, default=0), max(indices, default=-1) + 1
    if spec.search.sampler == "tpe":
        random_values = _draw_tpe(spec, domains, len(numbers), results)
    else:
        random_values = _draw_without_results(spec, domains, first, last)

    # Conditions may depend on grid values, so inactive keys are only removed from the joined values.
    draws = []
    for number in numbers:
        index, point = draw_points[number]
        values = {**points[point], **random_values[index - first]}
        draws.append(Draw(number=number, values=select_active_values(spec, values), draw_index=index))
    return draws


def _assign_draw_points(
    points: Sequence[Mapping[str, Any]], count: int, earlier_draws: Mapping[int, Draw]
) -> list[tuple[int, int]]:
    """Return (draw, grid point) of each configuration number; configurations in `earlier_draws` keep theirs."""
    # Several points may have the values of a draw, because inactive keys have none; the usual point comes first.
    number_at: dict[tuple[int, int], int] = {}
    for number, configuration in sorted(earlier_draws.items()):
        usual_point = number % len(points)
        candidates = (
            point for point in (usual_point, *range(len(points))) if (configuration.draw_index, point) not in number_at
        )
        number_at[
            configuration.draw_index,
            next((point for point in candidates if _matches_point(configuration.values, points[point])), usual_point),
        ] = number

    draw_points = {number: draw_point for draw_point, number in number_at.items()}
    free_draw_points = (
        draw_point
        for draw_point in (divmod(number, len(points)) for number in range(count))
        if draw_point not in number_at
    )
    return [draw_points[number] if number in draw_points else next(free_draw_points) for number in range(count)]


def _matches_point(values: Mapping[str, Any], point: Mapping[str, Any]) -> bool:
    """Return whether a configuration has the values of a grid point; keys whose condition fails have none."""
    return all(make_value_key(values[key]) == make_value_key(value) for key, value in point.items() if key in values)


def _count_draws(spec: SweepSpec) -> int:
    """Return the number of draws of the random domains; 1 without any, for the grid alone."""
    has_only_grids = all(isinstance(domain, Grid) for domain in spec.space.values())
    return 1 if has_only_grids else (spec.search.configurations or 1)


def _draw_without_results(spec: SweepSpec, domains: Mapping[str, Any], first: int, last: int) -> list[dict[str, Any]]:
    """Return the draws `first` to `last - 1` of a sampler that does not read results.

    Domains are drawn even if their condition fails, so that the arms of a grid stay paired.
    """
    distributions = {key: make_distribution(domain) for key, domain in domains.items()}
    if not distributions:
        return [{} for _ in range(first, last)]
    if spec.search.sampler == "qmc":
        parameters = list(_draw_sobol(spec.search.seed, distributions, last))[first:]
    else:
        seeds = (_derive_seed(spec.search.seed, index) for index in range(first, last))
        parameters = [_create_study(RandomSampler(seed=seed)).ask(dict(distributions)).params for seed in seeds]
    return [{key: convert_from_optuna(domains[key], drawn) for key, drawn in params.items()} for params in parameters]


def _draw_sobol(seed: int, distributions: dict[str, BaseDistribution], count: int) -> Iterator[dict[str, Any]]:
    """Yield the first `count` points of a scrambled Sobol sequence.

    Optuna learns the space from finished trials, and would draw the first point at random; so a trial is added.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = _create_study(QMCSampler(scramble=True, seed=_derive_seed(seed, 0), warn_independent_sampling=False))
    parameters = {key: choose_optuna_value(distribution) for key, distribution in distributions.items()}
    study.add_trial(create_trial(params=parameters, distributions=distributions, value=0.0))
    for _ in range(count):
        yield study.ask(dict(distributions)).params


def _draw_tpe(
    spec: SweepSpec, domains: Mapping[str, Any], count: int, results: Sequence[EarlierResult]
) -> list[dict[str, Any]]:
    """Draw the next `count` points of tpe after the configurations in `results`.

    Conditional domains are drawn only if their condition holds; the constant liar separates draws of a generation.
    """
    # The seed depends on the number of results, so that a resumed search draws the same points.
    sampler = TPESampler(
        seed=_derive_seed(spec.search.seed, len(results)),
        n_startup_trials=spec.search.results_needed,
        constant_liar=True,
    )

    # A new study has all earlier results, so that a resumed sweep draws the same configurations.
    worst_score = inf if spec.objective.direction == "minimize" else -inf
    failed_score = worst_score if spec.search.failed_configurations == "worst" else None
    study = _create_study(sampler, direction=spec.objective.direction)
    for result in results:
        keys = [key for key in domains if key in result.values]
        score = failed_score if result.score is None else result.score
        study.add_trial(
            create_trial(
                state=TrialState.FAIL if score is None else TrialState.COMPLETE,
                value=score,
                params={key: convert_to_optuna(domains[key], result.values[key]) for key in keys},
                distributions={key: make_distribution(domains[key]) for key in keys},
            )
        )

    # A key is asked for only once its condition is decided, so that Optuna learns from drawn values alone.
    drawn = []
    for _ in range(count):
        trial = study.ask()
        values: dict[str, Any] = {}
        for key in _sort_by_condition(spec):
            if key in select_active_values(spec, {**values, key: None}):
                values[key] = convert_from_optuna(
                    domains[key], suggest_value(trial, key, make_distribution(domains[key]))
                )
        drawn.append(values)
    return drawn


# Conditions -----------------------------------------------------------------------------------------------------------


def _sort_by_condition(spec: SweepSpec) -> list[str]:
    """Return the keys of the space, each after the keys in its condition; the loader has refused cycles."""
    ordered: list[str] = []

    def append_after_condition(key: str) -> None:
        if key not in ordered:
            for other in spec.space[key].when:
                if other in spec.space:
                    append_after_condition(other)
            ordered.append(key)

    for key in spec.space:
        append_after_condition(key)
    return ordered


# Optuna ---------------------------------------------------------------------------------------------------------------


def _create_study(sampler: BaseSampler, direction: str = "minimize") -> optuna.Study:
    """Return an empty study in memory, without Optuna's messages for every trial."""
    if optuna.logging.get_verbosity() != optuna.logging.WARNING:  # setting it empties the cache of every logger
        optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(sampler=sampler, direction=direction)


def _derive_seed(seed: int, index: int) -> int:
    """Return a 32-bit seed for (search seed, index), equal on every machine and Python version."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:4], "big")
