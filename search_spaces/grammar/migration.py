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


def migrated(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded specification as today's grammar writes it; `recorded` is left as it is."""
    spec = with_new_names(recorded)
    for key, value in MEANT.items():
        section, name = key.split(".")
        if isinstance(spec.get(section), Mapping) and name not in spec[section]:
            spec[section] = {**spec[section], name: value}
    return spec
