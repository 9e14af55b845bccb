"""Which value of a categorical key does better at the test lengths: a sentence for each key, and one table."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from orchestrator.report.tables.columns import NONE, Columns, Section, make_cells, quartile_text
from orchestrator.report.tables.seed_comparisons import difference_columns, difference_notes, pairs_needed
from orchestrator.results.comparing.seed_comparisons import SeedComparison
from orchestrator.results.comparing.value_comparisons import RankedValue, ValueComparison, compare_values
from orchestrator.results.summary import Summary
from orchestrator.statistics.exact_tests import ALPHA
from orchestrator.wording import compact_value, counted, label, short_keys, spans

TITLE = "Values of categorical keys, each at its configuration ranked first by the selection lengths"
BETTER, WORSE, UNCLEAR = "better than", "worse than", "not clearly different from"
Line = tuple[ValueComparison, RankedValue]


def value_section(result: Summary, *, short: bool = False) -> Section:
    """Return a line for every value, with its difference from the value ranked first; `short` is for one screen."""
    compared = compare_values(result)
    names = short_keys(list(result.searched))
    pairs = [one for found in compared for _, _, one in found.pairs]
    columns: Columns = {
        "key": lambda line: names[line[0].key],
        "value": lambda line: compact_value(line[1].value),
        "label": lambda line: label(line[1].row.number),
        "of": lambda line: str(line[1].configurations),
        **{group: _over_seeds(result, group, short) for group in ("selection", "test")},
        "failed": lambda line: str(line[1].row.seeds_failed),
        **_against_first(difference_columns(result, pairs), short),
    }
    lines = [(found, value) for found in compared for value in found.values]
    if not any(value.row.seeds_failed for _, value in lines):
        del columns["failed"]
    if len(compared) == 1:
        del columns["key"]  # the sentence names it
    return Section(
        heading=TITLE,
        cells=make_cells(lines, columns),
        keys=len(compared[:2]),
        paragraphs=[f"{sentence}." for sentence in value_sentences(result)],
        notes=[_how_to_read(result, pairs[0]), *difference_notes(pairs)],
        csv="values.csv",
    )


def value_sentences(result: Summary) -> list[str]:
    """Return for every categorical key which value is ranked first, and which others it differs from over seeds."""
    names = short_keys(list(result.searched))
    return [f"{names[found.key]}: {_sentence(result, found)}" for found in compare_values(result)]


def _sentence(result: Summary, found: ValueComparison) -> str:
    first, *others = found.values
    pairs = [one for _, _, one in found.pairs]
    corrected = f" after Holm's correction for {len(pairs)} pairs of values" if len(pairs) > 1 else ""
    place = f"at the {found.group} lengths {spans(pairs[0].question.lengths)}"
    if needed := pairs_needed(pairs):
        seeds = max(one.outcome.n for one in pairs)
        verdict = f"{place} {counted(seeds, 'seed')} cannot give p < {ALPHA:g}{corrected}: that takes {needed}"
    else:
        relations: dict[str, list[str]] = {BETTER: [], WORSE: [], UNCLEAR: []}
        for other in others:
            relations[_relation(other)].append(compact_value(other.value))
        parts = [f"{relation} {' and '.join(values)}" for relation, values in relations.items() if values]
        verdict = f"{place} it is {', '.join(parts)} (p < {ALPHA:g}{corrected})"
    lacking = f"; no score: {', '.join(map(compact_value, found.unranked))}" if found.unranked else ""
    at_selection = f"first by the selection lengths {spans(result.objective.lengths)}"
    return f"{compact_value(first.value)} is {at_selection}; {verdict}{lacking}"


def _relation(other: RankedValue) -> str:
    """Return how the value that is ranked first compares with another one."""
    one = other.against_first
    if one is None or not one.holm_p < ALPHA or not one.outcome.difference:
        return UNCLEAR
    return BETTER if (one.outcome.difference > 0) == (one.question.direction == "minimize") else WORSE


def _how_to_read(result: Summary, one: SeedComparison) -> str:
    sign = "worse" if one.question.direction == "minimize" else "better"
    return (
        "Each value has its configuration ranked first by the selection lengths "
        f"{spans(result.objective.lengths)}; 'of' counts its configurations with a score: a value with more of "
        f"them had more attempts. Differences are this value minus the one ranked first, of {one.question.metric} "
        f"({one.question.average}); + means that this value is {sign}. Holm's correction is for all pairs of values of "
        "the key, since scores decide which one is first. Only fresh seeds (lengthwise confirm) favour none."
    )


def _over_seeds(result: Summary, group: str, short: bool) -> Callable[[Line], str]:
    """Return a column with the median of a group of lengths, on a page with its quartiles."""
    text = quartile_text(attrgetter(group), result.infinite)
    return lambda line: text(line[1].row).partition(" [")[0] if short else text(line[1].row)


def _against_first(columns: Columns, short: bool) -> Columns:
    """Return columns that compare each value with the first one; the cells of the first are empty."""
    corrected = "p (Holm)" if "p (Holm)" in columns else "p"
    names: Sequence[str] = ("difference", corrected)
    if not short:
        names = [name for name in ("at lengths", "difference", "level", "seeds", "p", "p (Holm)") if name in columns]

    def column(name: str) -> Callable[[Line], str]:
        return lambda line: NONE if line[1].against_first is None else columns[name](line[1].against_first)

    return {name: column(name) for name in names}
