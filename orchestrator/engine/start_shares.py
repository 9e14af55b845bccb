"""Weight averages that still are largely the weights they started from, as sentences for plan, run and report."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainers.errors import ConfigError
from trainers.optimization.averaging import LARGE_SHARE, Average
from trainers.settings import registry


def describe_start_shares(averages: Iterable[tuple[int, Mapping[str, Average]]]) -> dict[str, str]:
    """Return a sentence for each label whose average still is largely its starting weights in some configuration.

    `averages` has the steps and the averages of every configuration. The sentence names the largest share.
    """
    shares: dict[str, list[tuple[float, int, Average]]] = {}
    for steps, labelled in averages:
        for label, average in labelled.items():
            shares.setdefault(label, []).append((average.start_share(steps), steps, average))
    return {
        label: _describe(label, found) for label, found in shares.items() if max(found, key=_share)[0] > LARGE_SHARE
    }


def recorded_averages(training: Mapping[str, Any]) -> tuple[int, dict[str, Average]]:
    """Return the steps and averages of a recorded `training` section, without averages that this process lacks."""
    averages: dict[str, Average] = {}
    for label, section in training.get("averages", {}).items():
        try:
            cls, values = registry.resolve("average", section, name_key="kind")
            averages[label] = cls.from_mapping(values)
        except ConfigError:  # a class of the user's own that is not imported, or one that has changed since
            continue
    return training["steps"], averages


def _share(entry: tuple[float, int, Average]) -> float:
    return entry[0]


def _describe(label: str, shares: list[tuple[float, int, Average]]) -> str:
    share, steps, average = max(shares, key=_share)
    large = sum(one[0] > LARGE_SHARE for one in shares)
    where = f", above {100 * LARGE_SHARE:.0f} % in {large} of {len(shares)} configurations" if len(shares) > 1 else ""
    most = f"{'up to ' if where else ''}{100 * share:.3g} %"
    remedy = average.start_remedy(steps)
    return f"after {steps} steps {most} of the average {label} is still the weights it started from{where} ({remedy})"
