"""Which values to try: Optuna samplers through ask and tell, one configuration number at a time.

Configuration number `n` belongs to draw `n // G` and grid point `n % G`, G being the number of grid points; only where
values were added to a grid do the first numbers keep the draws and points that they had. A draw of the samplers random
and qmc depends on (search seed, draw) and nothing else. The sampler tpe works in generations: one is drawn when the
scores of all earlier ones are known, from a study that is rebuilt in memory from those scores in the order of their
numbers. So it depends on results, and never on restarts or on which pack finished first. Its result for a configuration
is the score: the median over seeds, failed ones counted as `objective.failed_seeds` says.
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

from orchestrator.plan.domains import choose_inner, make_distribution, suggest, to_inner, to_value
from orchestrator.text.wording import counted
from search_spaces import SweepSpec, active_values, grid_points
from search_spaces.grammar.domains import Grid, plain, value_key


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The values of one configuration: dotted key -> value, domains whose condition fails left out.

    `draw` counts the draws of the random domains.
    """

    number: int
    values: dict[str, Any]
    draw: int


@dataclass(frozen=True, kw_only=True)
class EarlierResult:
    """The result of an earlier draw. `score` may be infinite, and is None when the configuration failed."""

    values: Mapping[str, Any]
    score: float | None


def count_configurations(spec: SweepSpec) -> int:
    """Return the number of configurations that the sweep draws, duplicates counted."""
    if spec.search.sampler == "listed":
        return len(spec.search.listed or ())
    return _count_draws(spec) * len(grid_points(spec))


def describe_size(spec: SweepSpec) -> str:
    """Return how many configurations and seeds a sweep has: "24 configurations (8 draws x 3 grid points) x 3 seeds"."""
    count, points = count_configurations(spec), len(grid_points(spec))
    parts = f" ({count // points} draws x {points} grid points)" if 1 < points < count else ""
    return f"{counted(count, 'configuration')}{parts} x {counted(len(spec.seeds), 'seed')}"


def list_generations(spec: SweepSpec) -> list[range]:
    """Return the configuration numbers drawn together: all at once, or `search.generation` at a time for tpe."""
    count = count_configurations(spec)
    step = spec.search.generation if spec.search.sampler == "tpe" else count
    return [range(start, min(start + step, count)) for start in range(0, count, step)]


