"""Maps: numbers of one trained member laid out for a figure. Models and positional encodings may offer some.

The optional hook of both is `maps(weights, task) -> {name: Map}`: pure, `weights` being the arrays of one member by
parameter name. They may be read from a file one by one, so a hook asks only for those it draws.
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

    group: what they are; maps of one group share a scale and stand side by side. title: which of the group it is.
    wanted: what the task asks for there, of the same shape. trained: where training has asked, of the same shape.
    words: of a heat map whose rows and columns are the same things, what stands in the place of their coordinates.
    ends: the least and the greatest value there can be, where values have no sign.
    Raises ValueError for shapes that disagree.
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
    """The products of every pair of vectors, counted from 1, (N, N)."""
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
