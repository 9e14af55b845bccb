"""Configurations of a record, perhaps written by an older version.

Fields that are newer than a record get their `absent` value, not the current default. Only classes whose `revision` has
changed compute other results now; `corrections` lists them.
"""

from collections.abc import Mapping
from typing import Any

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, Problem
from trainers.settings.fields import revision_of
from trainers.settings.identity import absent_values
from trainers.settings.parts import Part, walk_parts


def recorded_member(resolved: Mapping[str, Any], seed: int) -> MemberConfig:
    """Build the member of a recorded configuration (all sections but the seed) and a seed.

    Raises ConfigError if this version rejects a name or a value.
    """
    parts = _complete_parts({**resolved, "seed": seed})
    for part in parts:
        part.values.pop("revision", None)
    return MemberConfig.from_dict(parts[0].values, recorded=True)


def corrections(resolved: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each class of a recorded configuration whose revision has changed."""
    sentences = []
    for part in _complete_parts(resolved):
        then, current = part.values.get("revision", 1), revision_of(part.cls)
        if then != current:
            name = part.cls.name or part.cls.__name__
            sentences.append(f"{part.key}: {name} was revision {then} and is revision {current} today")
    return sentences


def _complete_parts(resolved: Mapping[str, Any]) -> list[Part]:
    """Return every settings class of a recorded configuration, with missing fields set to their `absent` values."""
    parts, problems = list[Part](), list[Problem]()
    for part in walk_parts(MemberConfig, resolved, problems):
        for name, value in absent_values(part.cls).items():
            part.values.setdefault(name, value)
        parts.append(part)
    if problems:
        raise ConfigError(problems)
    return parts
