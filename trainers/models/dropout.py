"""The dropout fields of models: a rate per member, and the sites where dropout acts."""

from collections.abc import Iterator
from typing import Any

from trainers.errors import Problem
from trainers.settings.fields import setting

DROPOUT_SITES = ("embedding", "attention", "residual")  # of every model with dropout


def dropout_rate(default: float = 0.0) -> Any:
    """Return the field `dropout`, which may differ between the members of a pack."""
    return setting(default, low=0.0, below=1.0, member=True, variant=lambda rate: rate > 0, help="dropout probability")


def dropout_sites(default: tuple[str, ...], further: tuple[str, ...] = ()) -> Any:
    """Return the field `dropout_sites`; further: additional sites of a model."""
    return setting(default, choices=(*DROPOUT_SITES, *further), help="where dropout acts")


def find_repeated_name_problems(key: str, names: tuple[str, ...]) -> Iterator[Problem]:
    """Yield a problem if the field `key` has a name twice."""
    if len(set(names)) != len(names):
        yield Problem(key=key, given=list(names), message="has a name twice", allowed="distinct names")
