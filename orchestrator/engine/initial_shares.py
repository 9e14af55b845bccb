"""Describe weight averages that still consist largely of initial weights, for plan, run and report."""

from collections.abc import Iterable, Mapping

InitialWeightShares = Mapping[str, tuple[float, str]]
"""The share of the initial weights and a remedy, by label of an average; only for large shares."""


def describe_initial_shares(configurations: Iterable[tuple[int, InitialWeightShares]]) -> dict[str, str]:
    """Return, by label, a sentence for each weight average that still consists largely of initial weights.

    `configurations` has the steps and the large shares of every configuration. A sentence names the largest share.
    """
    shares: dict[str, list[tuple[float, int, str]]] = {}
    total = 0
    for steps, large in configurations:
        total += 1
        for label, (share, remedy) in large.items():
            shares.setdefault(label, []).append((share, steps, remedy))

    return {label: _describe_share(label, large_shares, total) for label, large_shares in shares.items()}


def _describe_share(label: str, shares: list[tuple[float, int, str]], configurations: int) -> str:
    """Return a sentence on the largest share of an average, with the number of configurations."""
    share, steps, remedy = max(shares)
    count = f", above 10 % in {len(shares)} of {configurations} configurations" if configurations > 1 else ""
    percent = f"{'up to ' if count else ''}{100 * share:.3g} %"
    # With a burn-in an average begins with trained weights.
    what = f"{percent} of the average {label} is still the weights with which it began"
    return f"after {steps} steps {what}{count} ({remedy})"