def draw_sample(spec: SweepSpec, count: int) -> list[Draw]:
    """Return every grid point, and at least `count` configurations if the random domains have that many.

    tpe draws its later generations from results, so that `configurations` does not limit what it can draw: a sample of
    it is drawn at random, and has at least `count`.
    """
    if spec.search.sampler == "listed":
        return draw_configurations(spec, range(count_configurations(spec)))
    if spec.search.sampler == "tpe":
        changes = {"sampler": "random", "configurations": max(count, spec.search.configurations or 1)}
        spec = spec.model_copy(update={"search": spec.search.model_copy(update=changes)})
    points = len(grid_points(spec))
    return draw_configurations(spec, range(points * min(_count_draws(spec), -(-count // points))))


def draw_configurations(
    spec: SweepSpec, numbers: range, results: Sequence[EarlierResult] = (), known: Mapping[int, Draw] | None = None
) -> list[Draw]:
    """Draw the configurations of one generation. `results` has all earlier ones in order of number; only tpe reads it.

    `known` are configurations that were drawn before, perhaps when grids had fewer values.
    """
    if spec.search.sampler == "listed":
        listed = plain(spec.search.listed or ())
        return [Draw(number=number, values=listed[number], draw=0) for number in numbers]

    # The draw and the grid point of every number.
    points = grid_points(spec)
    domains = {key: domain for key, domain in spec.space.items() if not isinstance(domain, Grid)}
    places = (
        _place_numbers(points, count_configurations(spec), known)
        if known
        else {n: divmod(n, len(points)) for n in numbers}
    )

    # Draw the random values, one set for all grid points of a draw.
    used = [places[number][0] for number in numbers]
    first, last = min(used, default=0), max(used, default=-1) + 1
    if spec.search.sampler == "tpe":
        drawn = _draw_tpe(spec, domains, len(numbers), results)
    else:
        drawn = _draw_without_results(spec, domains, first, last)

    # Join both; keys that the other values switch off are left out.
    draws = []
    for number in numbers:
        index, point = places[number]
        values = {**points[point], **drawn[index - first]}
        draws.append(Draw(number=number, values=active_values(spec, values), draw=index))
    return draws


def _place_numbers(points: Sequence[Mapping[str, Any]], count: int, known: Mapping[int, Draw]) -> list[tuple[int, int]]:
    """Return draw and grid point of each configuration number: `known` numbers keep theirs, others follow in order."""
    number_at: dict[tuple[int, int], int] = {}
    for number, configuration in sorted(known.items()):
        usual = number % len(points)
        near = (point for point in (usual, *range(len(points))) if (configuration.draw, point) not in number_at)
        number_at[
            configuration.draw, next((point for point in near if _is_at(configuration.values, points[point])), usual)
        ] = number
    places = {number: draw_point for draw_point, number in number_at.items()}
    free = (
        draw_point
        for draw_point in (divmod(number, len(points)) for number in range(count))
        if draw_point not in number_at
    )
    return [places[number] if number in places else next(free) for number in range(count)]


def _is_at(values: Mapping[str, Any], point: Mapping[str, Any]) -> bool:
    """Return whether a configuration may be at a grid point; keys whose condition fails are not among its values."""
    return all(value_key(values[key]) == value_key(value) for key, value in point.items() if key in values)


def _count_draws(spec: SweepSpec) -> int:
    only_grids = all(isinstance(domain, Grid) for domain in spec.space.values())
    return 1 if only_grids else (spec.search.configurations or 1)


def _draw_without_results(spec: SweepSpec, domains: Mapping[str, Any], first: int, last: int) -> list[dict[str, Any]]:
    """Return draws `first` up to `last` of a sampler that reads no results.

    Every domain is drawn, whether its condition holds or not, so that the arms of a grid stay paired.
    """
    distributions = {key: make_distribution(domain) for key, domain in domains.items()}
    if not distributions:
        return [{} for _ in range(first, last)]
    if spec.search.sampler == "qmc":
        parameters = list(_draw_sobol(spec.search.seed, distributions, last))[first:]
    else:
        seeds = (_derive_seed(spec.search.seed, index) for index in range(first, last))
        parameters = [_create_study(RandomSampler(seed=seed)).ask(dict(distributions)).params for seed in seeds]
    return [{key: to_value(domains[key], inner) for key, inner in params.items()} for params in parameters]


def _draw_sobol(seed: int, distributions: dict[str, BaseDistribution], count: int) -> Iterator[dict[str, Any]]:
    """Yield the first `count` points of a scrambled Sobol sequence.

    A finished trial outside the sequence tells the sampler the space; without it the first point would be random.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = _create_study(QMCSampler(scramble=True, seed=_derive_seed(seed, 0), warn_independent_sampling=False))
    anywhere = {key: choose_inner(distribution) for key, distribution in distributions.items()}
    study.add_trial(create_trial(params=anywhere, distributions=distributions, value=0.0))
    for _ in range(count):
        yield study.ask(dict(distributions)).params


def _draw_tpe(
    spec: SweepSpec, domains: Mapping[str, Any], count: int, results: Sequence[EarlierResult]
) -> list[dict[str, Any]]:
    """Draw the next `count` points of tpe after the configurations in `results`.

    Conditional domains are drawn only if their condition holds; the constant liar keeps draws of a generation apart.
    """
    sampler = TPESampler(
        seed=_derive_seed(spec.search.seed, len(results)),
        n_startup_trials=spec.search.results_needed,
        constant_liar=True,
    )

    # Tell Optuna the earlier results; failed configurations have the worst score or none.
    worst = inf if spec.objective.direction == "minimize" else -inf
    failed = worst if spec.search.failed_configurations == "worst" else None
    study = _create_study(sampler, direction=spec.objective.direction)
    for earlier in results:
        keys = [key for key in domains if key in earlier.values]
        score = failed if earlier.score is None else earlier.score
        study.add_trial(
            create_trial(
                state=TrialState.FAIL if score is None else TrialState.COMPLETE,
                value=score,
                params={key: to_inner(domains[key], earlier.values[key]) for key in keys},
                distributions={key: make_distribution(domains[key]) for key in keys},
            )
        )

    # Ask for the next ones.
    drawn = []
    for _ in range(count):
        trial = study.ask()
        values: dict[str, Any] = {}
        for key in _sort_by_condition(spec):
            if key in active_values(spec, {**values, key: None}):
                values[key] = to_value(domains[key], suggest(trial, key, make_distribution(domains[key])))
        drawn.append(values)
    return drawn


# Conditions -----------------------------------------------------------------------------------------------------------


def _sort_by_condition(spec: SweepSpec) -> list[str]:
    """Return the keys of the space, each after those its condition names; the loader has refused circles."""
    ordered: list[str] = []

    def place(key: str) -> None:
        if key not in ordered:
            for other in spec.space[key].when:
                if other in spec.space:
                    place(other)
            ordered.append(key)

    for key in spec.space:
        place(key)
    return ordered


# Optuna ---------------------------------------------------------------------------------------------------------------


def _create_study(sampler: BaseSampler, direction: str = "minimize") -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(sampler=sampler, direction=direction)


def _derive_seed(seed: int, index: int) -> int:
    """Return a 32-bit seed for (search seed, index), the same on every machine and in every Python."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:4], "big")
