"""Convert domains to Optuna distributions, and hyperparameter values from and to the values that Optuna draws.

Optuna draws the index of a choice, the quantile of a normal domain, and 1 - x of a one_minus_log_uniform domain.
"""

import math
import statistics
from decimal import Decimal
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from search_spaces.grammar.domains import (
    Choice,
    IntUniform,
    LogUniform,
    Normal,
    OneMinusLogUniform,
    Uniform,
    make_value_key,
)

TAIL_QUANTILE = 1e-6  # lowest drawn quantile of normal domains, 4.75 standard deviations below the mean


def make_distribution(domain: Any) -> BaseDistribution:
    """Return the Optuna distribution of a domain; its values are converted by `convert_from_optuna`."""
    match domain:
        case Choice():
            return CategoricalDistribution(tuple(range(len(domain.values))))
        case Uniform():
            return FloatDistribution(domain.low, domain.high)
        case LogUniform():
            return FloatDistribution(domain.low, domain.high, log=True)
        case OneMinusLogUniform():
            return FloatDistribution(_subtract_from_one(domain.high), _subtract_from_one(domain.low), log=True)
        case IntUniform():
            return IntDistribution(domain.low, domain.high, step=domain.step)
        case Normal():
            return FloatDistribution(TAIL_QUANTILE, 1.0 - TAIL_QUANTILE)
    raise TypeError(f"no distribution for {domain!r}")


def find_range(domain: Any) -> tuple[Any, Any]:
    """Return the smallest and the largest number that a random numeric domain can draw."""
    # The ends of 1 - x come in the other order.
    distribution = make_distribution(domain)
    ends = [convert_from_optuna(domain, drawn) for drawn in (distribution.low, distribution.high)]
    return min(ends), max(ends)


def convert_from_optuna(domain: Any, drawn: Any) -> Any:
    """Return the hyperparameter value of a value drawn by Optuna.

    Numbers keep six significant digits, more if the ends differ by less than one part in ten thousand: readable, and
    the same on machines whose logarithms differ in the last bit.
    """
    match domain:
        case Choice():
            return domain.values[drawn]
        case OneMinusLogUniform():
            ends = _subtract_from_one(domain.high), _subtract_from_one(domain.low)
            return _clamp(_subtract_from_one(_round(drawn, *ends)), domain.low, domain.high)
        case Normal():
            mean, std = domain.mean, domain.std
            sample = statistics.NormalDist(mean, std).inv_cdf(drawn)
            return _clamp(_round(sample, mean - 5 * std, mean + 5 * std), domain.low, domain.high)
        case IntUniform():
            return int(drawn)
    return _clamp(_round(drawn, domain.low, domain.high), domain.low, domain.high)


def convert_to_optuna(domain: Any, value: Any) -> Any:
    """Return the value in Optuna's distribution for a hyperparameter value that was drawn earlier."""
    match domain:
        case Choice():
            return [make_value_key(choice) for choice in domain.values].index(make_value_key(value))
        case OneMinusLogUniform():
            return _clamp(_subtract_from_one(value), _subtract_from_one(domain.high), _subtract_from_one(domain.low))
        case Normal():
            return _clamp(statistics.NormalDist(domain.mean, domain.std).cdf(value), TAIL_QUANTILE, 1.0 - TAIL_QUANTILE)
    return value


def suggest_value(trial: optuna.Trial, key: str, distribution: BaseDistribution) -> Any:
    """Return a value that the sampler of a trial draws from a distribution."""
    match distribution:
        case CategoricalDistribution():
            return trial.suggest_categorical(key, distribution.choices)
        case IntDistribution():
            return trial.suggest_int(key, distribution.low, distribution.high, step=distribution.step)
    return trial.suggest_float(key, distribution.low, distribution.high, log=distribution.log)


def choose_optuna_value(distribution: BaseDistribution) -> Any:
    """Return an arbitrary valid value of a distribution."""
    return distribution.choices[0] if isinstance(distribution, CategoricalDistribution) else distribution.low


def _subtract_from_one(value: float) -> float:
    """Return 1 - value in decimal: 1 - 0.9999 is 0.0001 and not 9.999999999998899e-05."""
    return float(1 - Decimal(repr(value)))


def _round(value: float, low: float, high: float) -> float:
    """Return a value with six significant digits, or enough to distinguish a hundred values between the ends."""
    zeros = -math.log10(max(1e-17, (high - low) / max(abs(low), abs(high))))  # equal leading digits of the ends
    return float(f"{value:.{min(17, 6 + max(0, math.ceil(zeros) - 4))}g}")


def _clamp(value: float, low: float | None, high: float | None) -> float:
    """Return the nearest value from low to high; None is no bound."""
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)
