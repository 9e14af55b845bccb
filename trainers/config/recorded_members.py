"""Recorded configurations, perhaps written by an older version.

A field that is newer than the record gets its `absent` value, not the current default. So only a class whose `revision`
has changed computes different results now; `describe_revisions` lists these classes.
"""

from collections.abc import Mapping
from typing import Any

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, Problem
from trainers.settings.fields import sum_revisions
from trainers.settings.fields_by_key import SettingsNode, walk_settings
from trainers.settings.identity import read_absent_values


def build_recorded_member(resolved: Mapping[str, Any], seed: int) -> MemberConfig:
    """Build the member of a recorded configuration (all sections but the seed) and a seed.

    Raises ConfigError if this version rejects a name or a value.
    """
    nodes = _complete_nodes({**resolved, "seed": seed})
    for node in nodes:  # `from_dict` would reject an older revision
        node.values.pop("revision", None)
    return MemberConfig.from_dict(nodes[0].values, recorded=True)


def describe_revisions(resolved: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each class of a recorded configuration whose revision has changed."""
    sentences = []
    for node in _complete_nodes(resolved):
        recorded = node.values.get("revision", 1)
        current = sum_revisions(node.cls)
        if recorded != current:
            name = node.cls.name or node.cls.__name__
            sentences.append(f"{node.key}: {name} was revision {recorded} and is revision {current} today")
    return sentences


def _complete_nodes(resolved: Mapping[str, Any]) -> list[SettingsNode]:
    """Return every settings class of a recorded configuration, with missing fields set to their `absent` values."""
    nodes, problems = list[SettingsNode](), list[Problem]()
    for node in walk_settings(MemberConfig, resolved, problems):
        for name, value in read_absent_values(node.cls).items():
            node.values.setdefault(name, value)
        nodes.append(node)
    if problems:
        raise ConfigError(problems)
    return nodes
