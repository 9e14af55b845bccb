"""What stands beside the sentence that names a configuration: whether the test lengths put others before it."""

from orchestrator.results.analysis import compare_orders
from orchestrator.results.effects.order_agreement import DEPENDENT
from orchestrator.results.summary import Summary
from orchestrator.statistics.intervals import Estimate
from orchestrator.wording import label, spans, three_digits

NAMED, FEWEST = 5, 3  # others that are named, configurations whose order has a correlation


def order_sentence(result: Summary, *, complete: bool = False) -> list[str]:
    """How the orders by score and at the test lengths agree, and how many configurations these lengths put before.

    `complete` names them. Nothing is chosen by it. Empty where there are no two configurations to order.
    """
    labels = {row.config_id: label(row.number) for row in result.rows if row.complete and row.rank is not None}
    if len(labels) < 2:
        return []
    found = compare_orders(result)
    if found is None:
        return [
            "No lengths beyond training and selection were evaluated in all configurations: nothing tells whether the "
            "order by score holds there"
        ]
    way = "lower" if result.objective.direction == "minimize" else "higher"
    better = found.better
    scored = " with a score" if any(row.failed for row in result.rows) else ""
    whom = f"{found.others} others{scored}" if found.others > 1 else f"the other one{scored}"
    if not better:
        others = f"none of the {whom} is {way} there" if found.others > 1 else f"{whom} is not {way} there"
    else:
        most = three_digits(better[0][1], result.infinite)
        are = f"{len(better)} of the {whom} {'is' if len(better) == 1 else 'are'}"
        others = (
            f"{are if found.others > 1 else f'{whom} is'} {way} there, by {'up to ' if len(better) > 1 else ''}{most}"
        )
    if complete and better:
        named = [f"{labels[name]} by {three_digits(gain, result.infinite)}" for name, gain in better[:NAMED]]
        more = [f"{len(better) - NAMED} more"] if len(better) > NAMED else []
        others += f" ({', '.join(named + more)}); no choice went by this"
    order = [_correlation(found.correlation), others] if found.others + 1 >= FEWEST else [others]
    return [f"Order at the test lengths {spans(result.test_lengths)}: {'; '.join(order)}"]


def _correlation(found: Estimate) -> str:
    if found.value is None:
        return f"no rank correlation with the scores ({found.reason})"
    low_high = "no interval" if found.interval is None else "95 % [{:+.2f}, {:+.2f}]".format(*found.interval)
    why = f": {found.reason}" if found.reason in DEPENDENT.values() else ""
    return f"rank correlation with the scores {found.value:+.2f} ({low_high}, n = {found.n}{why})"
