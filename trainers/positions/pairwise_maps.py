"""Maps of pairwise tables: the vectors of every layer and how long they are (arXiv:2406.01895, Figs. 11 and 12)."""

from collections.abc import Sequence

import numpy as np

from trainers.maps import Array, Map, Weights


def pairwise_maps(weights: Weights, uniform: int = 0) -> dict[str, Map]:
    """Of every layer the relative vectors p_k, k = i - j, and their norms; then those of `uniform` vectors c_s."""
    tables = [weights[name] for name in weights if name.endswith(".pairs")]
    relative, own = [table[: len(table) - uniform] for table in tables], [table[-uniform:] for table in tables]
    longest = (len(relative[0]) + 1) // 2 if tables else 0
    found = _of_layers("p", "relative vectors p_k", "k = i - j", range(1 - longest, longest), relative)
    if uniform:
        found |= _of_layers("c", "uniform vectors c_s", "s, units first", range(1, uniform + 1), own)
    return found


def _of_layers(key: str, group: str, label: str, rows: Sequence[int], tables: Sequence[Array]) -> dict[str, Map]:
    found: dict[str, Map] = {}
    for layer, table in enumerate(tables, start=1):
        found[f"{key}.{layer}"] = Map(
            values=table,
            group=group,
            title=f"layer {layer}",
            row_label=label,
            rows=rows,
            column_label="entry",
            columns=range(1, table.shape[1] + 1),
        )
    for layer, table in enumerate(tables, start=1):
        found[f"{key}.norm.{layer}"] = Map(
            values=np.linalg.norm(table, axis=1),
            group=f"norms of the {group}",
            title=f"layer {layer}",
            row_label=label,
            rows=rows,
        )
    return found
