"""Dropout as the models have it: one probability for each member, at the sites that are named."""

from collections.abc import Iterator
from typing import Any

from trainers.errors import Problem
from trainers.settings.fields import setting

SITES = ("embedding", "attention", "residual")  # that every model with dropout has


def dropout_rate(default: float = 0.0) -> Any:
    """The field `dropout`, which may differ between the members of a pack."""
    return setting(default, low=0.0, below=1.0, member=True, variant=lambda rate: rate > 0, help="dropout probability")


def dropout_sites(default: tuple[str, ...], more: tuple[str, ...] = ()) -> Any:
    """The field `dropout_sites`; `more` are sites that not every model has."""
    return setting(default, choices=(*SITES, *more), help="where dropout acts")


def repeated_name_problems(key: str, names: tuple[str, ...]) -> Iterator[Problem]:
    """Yield a problem if the field `key` names something twice."""
    if len(set(names)) != len(names):
        yield Problem(key=key, given=list(names), message="has a name twice", allowed="distinct names")
