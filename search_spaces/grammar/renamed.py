"""Keys of a sweep file that were once called otherwise: the old name is understood, in files and in ledgers.

What a sweep computes is hashed under the first name of a key, so that a new word makes no other sweep of it.
"""

from collections.abc import Mapping
from typing import Any

from search_spaces.grammar.errors import ABSENT
from search_spaces.grammar.findings import Findings, Place, lookup

RENAMED = {"objective.checkpoint": "objective.evaluation"}
"""Old dotted key -> its name now. Both are two levels deep and in the same section."""


def take_new_names(data: dict[str, Any], findings: Findings) -> None:
    """Give the keys of a file's `data` their new names, in place, with a note; a key under both names is a problem."""
    for old, new in RENAMED.items():
        if (value := lookup(data, old)) is ABSENT:
            continue
        section, was, now = *old.split("."), new.rpartition(".")[2]
        del data[section][was]
        if now in data[section]:
            findings.add(old, f"is the old name of {new}, which is given too; keep one of them", given=value)
            continue
        data[section][now] = value
        findings.relocate(new, {new: findings.place(old)})
        findings.note(findings.place(old), f"{old} is now called {new}")


def new_name(key: str, place: Place, findings: Findings) -> str:
    """The name a dotted key of an override has now, with a note where it is another one."""
    new = RENAMED.get(key, key)
    if new != key:
        findings.note(place, f"{key} is now called {new}")
    return new


def with_new_names(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded specification, of whatever age, with the names its keys have now; `recorded` is left as it is."""
    return _moved(recorded, RENAMED)


def with_first_names(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """A specification with the first name of every key, for hashing."""
    return _moved(resolved, {new: old for old, new in RENAMED.items()})


def _moved(spec: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    moved = dict(spec)
    for before, after in names.items():
        section, key = before.split(".")
        if isinstance(moved.get(section), Mapping) and key in moved[section]:
            moved[section] = {
                after.rpartition(".")[2] if name == key else name: v for name, v in moved[section].items()
            }
    return moved
