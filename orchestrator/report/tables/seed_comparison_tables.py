"""Configurations against each other over their seeds as text: columns, notes, and the sentences of one screen."""

import math
from collections.abc import Sequence

from orchestrator.report.tables.tables import Columns, interval
from orchestrator.results.comparing.seed_comparisons import (
    AGAINST_FIRST,
    FIRST_TWO,
    OTHERS,
    PAIRS,
    SeedComparison,
    compare_seeds,
)
from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.exact_tests import ALPHA, fewest_pairs
from orchestrator.statistics.intervals import FEWEST_FOR_MEDIAN
from orchestrator.wording import compact_value, counted, label, short_keys, spans, three_digits

TITLE = "Configurations against each other, over their seeds"
MOST_VALUES = 2  # searched values beside a label, where no more of them differ
POLICIES = {
    "worst": "A failed seed counts as the worst value: its differences are infinite, and where both failed there is "
    "none.",
    "exclude": "A seed that failed in one of the two is left out of their comparison.",
    "fail": "A configuration with a failed seed is compared with nothing.",
}


def comparison_columns(result: Summary, found: Sequence[SeedComparison], gap: str = " ") -> Columns:
    """A line for each comparison of a report; `gap` stands before intervals."""
    rows = {row.config_id: row for row in result.rows}
    pairs = [(rows[one.first], rows[one.second]) for one in found]
    return {
        "first": [_named(result, first, second) for first, second in pairs],
        "second": [_named(result, second, first) for first, second in pairs],
        **difference_columns(result, found, gap),
    }


def difference_columns(result: Summary, found: Sequence[SeedComparison], gap: str = " ") -> Columns:
    """What comparisons came to, without the names of the two; columns that say nothing are left out."""

    def number(value: float) -> str:
        return three_digits(value, result.infinite)

    columns = {
        "at lengths": [f"{one.question.group} {spans(one.question.lengths)}" for one in found],
        "medians": [f"{number(one.first_median)},{gap}{number(one.second_median)}" for one in found],
        "difference": [interval(one.found.difference, one.found.low, one.found.high, "+#.3g", gap) for one in found],
        "level": ["-" if math.isnan(one.found.level) else f"{100 * one.found.level:.1f} %" for one in found],
        "seeds": [seeds_cell(one) for one in found],
        "first better": [str(one.first_better) if one.found.paired else "-" for one in found],
        "failed": [f"{one.first_failed}, {one.second_failed}" for one in found],
        "p": [_p(one.found.p) for one in found],
        "p (Holm)": [_p(one.holm_p) for one in found],
    }
    hidden = {name for name in ("level", "first better") if set(columns[name]) == {"-"}}
    hidden |= set() if any(one.tests > 1 for one in found) else {"p (Holm)"}
    hidden |= set() if any(one.first_failed or one.second_failed for one in found) else {"failed"}
    return {name: cells for name, cells in columns.items() if name not in hidden}


def seeds_cell(one: SeedComparison) -> str:
    """How many seeds a comparison rests on: "5 pairs", or "5 and 8"."""
    return counted(one.found.n, "pair") if one.found.paired else f"{one.found.n} and {one.found.n_second}"


def comparison_notes(result: Summary, found: Sequence[SeedComparison]) -> list[str]:
    """How to read the comparisons of a report: which ones, what they rest on, and what chose their order."""
    families = list(dict.fromkeys(one.family for one in found))
    compared = {
        PAIRS: "Every pair of the configurations",
        AGAINST_FIRST: f"The configuration ranked first against each of the others, {OTHERS} at most",
        FIRST_TWO: "The configuration ranked first against the second",
    }
    which = ", and: ".join(compared[family] for family in families)
    drawn = any(kind not in ("grid", "listed") for kind in result.searched.values())
    if drawn and families != [FIRST_TWO]:
        which += " (of configurations of a grid those that have the drawn values of the first)"
    notes = [f"{which}; {meaning(found)}", *difference_notes(found)]
    return [
        *notes,
        f"The order is that of the scores at the selection lengths {spans(result.objective.lengths)}, so differences "
        f"there favour the first, and at other lengths too as far as a "
        "seed that is good at the one is good at the other. Only fresh seeds (lengthwise confirm) favour none.",
    ]


def difference_notes(found: Sequence[SeedComparison]) -> list[str]:
    """What comparisons rest on: pairs, intervals, tests, the smallest p there can be, failed seeds."""
    notes = []
    shared: dict[str, int] = {}
    for one in found:
        how = _pairing(one)
        shared[how] = shared.get(how, 0) + 1
    for how, count in shared.items():
        notes.append(f"{how}." if len(shared) == 1 else f"{how} ({count} of {len(found)} lines).")
    paired = [one for one in found if one.found.paired and one.found.n]
    if paired:
        few = [one for one in paired if math.isnan(one.found.low)]
        none = f"; there is none with fewer than {FEWEST_FOR_MEDIAN} pairs" if few else ""
        notes.append(
            "Difference: the median over pairs of seeds. Its interval is between two of the differences in order: that "
            f"assumes nothing about their distribution, and the level is at least the one given{none}."
        )
        tests = max(one.tests for one in paired)
        if tests > 1 and len(few) < len(paired):
            notes.append(
                f"Each interval is by itself, not corrected for the {tests} comparisons at the same lengths: where "
                "nothing differs some of them leave out 0 by chance. p (Holm) is corrected."
            )
    if any(not one.found.paired for one in found):
        notes.append(
            "Seeds that are no pairs: the difference of the medians, without an interval: one would assume that both "
            "configurations spread alike."
        )
    notes += _tests(found)
    if any(one.first_failed or one.second_failed for one in found):
        notes.append(POLICIES[found[0].question.policy])
    missing = {one.found.reason for one in found if math.isnan(one.found.p)}
    return notes + [f"Not compared: {reason}." for reason in sorted(filter(None, missing))]


