"""Describe the distributions that a member is evaluated on."""

from orchestrator.interface.measurements import Measurements
from orchestrator.text.wording import format_ranges


def describe_evaluated_lengths(measured: Measurements) -> str:
    """Return the evaluated lengths as text, with the names of further distributions: "1-5; hard: 3-5; long: 6-9"."""
    first, *others = _read_lengths(measured).items()
    return "; ".join([format_ranges(first[1]), *(f"{name}: {format_ranges(lengths)}" for name, lengths in others)])


def list_further_distributions(measured: Measurements) -> tuple[str, ...]:
    """Return the names of the distributions besides the trained one, which prefix the names of their metrics."""
    return tuple(_read_lengths(measured))[1:]


def _read_lengths(measured: Measurements) -> dict[str, tuple[int, ...]]:
    """Return the evaluated lengths by distribution, the trained distribution first."""
    return {metric.distribution: metric.lengths for metric in measured.metrics.values()}
