"""Curves over lengths for every member and every weight average in one call."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.pack import Pack, State
from trainers.random import Stream

_CELLS_AT_ONCE = 2**20  # logits evaluated together: 4 MiB in float32, about what a cache holds
OPERATIONS_AT_ONCE = 1e12  # of one member: what large models keep of so many rows fits beside their training state


@torch.no_grad()
def evaluate(pack: Pack, state: State) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Metric names (K) and values (M, averages, K, lengths) of the current weights, NaN for failed members.

    The inputs come from each seed's eval stream and are the same at every evaluation.
    """
    names: tuple[str, ...] = ()
    zero = torch.zeros((), dtype=torch.int64, device=pack.device)
    column = {length: i for i, length in enumerate(pack.lengths)}
    values = np.full((len(pack), len(pack.labels), 0, len(pack.lengths)), np.nan, np.float32)
    for batch, lengths in pack.task.evaluation_batches(
        Stream(pack.seeds_S, "eval", zero), pack.evaluation.samples, pack.lengths
    ):
        cells = batch.tokens[0].numel() * pack.task.outputs
        chunk = max(1, _CELLS_AT_ONCE // cells)
        columns = [column[length] for length in lengths]
        for i, (average, buffers) in enumerate(zip(pack.averages, state.averages, strict=True)):
            theta = average.weights(buffers, state.theta, pack.layout)
            for start in range(0, len(pack), chunk):
                some = slice(start, min(start + chunk, len(pack)))
                index = torch.arange(some.start, some.stop, device=pack.device)
                mine = batch.of(index if pack.index_M is None else pack.index_M[some])
                weights = pack.layout.views(theta[some])
                scores = pack.task.score(logits(pack, weights, mine.tokens), mine, lengths)
                scores = {**scores, **pack.model.diagnostics(weights, mine.tokens, lengths)}
                if not names:
                    names = tuple(scores)
                    values = np.full((len(pack), len(pack.labels), len(names), len(pack.lengths)), np.nan, np.float32)
                for k, name in enumerate(names):
                    values[some, i, k][:, columns] = scores[name].float().cpu().numpy()
    derived = pack.task.derived(dict(zip(names, np.moveaxis(values, 2, 0), strict=True)), pack.lengths)
    values = np.concatenate([values, *(extra.astype(np.float32)[:, :, None] for extra in derived.values())], axis=2)
    names += tuple(derived)
    values[state.failed_at.cpu().numpy() >= 0] = np.nan
    return names, values


def logits(pack: Pack, weights: Mapping[str, Tensor], tokens_MBT: Tensor) -> Tensor:
    """Logits (M, B, T, V) without noise, a few rows at a time where a row takes many operations."""
    each = float(pack.model.operations(pack.task, 1, tokens_MBT.shape[-1]))
    rows = max(1, int(OPERATIONS_AT_ONCE // max(each, 1.0)))
    pieces = [pack.model.logits(weights, some, None, pack.form) for some in torch.split(tokens_MBT, rows, dim=1)]
    found: Tensor = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)
    return found
