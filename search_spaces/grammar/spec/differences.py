"""Differences between two specifications that change results."""

from collections.abc import Mapping
from typing import Any

from search_spaces.grammar.spec.spec import PASSIVE, SweepSpec


def differences(before: SweepSpec, now: SweepSpec) -> list[tuple[str, object, object]]:
    """Return (dotted key, before, now) of every difference that changes results."""
    old, new = _flat(_computed(before)), _flat(_computed(now))
    keys = [*old, *(key for key in new if key not in old)]
    return [(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]


def _computed(spec: SweepSpec) -> dict[str, Any]:
    return {key: value for key, value in spec.resolved().items() if key not in PASSIVE}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as dotted keys; empty mappings and lists are values."""
    if not isinstance(value, Mapping) or (not value and prefix):
        return {prefix: list(value) if isinstance(value, tuple) else value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flat(inner, f"{prefix}.{key}" if prefix else str(key)))
    return flat
