"""Which values some keys can have together, once the conditions of a space are heeded."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from search_spaces import SweepSpec, active_values
from search_spaces.grammar.space.domains import Choice, Grid, value_key

MOST = 100_000  # combinations that are looked at; conditions that hang together rarely make a hundred


def situations(spec: SweepSpec, keys: Sequence[str], *, active: str | None = None) -> list[dict[str, Any]]:
    """Return every combination of values that `keys` of the space can have; keys that are not drawn are left out.

    The keys are choices and grids. With `active`, only combinations in which that key is drawn, too.
    """
    relevant = _with_conditions(spec, [*keys, *([active] if active else [])])
    drawn = [key for key in relevant if isinstance(spec.space[key], (Choice, Grid)) and key != active]
    values = [_values(spec, key, relevant, every=key in keys) for key in drawn]
    found: dict[Any, dict[str, Any]] = {}
    for combination in itertools.islice(itertools.product(*values), MOST):
        candidate = dict(zip(drawn, combination, strict=True)) | ({active: None} if active else {})
        held = active_values(spec, candidate)
        if active is None or active in held:
            one = {key: held[key] for key in keys if key in held}
            found.setdefault(value_key(one), one)
    return list(found.values())


def _with_conditions(spec: SweepSpec, keys: Iterable[str]) -> list[str]:
    """Return the keys of the space among `keys`, and all keys that their conditions depend on."""
    found: list[str] = []
    waiting = [key for key in keys if key in spec.space]
    while waiting:
        key = waiting.pop(0)
        if key not in found:
            found.append(key)
            waiting += [other for other in spec.space[key].when if other in spec.space]
    return found


def _values(spec: SweepSpec, key: str, relevant: Iterable[str], *, every: bool) -> list[Any]:
    """Return the values of a choice or grid; unless `every`, one of those that no condition distinguishes."""
    domain = spec.space[key]
    assert isinstance(domain, (Choice, Grid))
    if every:
        return list(domain.values)
    tested = [spec.space[other].when[key] for other in relevant if key in spec.space[other].when]
    sets = [{value_key(value) for value in values} for values in tested]
    kinds: dict[tuple[bool, ...], Any] = {}
    for value in domain.values:
        kinds.setdefault(tuple(value_key(value) in one for one in sets), value)
    return list(kinds.values())


def unconditional(spec: SweepSpec) -> Iterator[str]:
    """Yield the keys that are drawn for every configuration."""
    return (key for key, domain in spec.space.items() if not domain.when)
