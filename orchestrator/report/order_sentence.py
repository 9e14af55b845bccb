"""What stands beside the sentence that names a configuration: whether the test lengths put others before it."""

from orchestrator.results.summary import Summary
from orchestrator.statistics.intervals import Estimate
from orchestrator.wording import spans, three_digits

NAMED, FEWEST = 5, 3  # others that are named, configurations whose order has a correlation


def order_sentence(result: Summary, *, complete: bool = False) -> list[str]:
    """How the orders by score and at the test lengths agree, and how many configurations these lengths put before.

    `complete` names them. Nothing is chosen by it. Empty where there are no two configurations to order.
    """
    ranks = {row.config_id: row.rank for row in result.rows if row.complete and row.rank is not None}
    if len(ranks) < 2:
        return []
    found = result.order_agreement
    if found is None:
        return [
            "No lengths beyond training and selection were evaluated in all configurations: nothing tells whether the "
            "order by score holds there"
        ]
    way = "lower" if result.objective.direction == "minimize" else "higher"
    many, better = found.others > 1, found.better
    if not better:
        others = f"none of the {found.others} others is {way} there" if many else f"the other one is not {way} there"
    else:
        most = three_digits(better[0][1], result.infinite)
        others = f"{len(better)} of the {found.others} others {'is' if len(better) == 1 else 'are'}"
        others = f"{others if many else 'the other one is'} {way} there, by {'up to ' if len(better) > 1 else ''}{most}"
    if complete and better:
        named = [f"#{ranks[name]} by {three_digits(gain, result.infinite)}" for name, gain in better[:NAMED]]
        more = [f"{len(better) - NAMED} more"] if len(better) > NAMED else []
        others += f" ({', '.join(named + more)}); no choice went by this"
    order = [_correlation(found.correlation), others] if found.others + 1 >= FEWEST else [others]
    return [f"Order at the test lengths {spans(result.test_lengths)}: {'; '.join(order)}"]


def _correlation(found: Estimate) -> str:
    if found.value is None:
        return f"no rank correlation with the scores ({found.reason})"
    low_high = "no interval" if found.interval is None else "95 % [{:+.2f}, {:+.2f}]".format(*found.interval)
    return f"rank correlation with the scores {found.value:+.2f} ({low_high}, n = {found.n})"
