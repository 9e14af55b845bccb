"""Warn of sweeps with too few seeds to distinguish the values of a categorical key."""

from collections.abc import Iterator
from math import comb
from typing import Any

from orchestrator.statistics.effects.rank_effects import is_numeric
from orchestrator.statistics.exact_tests import ALPHA, count_needed_pairs
from orchestrator.statistics.intervals import describe_too_few
from search_spaces import ABSENT, Grid, SweepSpec
from search_spaces.grammar.domains import Choice, make_value_key
from search_spaces.grammar.sections import read_key


def describe_few_seeds(spec: SweepSpec) -> Iterator[str]:
    """Yield a warning for each categorical key with too few seeds for p < 0.05, with the required number.

    The report will compare exactly, by pairs of seeds, with Holm's correction over all pairs of values. In
    a race only the seeds of the first round count, because an eliminated configuration gets no more.
    """
    racing = spec.search.racing
    seeds = len(spec.seeds) if racing is None else min(racing.first, len(spec.seeds))
    units = "seeds" if racing is None else "seeds of the first round of the race"

    # The p of a sign test cannot be below 2^(1 - n), however large the effect.
    for key, values in _find_categories(spec).items():
        tests = comb(len(values), 2)
        needed = count_needed_pairs(tests)
        if seeds < needed:
            corrected = f" after Holm's correction for {tests} pairs of values" if tests > 1 else ""
            yield (
                f"{key}: {describe_too_few(seeds, units)} to separate its {len(values)} values at p < "
                f"{ALPHA:g}{corrected}; needed: {needed} seeds"
            )


def _find_categories(spec: SweepSpec) -> dict[str, tuple[Any, ...]]:
    """Return the values of every searched key with two or more values that are not all numbers."""
    categories = {key: domain.values for key, domain in spec.space.items() if isinstance(domain, Choice | Grid)}

    # A listed configuration that leaves a key out has its fixed value.
    listed_configurations = spec.search.listed or ()
    fixed = {section: getattr(spec, section) for section in spec.sections}
    for key in dict.fromkeys(key for configuration in listed_configurations for key in configuration):
        key_values = (configuration.get(key, read_key(fixed, key)) for configuration in listed_configurations)
        categories[key] = tuple({make_value_key(value): value for value in key_values if value is not ABSENT}.values())
    return {key: values for key, values in categories.items() if len(values) > 1 and not is_numeric(values)}
