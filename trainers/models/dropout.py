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


def site_problems(sites: tuple[str, ...]) -> Iterator[Problem]:
    """A problem if a site is named twice."""
    if len(set(sites)) != len(sites):
        yield Problem(key="dropout_sites", given=list(sites), message="names a site twice", allowed="distinct sites")
