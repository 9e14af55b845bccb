"""The defaults of a program for keys that its sweep does not set, as its members reported them.

`lengthwise.member({"width": 64})` reports them, so that two sweeps whose programs differ only there can be told apart.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.record.state.entities import PackState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import compact_value, join_first_few
from search_spaces.grammar.domains import make_value_key

MAX_SHOWN_VALUES = 3  # of a key in a sentence


def list_program_defaults(packs: Iterable[PackState]) -> dict[str, list[Any]]:
    """Return the distinct defaults that members of these packs used, by key, in the order of the packs.

    A member has several defaults of a key if its program was changed between two attempts.
    """
    values_by_key: dict[str, dict[Any, Any]] = {}
    for pack in packs:
        for fields in pack.evaluations.values():
            for key, value in fields.get("defaults", {}).items():
                value = _make_comparable(value)
                values_by_key.setdefault(key, {}).setdefault(make_value_key(value), value)
    return {key: list(values.values()) for key, values in values_by_key.items()}


def _make_comparable(value: Any) -> Any:
    """Return a default with each NaN replaced by the text "nan", because NaN does not equal itself."""
    return json.loads(json.dumps(value), parse_constant=lambda name: "nan" if name == "NaN" else float(name))


def add_defaults(sections: Mapping[str, Any], defaults: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the sections of a sweep or a configuration with `config` completed by defaults that have one value."""
    known_defaults = {key: values[0] for key, values in defaults.items() if len(values) == 1}
    if not known_defaults:
        return dict(sections)
    return {**sections, "config": {**known_defaults, **sections.get("config", {})}}


def describe_defaults(defaults: Mapping[str, list[Any]]) -> str:
    """Return defaults as text: "width 64, dropout 0.1 / 0.2"."""
    return join_first_few([f"{key} {_describe_values(values)}" for key, values in defaults.items()], maximum=12)


def describe_differing_defaults(state: SweepState) -> list[str]:
    """Return a sentence on defaults of the program that differ between members; empty without any."""
    defaults = list_program_defaults(state.packs.values())
    differing = {key: values for key, values in defaults.items() if len(values) > 1}
    return [f"Members used different defaults of the program: {describe_defaults(differing)}"] if differing else []


def _describe_values(values: list[Any]) -> str:
    """Return the values of a key as text, or their number if they are many."""
    return " / ".join(map(compact_value, values)) if len(values) <= MAX_SHOWN_VALUES else f"{len(values)} values"
