"""Compare the values of a categorical key over seeds, each value at its configuration ranked first by score."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from orchestrator.results.comparing.seed_comparisons import (
    SeedComparison,
    Side,
    compare_sides,
    correct_family,
    make_question,
)
from orchestrator.results.outcomes import searched_values
from orchestrator.results.summary import REMEMBERED, Row, Summary
from orchestrator.statistics.effects.rank_effects import is_numeric
from search_spaces.grammar.space.domains import value_key


@dataclass(frozen=True, kw_only=True)
class RankedValue:
    """A value of a key with its configuration ranked first; `configurations` counts those of the value with a score.

    `against_first` compares this value with the value ranked first (this - first); None for the first itself.
    """

    value: Any
    row: Row
    configurations: int
    against_first: SeedComparison | None


@dataclass(frozen=True, kw_only=True)
class ValueComparison:
    """The values of one key, by the score of their first configurations, at one `group` of lengths.

    `pairs` has two places in `values` and the comparison of the later minus the earlier one. Holm's correction is over
    all pairs, because scores of the same seeds say which value is ranked first. `unranked` are values without a score.
    """

    key: str
    group: str
    values: tuple[RankedValue, ...]
    pairs: tuple[tuple[int, int, SeedComparison], ...]
    unranked: tuple[Any, ...]


@lru_cache(REMEMBERED)
def compare_values(result: Summary) -> tuple[ValueComparison, ...]:
    """Return a comparison for every searched key of which two values or more are ranked, unless all are numbers.

    Configurations are chosen by score, so by the selection lengths, and compared at the test lengths; at the selection
    lengths if there are no test lengths.
    """
    values, rows = searched_values(result), {row.config_id: row for row in result.rows if row.complete}
    found = []
    for key in result.searched:
        by_value: dict[Any, list[Row]] = {}
        written: dict[Any, Any] = {}
        for config_id, row in rows.items():  # in the order of scores
            if key in values[config_id]:
                name = value_key(values[config_id][key])
                written.setdefault(name, values[config_id][key])
                by_value.setdefault(name, []).extend([row] if row.rank is not None else [])
        ranked = {name: of_value for name, of_value in by_value.items() if of_value}
        if len(ranked) > 1 and not is_numeric(list(written.values())):
            found.append(_compare(result, key, ranked, written))
    return tuple(found)


def _compare(result: Summary, key: str, ranked: dict[Any, list[Row]], written: dict[Any, Any]) -> ValueComparison:
    sides = [Side(result, of_value[0]) for of_value in ranked.values()]
    places = list(combinations(range(len(sides)), 2))
    tested = all(make_question(sides[one], sides[other], "test").lengths for one, other in places)
    group = "test" if tested else "selection"
    compared = [
        compare_sides(sides[other], sides[one], make_question(sides[other], sides[one], group), key)
        for one, other in places
    ]
    pairs = tuple((*both, one) for both, one in zip(places, correct_family(compared), strict=True))
    against_first = {other: one for first, other, one in pairs if not first}
    return ValueComparison(
        key=key,
        group=group,
        values=tuple(
            RankedValue(
                value=written[name],
                row=of_value[0],
                configurations=len(of_value),
                against_first=against_first.get(place),
            )
            for place, (name, of_value) in enumerate(ranked.items())
        ),
        pairs=pairs,
        unranked=tuple(value for name, value in written.items() if name not in ranked),
    )
