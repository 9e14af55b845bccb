"""What a recorded specification means, whichever version recorded it: in a ledger, and in the sweep.yaml beside it.

Resolved specifications write every key, so one that is absent is newer than the record. What the code did before the
key existed stands in MEANT, for good and whatever its default is today. A sweep file that somebody writes is not read
in this way: a key that it leaves out has today's default.
"""

from collections.abc import Mapping
from typing import Any

from search_spaces.grammar.renamed import with_new_names

MEANT: dict[str, Any] = {
    "objective.evaluation": "last",
    "resources.scheduler": "ray",
}
"""By dotted key, two levels deep, what a specification without it means."""

MEANT_BY_TPE: dict[str, Any] = {
    "search.startup": 10,
    "search.failed_configurations": "ignored",
}
"""The same for keys that the sampler tpe alone reads and writes."""


def migrated(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded specification as today's grammar writes it; `recorded` is left as it is."""
    spec = with_new_names(recorded)
    for key, value in _meant(spec).items():
        section, name = key.split(".")
        if isinstance(spec.get(section), Mapping) and name not in spec[section]:
            spec[section] = {**spec[section], name: value}
    return spec


def without_meant(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """A specification without the keys that say what their absence would mean, for hashing."""
    spec = dict(resolved)
    for key, value in _meant(spec).items():
        section, name = key.split(".")
        if isinstance(spec.get(section), Mapping) and spec[section].get(name) == value:
            spec[section] = {other: kept for other, kept in spec[section].items() if other != name}
    return spec


def _meant(spec: Mapping[str, Any]) -> dict[str, Any]:
    search = spec.get("search")
    learns = isinstance(search, Mapping) and search.get("sampler") == "tpe"
    return MEANT | MEANT_BY_TPE if learns else MEANT
