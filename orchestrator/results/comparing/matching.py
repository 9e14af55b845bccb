"""Match the configurations of two sweeps by their searched values, and list the keys in which they differ."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import UserError
from orchestrator.results.comparing.seed_comparisons import Side
from orchestrator.results.comparing.shared_streams import differing_values
from orchestrator.results.summary import Row, Summary
from search_spaces import ABSENT
from search_spaces.grammar.problems.findings import lookup
from search_spaces.grammar.spec.spec import PASSIVE


@dataclass(frozen=True, kw_only=True)
class Matching:
    """The configurations of two sweeps with the same values of `keys`; the other fields count configurations.

    `pairs` have ended in both, by their numbers in the first sweep; `unfinished` match and have not ended in both,
    `pruned` were pruned in one of them.
    """

    keys: tuple[str, ...]
    pairs: tuple[tuple[Side, Side], ...]
    unfinished: int
    pruned: int
    only_first: int
    only_second: int


def match_configurations(first: Summary, second: Summary) -> Matching:
    """Match the configurations of two sweeps by every key that either of them searched.

    A sweep that did not search a key has the fixed value of its configurations. Raises UserError if no configuration
    of one matches one of the other, and if none that match have ended.
    """
    keys = tuple(sorted({*first.searched, *second.searched}))
    shared = frozenset(first.searched) & frozenset(second.searched)
    one, other = ({_values(result, row, keys, shared): row for row in result.rows} for result in (first, second))
    matched = sorted((values for values in one if values in other), key=lambda values: one[values].number)
    if not matched:
        raise UserError(
            f"{first.folder} and {second.folder}: no configuration of one has the searched values "
            f"({', '.join(keys) or 'none'}) of a configuration of the other, so there is nothing to compare"
        )
    pruned = sum(one[values].pruned_at is not None or other[values].pruned_at is not None for values in matched)
    ended = [values for values in matched if one[values].complete and other[values].complete]
    if not ended:
        raise UserError(
            f"{first.folder} and {second.folder}: none of the {len(matched)} configurations that both have has ended "
            "in both"
        )
    return Matching(
        keys=keys,
        pairs=tuple((Side(first, one[values]), Side(second, other[values])) for values in ended),
        unfinished=len(matched) - len(ended) - pruned,
        pruned=pruned,
        only_first=len(first.rows) - len(matched),
        only_second=len(second.rows) - len(matched),
    )


def specification_differences(first: Summary, second: Summary) -> dict[str, tuple[Any, Any]]:
    """Return every dotted key that changes results and differs between two specifications, with both values."""
    before, now = (
        {key: value for key, value in result.spec.items() if key not in PASSIVE} for result in (first, second)
    )
    return dict(differing_values(before, now))


def _values(result: Summary, row: Row, keys: tuple[str, ...], shared: frozenset[str]) -> Hashable:
    """Return the values of a configuration: as drawn if both sweeps searched the key, else as resolved."""
    resolved = dict(result.recorded[row.config_id].resolved)
    drawn = {key: row.values[key] for key in shared if key in row.values}
    return tuple(_hashable(drawn[key] if key in drawn else lookup(resolved, key)) for key in keys)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(sorted((key, _hashable(inner)) for key, inner in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return "absent" if value is ABSENT else (isinstance(value, bool), value)
