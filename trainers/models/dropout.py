"""The dropout fields of models: a rate per member, and the sites where dropout acts."""

from typing import Any

from trainers.settings.fields import setting

DROPOUT_SITES = ("embedding", "attention", "residual")  # of every model with dropout


def dropout_rate(default: float = 0.0) -> Any:
    """Return the field `dropout`, which may differ between the members of a pack."""
    return setting(default, low=0.0, below=1.0, member=True, variant=lambda rate: rate > 0, help="dropout probability")


def dropout_sites(default: tuple[str, ...], further: tuple[str, ...] = ()) -> Any:
    """Return the field `dropout_sites`; further: additional sites of a model."""
    return setting(default, choices=(*DROPOUT_SITES, *further), help="where dropout acts")
