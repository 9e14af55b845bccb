"""What a pass of publishing has done."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Published:
    """What one call of `publish` did: runs `created` and `points` sent by it, configurations `completed` in all."""

    uri: str
    parent_run_id: str
    links: tuple[tuple[str, str], ...]
    created: int
    completed: int
    points: int

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "Published":
        """From what `dataclasses.asdict` made of it and JSON of that."""
        return cls(**{**fields, "links": tuple((what, link) for what, link in fields["links"])})
