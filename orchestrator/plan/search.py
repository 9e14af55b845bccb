"""Which values to try: Optuna samplers through ask and tell, one configuration number at a time.

Configuration number `n` belongs to draw `n // G` and grid point `n % G`, G being the number of grid points. A draw of
the samplers random and qmc depends on (search seed, draw) and nothing else. The sampler tpe works in generations: one
is drawn when the scores of all earlier ones are known, from a study that is rebuilt in memory from those scores, told
in the order of their numbers. So it depends on results, and never on restarts or on which pack finished first. What it
is told of a configuration is its score: the median over seeds, failed ones counted as `objective.failed_seeds` says.
"""

import hashlib
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, QMCSampler, RandomSampler, TPESampler
from optuna.trial import TrialState, create_trial

from search_spaces import SweepSpec, active_values, grid_points
from search_spaces.grammar.space.domains import (
    Choice,
    Grid,
    IntUniform,
    LogUniform,
    Normal,
    OneMinusLogUniform,
    Uniform,
    plain,
    value_key,
)

TAIL = 1e-6  # a normal domain is drawn between these quantiles, 4.75 standard deviations out


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The values of one configuration: dotted key -> value, domains whose condition fails left out."""

    number: int
    values: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What became of an earlier draw. `score` may be infinite, and is None when the configuration failed."""

    values: Mapping[str, Any]
    score: float | None


def total(spec: SweepSpec) -> int:
    """How many configurations the sweep draws, duplicates counted."""
    if spec.search.sampler == "listed":
        return len(spec.search.listed or ())
    return _draws(spec) * len(grid_points(spec))


def generations(spec: SweepSpec) -> list[range]:
    """The configuration numbers that are drawn together: all at once, or `search.generation` at a time for tpe."""
    count = total(spec)
    step = spec.search.generation if spec.search.sampler == "tpe" else count
    return [range(start, min(start + step, count)) for start in range(0, count, step)]


