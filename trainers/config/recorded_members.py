"""Recorded configurations, perhaps written by an older version.

A field that is newer than the record gets its `absent` value, not the current default. So only a class whose `revision`
has changed computes different results now; `describe_revisions` lists these classes.
"""

from collections.abc import Mapping
from typing import Any

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, Problem
from trainers.settings.fields import sum_revisions
from trainers.settings.identity import read_absent_values
from trainers.settings.walk_settings import Part, walk_parts


def build_recorded_member(resolved: Mapping[str, Any], seed: int) -> MemberConfig:
    """Build the member of a recorded configuration (all sections but the seed) and a seed.

    Raises ConfigError if this version rejects a name or a value.
    """
    parts = _complete_parts({**resolved, "seed": seed})
    for part in parts:  # `from_dict` would reject an older revision
        part.values.pop("revision", None)
    return MemberConfig.from_dict(parts[0].values, recorded=True)


def describe_revisions(resolved: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each class of a recorded configuration whose revision has changed."""
    sentences = []
    for part in _complete_parts(resolved):
        recorded, current = part.values.get("revision", 1), sum_revisions(part.cls)
        if recorded != current:
            name = part.cls.name or part.cls.__name__
            sentences.append(f"{part.key}: {name} was revision {recorded} and is revision {current} today")
    return sentences


def _complete_parts(resolved: Mapping[str, Any]) -> list[Part]:
    """Return every settings class of a recorded configuration, with missing fields set to their `absent` values."""
    parts, problems = list[Part](), list[Problem]()
    for part in walk_parts(MemberConfig, resolved, problems):
        for name, value in read_absent_values(part.cls).items():
            part.values.setdefault(name, value)
        parts.append(part)
    if problems:
        raise ConfigError(problems)
    return parts