def short_sentences(result: Summary) -> list[str]:
    """Two lines of a screen: the first against the second, and how many pairs of a grid or a list differ."""
    found = compare_seeds(result)
    group = "test" if any(one.question.group == "test" for one in found) else "selection"
    here = [one for one in found if one.question.group == group and not math.isnan(one.found.p)]
    ranked = [row.config_id for row in result.rows if row.complete and row.rank is not None][:2]
    lines = []
    for one in here:
        if [one.first, one.second] == ranked:
            low_high = interval(one.found.difference, one.found.low, one.found.high, "+#.3g")
            level = "" if math.isnan(one.found.level) else f" ({100 * one.found.level:.1f} %)"
            least = ", the smallest possible" if one.found.p == one.found.smallest_p else ""
            known = group == "test" and one.question.lengths == result.test_lengths  # the sentence before names them
            place = "there" if known else f"at the {group} lengths {spans(one.question.lengths)}"
            seeds = f"{one.found.n} paired seeds" if one.found.paired else f"{seeds_cell(one)} seeds"
            lines.append(f"First - second {place}: {low_high}{level} ({seeds}, p = {_p(one.found.p)}{least})")
            break
    family = [one for one in here if one.tests > 1]
    if family and _takes(family) is None:  # otherwise none can
        differ = sum(one.holm_p < ALPHA for one in family)
        every = family[0].family == PAIRS
        pairs, whom = (f"{len(family)} pairs", "") if every else (f"{len(family)} others", " from the first")
        lines.append(
            f"Of {pairs} {differ or 'none'} {'differs' if differ < 2 else 'differ'}{whom} there with p < {ALPHA:g} "
            "after Holm's correction"
        )
    return lines


def meaning(found: Sequence[SeedComparison]) -> str:
    """What is subtracted from what, and what its sign means."""
    one = found[0].question
    worse = "worse" if one.direction == "minimize" else "better"
    sign = "" if one.direction == "none" else f"; + means that the first is {worse}"
    return f"differences are first minus second of {one.metric} ({one.average}){sign}."


def _pairing(one: SeedComparison) -> str:
    how = one.shared.sentence
    if not one.found.paired:
        why = "have other seeds" if one.shared.same else f"are not known to share anything random: {how}"
        return f"Not paired: the two {why}"
    alone = f"; {counted(one.unmatched, 'seed')} without a partner left out" if one.unmatched else ""
    return f"Paired by seed: {how}{alone}"


def _tests(found: Sequence[SeedComparison]) -> list[str]:
    tested = [one for one in found if not math.isnan(one.found.p)]
    if not tested:
        return []
    kinds = ["all assignments of signs to the pairs"] if any(one.found.paired for one in tested) else []
    kinds += ["all ways to deal out the labels"] if any(not one.found.paired for one in tested) else []
    smallest = min(one.found.smallest_p for one in tested)
    lines = [
        f"p: two-sided and exact, by ranks over {' or '.join(kinds)}; with so many seeds no p can be below "
        f"{_p(smallest)}, however large the difference."
    ]
    tests = max(one.tests for one in tested)
    if tests > 1:
        lines.append(f"p (Holm): after Holm's correction for the {tests} comparisons at the same lengths.")
    if takes := _takes(tested):
        after = " after the correction" if tests > 1 else ""
        lines.append(f"With so few seeds no p{after} can be below {ALPHA:g}: that takes {takes} pairs of seeds.")
    return lines


def _takes(tested: Sequence[SeedComparison]) -> int | None:
    """How many pairs of seeds it takes to reach ALPHA, where there are fewer and so no comparison can."""
    if any(not one.found.paired or one.tests * one.found.smallest_p < ALPHA for one in tested):
        return None
    takes = fewest_pairs(max(one.tests for one in tested))
    return takes if max(one.found.n for one in tested) < takes else None  # otherwise ties keep p up


def _named(result: Summary, row: Row, other: Row) -> str:
    """A configuration by its label, with the searched values in which it differs from the other, if they are few."""
    names = short_keys(list(result.searched))
    keys = [key for key in names if row.values.get(key) != other.values.get(key)]
    values = [f"{names[key]} {compact_value(row.values[key])}" for key in keys if key in row.values]
    return " ".join([label(row.number), *([", ".join(values)] if len(keys) <= MOST_VALUES else [])])


def _p(p: float) -> str:
    return "-" if math.isnan(p) else f"{p:.3g}"