def draw_sample(spec: SweepSpec, count: int) -> list[Draw]:
    """Every grid point, and at least `count` configurations where random domains give so many: what could be drawn.

    tpe draws its later generations from results; a sample of it is drawn at random.
    """
    if spec.search.sampler == "listed":
        return draw(spec, range(total(spec)))
    points = len(grid_points(spec))
    numbers = range(points * min(_draws(spec), -(-count // points)))
    if spec.search.sampler == "tpe":
        spec = spec.model_copy(update={"search": spec.search.model_copy(update={"sampler": "random"})})
    return draw(spec, numbers)


def draw(spec: SweepSpec, numbers: range, told: Sequence[Told] = ()) -> list[Draw]:
    """The configurations of one generation. `told` has every earlier one in the order of numbers; only tpe reads it."""
    if spec.search.sampler == "listed":
        listed = plain(spec.search.listed or ())
        return [Draw(number=number, values=listed[number]) for number in numbers]
    points = grid_points(spec)
    domains = {key: domain for key, domain in spec.space.items() if not isinstance(domain, Grid)}
    first, last = numbers.start // len(points), -(-numbers.stop // len(points))
    if spec.search.sampler == "tpe":
        drawn = _adaptive(spec, domains, len(numbers), told)
    else:
        drawn = _fixed(spec, domains, first, last)
    draws = []
    for number in numbers:
        values = {**points[number % len(points)], **drawn[number // len(points) - first]}
        draws.append(Draw(number=number, values=active_values(spec, values)))
    return draws


def _draws(spec: SweepSpec) -> int:
    only_grids = all(isinstance(domain, Grid) for domain in spec.space.values())
    return 1 if only_grids else (spec.search.configurations or 1)


def _fixed(spec: SweepSpec, domains: Mapping[str, Any], first: int, last: int) -> list[dict[str, Any]]:
    """Draws `first` up to `last` of a sampler that reads no results. Every domain is drawn, whether its condition holds
    or not, so that the arms of a grid stay paired."""
    distributions = {key: _distribution(domain) for key, domain in domains.items()}
    if not distributions:
        return [{} for _ in range(first, last)]
    if spec.search.sampler == "qmc":
        asked = list(_sobol(spec.search.seed, distributions, last))[first:]
    else:
        seeds = (_seed(spec.search.seed, index) for index in range(first, last))
        asked = [_study(RandomSampler(seed=seed)).ask(dict(distributions)).params for seed in seeds]
    return [{key: _value(domains[key], inner) for key, inner in params.items()} for params in asked]


def _sobol(seed: int, distributions: dict[str, BaseDistribution], count: int) -> Iterator[dict[str, Any]]:
    """The first `count` points of a scrambled Sobol sequence. A finished trial outside the sequence tells the sampler
    the space, otherwise it would draw its first point at random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = _study(QMCSampler(scramble=True, seed=_seed(seed, 0), warn_independent_sampling=False))
    anywhere = {key: _any_inner(distribution) for key, distribution in distributions.items()}
    study.add_trial(create_trial(params=anywhere, distributions=distributions, value=0.0))
    for _ in range(count):
        yield study.ask(dict(distributions)).params


def _adaptive(spec: SweepSpec, domains: Mapping[str, Any], count: int, told: Sequence[Told]) -> list[dict[str, Any]]:
    """The next `count` draws of tpe after the configurations in `told`. Conditional domains are asked for only where
    their condition holds; the constant liar keeps the draws of one generation apart."""
    sampler = TPESampler(
        seed=_seed(spec.search.seed, len(told)),
        n_startup_trials=spec.search.results_needed,
        constant_liar=True,
    )
    worst = inf if spec.objective.direction == "minimize" else -inf
    failed = worst if spec.search.failed_configurations == "worst" else None
    study = _study(sampler, direction=spec.objective.direction)
    for earlier in told:
        keys = [key for key in domains if key in earlier.values]
        score = failed if earlier.score is None else earlier.score
        study.add_trial(
            create_trial(
                state=TrialState.FAIL if score is None else TrialState.COMPLETE,
                value=score,
                params={key: _inner(domains[key], earlier.values[key]) for key in keys},
                distributions={key: _distribution(domains[key]) for key in keys},
            )
        )
    drawn = []
    for _ in range(count):
        trial = study.ask()
        values: dict[str, Any] = {}
        for key in _dependency_order(spec):
            if key in active_values(spec, {**values, key: None}):
                values[key] = _value(domains[key], _suggest(trial, key, _distribution(domains[key])))
        drawn.append(values)
    return drawn


# Conditions -----------------------------------------------------------------------------------------------------------


def _dependency_order(spec: SweepSpec) -> list[str]:
    """The keys of the space, each after those its condition names; the loader has refused circles."""
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


# Domains --------------------------------------------------------------------------------------------------------------


def _distribution(domain: Any) -> BaseDistribution:
    """The Optuna distribution in which a domain is drawn; `_value` and `_inner` go there and back."""
    match domain:
        case Choice():
            return CategoricalDistribution(tuple(range(len(domain.values))))
        case Uniform():
            return FloatDistribution(domain.low, domain.high)
        case LogUniform():
            return FloatDistribution(domain.low, domain.high, log=True)
        case OneMinusLogUniform():
            return FloatDistribution(_one_minus(domain.high), _one_minus(domain.low), log=True)
        case IntUniform():
            return IntDistribution(domain.low, domain.high, step=domain.step)
        case Normal():
            return FloatDistribution(TAIL, 1.0 - TAIL)
    raise TypeError(f"no distribution for {domain!r}")


def reach(domain: Any) -> tuple[Any, Any]:
    """The smallest and the largest number that a random domain of numbers can give."""
    distribution = _distribution(domain)
    ends = [_value(domain, inner) for inner in (distribution.low, distribution.high)]
    return min(ends), max(ends)


def _value(domain: Any, inner: Any) -> Any:
    """The hyperparameter for what Optuna drew. Numbers keep six significant digits: readable, and the same on machines
    whose logarithms differ in the last bit."""
    match domain:
        case Choice():
            return domain.values[inner]
        case OneMinusLogUniform():
            return _clamp(_one_minus(_short(inner)), domain.low, domain.high)
        case Normal():
            drawn = statistics.NormalDist(domain.mean, domain.std).inv_cdf(inner)
            return _clamp(_short(drawn), domain.low, domain.high)
        case IntUniform():
            return int(inner)
    return _clamp(_short(inner), domain.low, domain.high)


def _inner(domain: Any, value: Any) -> Any:
    """What Optuna is told for a hyperparameter that was drawn earlier."""
    match domain:
        case Choice():
            return [value_key(choice) for choice in domain.values].index(value_key(value))
        case OneMinusLogUniform():
            return _clamp(_one_minus(value), _one_minus(domain.high), _one_minus(domain.low))
        case Normal():
            return _clamp(statistics.NormalDist(domain.mean, domain.std).cdf(value), TAIL, 1.0 - TAIL)
    return value


def _suggest(trial: optuna.Trial, key: str, distribution: BaseDistribution) -> Any:
    match distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(key, distribution.choices)
        case IntDistribution():
            return trial.suggest_int(key, distribution.low, distribution.high, step=distribution.step)
    return trial.suggest_float(key, distribution.low, distribution.high, log=distribution.log)


def _any_inner(distribution: BaseDistribution) -> Any:
    return distribution.choices[0] if isinstance(distribution, CategoricalDistribution) else distribution.low


def _one_minus(value: float) -> float:
    """1 - value in decimal: 1 - 0.9999 is 0.0001 and not 9.999999999998899e-05."""
    return float(1 - Decimal(repr(value)))


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _clamp(value: float, low: float | None, high: float | None) -> float:
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)


# Optuna ---------------------------------------------------------------------------------------------------------------


def _study(sampler: BaseSampler, direction: str = "minimize") -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(sampler=sampler, direction=direction)


def _seed(seed: int, index: int) -> int:
    """A 32-bit seed for (sweep seed, index), the same on every machine and in every Python."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:4], "big")
