"""Weight averages that still are largely the weights they started from, as sentences for plan, run and report."""

from collections.abc import Iterable, Mapping

StartShares = Mapping[str, tuple[float, str]]
"""By label of an average, if it is large: the share of the weights it started from, and what would make it smaller."""


def describe_start_shares(configurations: Iterable[tuple[int, StartShares]]) -> dict[str, str]:
    """Return, by label, a sentence for each weight average that still is largely its initial weights.

    `configurations` has the steps and the large shares of every configuration. A sentence names the largest share.
    """
    shares: dict[str, list[tuple[float, int, str]]] = {}
    total = 0
    for steps, large in configurations:
        total += 1
        for label, (share, remedy) in large.items():
            shares.setdefault(label, []).append((share, steps, remedy))
    return {label: _describe(label, large_shares, total) for label, large_shares in shares.items()}


def _describe(label: str, shares: list[tuple[float, int, str]], configurations: int) -> str:
    share, steps, remedy = max(shares)
    where = f", above 10 % in {len(shares)} of {configurations} configurations" if configurations > 1 else ""
    most = f"{'up to ' if where else ''}{100 * share:.3g} %"
    return f"after {steps} steps {most} of the average {label} is still the weights it started from{where} ({remedy})"
