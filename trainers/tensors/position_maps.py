"""Maps: parameters of one trained member arranged for a figure, from models and positional encodings.

Both may have the hook `maps(weights, task) -> {name: Map}`, a pure function of the arrays of one member by parameter
name. Arrays are read from a file on access, so a hook should access only those it draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Weights = Mapping[str, Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Map:
    """Values (rows, columns), drawn as a heat map, or (rows,), drawn as bars, at integer coordinates.

    group: title of all maps that share a scale and are drawn side by side. title: of this one in its group. wanted: the
    values the task asks for, same shape. trained: which entries training has used, bool, same shape. words: labels
    instead of coordinates, for a heat map with equal rows and columns. ends: smallest and largest possible value, for
    values without a sign. Raises ValueError for shapes that disagree.
    """

    values: Array
    group: str
    title: str = ""
    row_label: str
    rows: Sequence[int]
    column_label: str = ""
    columns: Sequence[int] = ()
    wanted: Array | None = None
    trained: Array | None = None
    words: Sequence[str] = ()
    ends: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.columns)) if self.columns else (len(self.rows),)
        for array in (self.values, self.wanted, self.trained):
            if array is not None and array.shape != shape:
                raise ValueError(f"a map of {self.group} has shape {array.shape} and coordinates {shape}")
        if self.words and shape != (len(self.words), len(self.words)):
            raise ValueError(f"a map of {self.group} has {len(self.words)} words and coordinates {shape}")


def gram(vectors_ND: Array, *, group: str, label: str, **details: Any) -> Map:
    """Return the map of the products of every pair of vectors, (N, N), with coordinates from 1."""
    at = range(1, len(vectors_ND) + 1)
    return Map(
        values=np.asarray(vectors_ND @ vectors_ND.T),
        group=group,
        row_label=label,
        rows=at,
        column_label=label,
        columns=at,
        **details,
    )
