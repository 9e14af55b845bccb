"""The distributions that a member is evaluated on, in words."""

from orchestrator.wording import spans
from trainers.config.member import MemberConfig


def evaluated_sets(member: MemberConfig) -> str:
    """Return the evaluated lengths, those of further distributions after their names: "1-5; hard: 3-5; long: 6-9"."""
    first, *others = _lengths(member).items()
    return "; ".join([spans(first[1]), *(f"{name}: {spans(lengths)}" for name, lengths in others)])


def further_distributions(member: MemberConfig) -> tuple[str, ...]:
    """Return the names of the distributions besides the trained one, which prefix the names of their metrics."""
    return tuple(_lengths(member))[1:]


def _lengths(member: MemberConfig) -> dict[str, tuple[int, ...]]:
    return {metric.distribution: metric.lengths for metric in member.metrics.values()}
