"""Every weight average against the judged one, on the same trained members."""

import math

from orchestrator.report.tables.columns import Columns, Section, interval, make_cells, p_value
from orchestrator.results.analysis import compare_weight_averages
from orchestrator.results.scoring.evaluation_choice import BEST
from orchestrator.results.summary import Summary
from orchestrator.wording import counted, three_digits


def average_section(result: Summary) -> Section:
    """Return the median difference of every average from the judged one, by group of lengths, with its tests."""
    better, worse = ("lower", "higher") if result.objective.direction == "minimize" else ("higher", "lower")
    columns: Columns = {
        "average": lambda one: one.average,
        "at lengths": lambda one: one.group,
        "against": lambda one: one.against,
        "members": lambda one: str(one.members),
        "median difference [95 %]": lambda one: interval(one.difference, one.low, one.high, "+#.3g"),
        "quartiles": lambda one: "-" if math.isnan(one.q25) else f"{three_digits(one.q25)}, {three_digits(one.q75)}",
        f"{better} on": lambda one: str(one.better),
        f"{worse} on": lambda one: str(one.worse),
        "n": lambda one: str(one.n),
        "Wilcoxon p": lambda one: p_value(one.wilcoxon_p, 2),
        "sign test p": lambda one: p_value(one.sign_p, 2),
    }
    return Section(
        heading="Weight averages of the same trained members",
        cells=make_cells(compare_weight_averages(result), columns),
        notes=[average_note(result)],
    )


def average_note(result: Summary) -> str:
    """Return how to read the comparison of averages, and why intervals are missing."""
    objective, unit, comparisons = result.objective, result.design.unit, compare_weight_averages(result)
    reasons = list(dict.fromkeys(one.reason for one in comparisons if one.reason))
    dropped = max((one.dropped for one in comparisons), default=0)
    sentences = [
        f"Differences of {objective.metric}, average minus the objective's ({objective.average}), of the same trained "
        f"member. Members of one of the n {unit} are not independent of each other, so each of the {unit} counts once, "
        f"with the median difference of its members: difference, interval and tests are over {unit}. An interval lies "
        "between two of these medians and contains the true median in 95 % of samples or more, for any distribution. "
        "Quartiles, lower and higher are over members.",
        f"Without {counted(dropped, 'member')} that failed." if dropped else "",
        "Both are taken at the evaluation chosen by the objective's average." if objective.evaluation == BEST else "",
        *(f"Missing numbers: {reason}." for reason in reasons),
    ]
    return " ".join(filter(None, sentences))
