"""Curves over lengths for every member and every weight average in one call.

A batch is evaluated in pieces, some members and some rows at a time; of a row only its scores are kept.
Shapes: M members, A averages, K metrics, L lengths.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.evaluation.forward import Forward
from trainers.evaluation.results import Validation
from trainers.packs.evaluation_inputs import evaluation_inputs, noise_stream, validation_inputs, validation_stream
from trainers.packs.pack import Pack, State, averaged, weights_of
from trainers.random import Stream
from trainers.tasks.metrics import Curves, Evaluated
from trainers.tasks.task import Distribution, EvaluationBatch
from trainers.tensors.batch import Batch
from trainers.tensors.device_constants import constant
from trainers.tensors.noise import Noise

CELLS_AT_ONCE = 2**19  # logits of several members together on a CPU: 2 MiB in float32, about what a cache holds
CELLS_OF_A_ROW_PIECE = 2**26  # logits of one member in a piece of its rows
PAIRS_OF_A_ROW_PIECE = 2**27  # of positions: attention scores of one head, 512 MiB in float32
OPERATIONS_AT_ONCE = 1e12  # of one member: what large models keep of so many rows fits beside their training state


@torch.no_grad()
def evaluate(
    pack: Pack, state: State, history: Sequence[Evaluated] = (), beat: Callable[[], None] = lambda: None
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Metric names (K) and values (M, A, K, L) of the current weights, NaN for failed members and where none is.

    The inputs come from each seed's eval stream and are the same at every evaluation. `history` has the earlier
    evaluations, ascending; `beat` is called after every piece. Raises ValueError for a batch of a distribution or
    length that was not asked for, a metric that is not declared or never given, and one that two batches give at the
    same length.
    """
    names, noise = tuple(pack.metrics), noise_stream(pack)
    weights = tuple(averaged(pack, state).values())
    values, filed = _curves(pack, weights, evaluation_inputs(pack), noise, names, pack.lengths, beat)
    given = {name for name, _ in filed}
    for distribution in pack.task.distributions:
        derived = _derive(pack, state, history, distribution, values)
        given |= {pack.task.recorded_name(name, distribution.name) for name in derived}
    measured = {name for name, metric in pack.metrics.items() if metric.lengths and metric.base in pack.task.metrics}
    if nowhere := sorted(measured - given):
        raise ValueError(f"{pack.task.name} declares {', '.join(nowhere)}, and neither reduce nor derived gives it")
    values[state.failed_at.cpu().numpy() >= 0] = np.nan
    return names, values


@torch.no_grad()
def validate(pack: Pack, state: State, beat: Callable[[], None] = lambda: None) -> Validation | None:
    """The scores that stopping and the curriculum go by, of the current weights; None where there is neither.

    The inputs come from each seed's validation stream and are the same at every evaluation. Raises ValueError for a
    metric that the task does not give of them, and what `evaluate` raises for its batches.
    """
    if not pack.criteria:
        return None
    decided = tuple(dict.fromkeys((one.metric, one.average) for one in pack.criteria))
    names, labels = (tuple(dict.fromkeys(of)) for of in zip(*decided, strict=True))
    lengths = tuple(sorted(pack.task.distributions[0].trained_lengths))
    noise = validation_stream(pack)
    noise = replace(noise, step=torch.ones_like(noise.step))  # the inputs are of step 0
    weights = weights_of(pack, state)
    of_labels = tuple(weights[label] for label in labels)
    values, filed = _curves(pack, of_labels, validation_inputs(pack), noise, names, lengths, beat)
    if lacking := [name for name in names if name not in {name for name, _ in filed}]:
        raise ValueError(f"{pack.task.name} gives no {', '.join(lacking)} of its validation batches")
    values[state.failed_at.cpu().numpy() >= 0] = np.nan
    scores = [values[:, labels.index(label), names.index(name)] for name, label in decided]
    return Validation(decided=decided, lengths=lengths, values_MDL=np.stack(scores, axis=1))


def _curves(
    pack: Pack,
    weights: Sequence[Tensor],
    tests: Iterable[EvaluationBatch],
    noise: Stream,
    names: Sequence[str],
    lengths: tuple[int, ...],
    beat: Callable[[], None],
) -> tuple[NDArray[np.float32], set[tuple[str, int]]]:
    """Recorded metrics of the weights (M, P) of some averages, (M, A, K, L), and which have values at which lengths."""
    place, column = ({name: i for i, name in enumerate(of)} for of in (names, lengths))
    shape = (len(weights) * len(pack), len(names), len(lengths))
    found = torch.full(shape, torch.nan, device=pack.device)
    filed = set[tuple[str, int]]()
    for test in tests:
        _refuse_lengths(pack, test, lengths)
        columns = constant(tuple(column[length] for length in test.lengths), pack.device)
        each = rows_at_once(pack, test.batch)
        count = _at_once(pack, test.batch, each)
        for first in range(0, len(found), count):
            some = range(first, min(first + count, len(found)))
            scores = _scores(pack, weights, test, some, each, noise, beat)
            if first == 0:
                _refuse_scores(pack, test, scores, filed)
            for name, value in scores.items():
                if (k := place.get(pack.task.recorded_name(name, test.distribution))) is not None:
                    found[some.start : some.stop, k].index_copy_(1, columns, value.float())
    return found.reshape(-1, len(pack), *shape[1:]).transpose(0, 1).contiguous().cpu().numpy(), filed


def _refuse_lengths(pack: Pack, test: EvaluationBatch, lengths: Sequence[int]) -> None:
    named = {one.name: one for one in pack.task.distributions}
    one = named.get(test.distribution or pack.task.distributions[0].name)
    if one is None:
        raise ValueError(f"{pack.task.name} has no distribution {test.distribution!r}; allowed: {[*named]}")
    allowed = [length for length in lengths if length in one.lengths]
    if wrong := [length for length in test.lengths if length not in allowed]:
        of = f"distribution {one.name!r}" if one.name else "evaluation"
        raise ValueError(f"{pack.task.name}: a batch measures lengths {wrong} of its {of}; allowed: {allowed}")


def _refuse_scores(pack: Pack, test: EvaluationBatch, scores: Iterable[str], filed: set[tuple[str, int]]) -> None:
    for name in scores:
        recorded = pack.task.recorded_name(name, test.distribution)
        if recorded not in pack.metrics:
            declared = ", ".join([*pack.task.metrics, *pack.model.metrics])
            raise ValueError(f"{pack.task.name} or its model gives {name}, which is no metric; declared: {declared}")
        mine = {(recorded, length) for length in test.lengths if name in pack.task.metrics}
        if mine & filed:
            lengths = sorted(length for _, length in mine & filed)
            raise ValueError(
                f"{pack.task.name} gives {name} at lengths {lengths} of two batches: the second would replace the "
                "first; one batch holds all rows of a length, and comes in pieces where it is large"
            )
        filed |= mine


def _scores(
    pack: Pack,
    averages: Sequence[Tensor],
    test: EvaluationBatch,
    some: range,
    each: int,
    noise: Stream,
    beat: Callable[[], None],
) -> dict[str, Tensor]:
    """The metrics (M, L) of some members on a batch, `each` of its rows at a time.

    All members with one average come before those with the next: they are one pass where they are few.
    """
    slices = [
        (max(some.start - first, 0), max(some.stop - first, 0))
        for first in range(0, len(averages) * len(pack), len(pack))
    ]
    theta = [
        weights[low:high] for weights, (low, high) in zip(averages, slices, strict=True) if low < min(high, len(pack))
    ]
    weights = pack.layout.views(theta[0] if len(theta) == 1 else torch.cat(theta))
    index = torch.arange(some.start, some.stop, device=pack.device) % len(pack)
    index = index if pack.index_M is None else pack.index_M[index]
    batch = test.batch.of(index)
    total = batch.tokens.shape[1]
    of_task, of_model = list[Mapping[str, Tensor]](), list[Mapping[str, Tensor]]()
    for first in range(0, total, each):
        piece = batch if each >= total else batch.rows(first, min(first + each, total))
        drawn = Noise(noise, index, training=False, first=first, total=total)
        forward = Forward(pack.model, weights, pack.form, drawn, pack.training.compute_dtype, beat)
        of_task.append(pack.task.scored(forward, piece, test.lengths))
        of_model.append(pack.model.measured(weights, piece, test.lengths, forward.recorded))
        beat()
    found = pack.task.reduce(_joined(of_task), batch, test.lengths)
    return {**found, **pack.model.reduce(_joined(of_model), weights, test.lengths)}


def _at_once(pack: Pack, batch: Batch, rows: int) -> int:
    """How many members are evaluated together on so many rows of a batch."""
    count = min(rows, batch.tokens.shape[1])
    cells = CELLS_AT_ONCE if pack.device.type == "cpu" else CELLS_OF_A_ROW_PIECE
    return max(1, min(cells // _cells(pack, batch, count), CELLS_OF_A_ROW_PIECE // _kept(pack, batch, count)))


def _joined(pieces: Sequence[Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
    return pieces[0] if len(pieces) == 1 else {name: torch.cat([p[name] for p in pieces], dim=1) for name in pieces[0]}


def rows_at_once(pack: Pack, batch: Batch) -> int:
    """How many rows of a batch are evaluated together: as many as memory allows for one member, whatever the pack."""
    operations = pack.model.operations(pack.task, 1, batch.tokens.shape[-1])
    cells = CELLS_OF_A_ROW_PIECE // max(_cells(pack, batch, 1), _kept(pack, batch, 1))
    pairs = PAIRS_OF_A_ROW_PIECE // batch.tokens.shape[-1] ** 2
    return max(1, min(cells, pairs, int(OPERATIONS_AT_ONCE // max(operations, 1.0))))


def _cells(pack: Pack, batch: Batch, rows: int) -> int:
    """Logits of so many rows of one member."""
    return rows * batch.tokens.shape[-1] * pack.task.outputs


def _kept(pack: Pack, batch: Batch, rows: int) -> int:
    """Numbers that are kept of so many rows of one member where texts are written, as long as these rows."""
    return max(1, rows * batch.tokens.shape[-1] * pack.model.kept_numbers if pack.task.passes > 1 else 0)


def _derive(
    pack: Pack, state: State, history: Sequence[Evaluated], distribution: Distribution, values: NDArray[np.float32]
) -> tuple[str, ...]:
    """Fill in the metrics of a distribution that follow from the others, at its lengths; returns their names."""
    lengths = tuple(length for length in pack.lengths if length in distribution.lengths)
    columns = [pack.lengths.index(length) for length in lengths]
    names = {
        m.base: (k, name) for k, (name, m) in enumerate(pack.metrics.items()) if m.distribution == distribution.name
    }
    now = Evaluated(int(state.step), {base: values[:, :, k][..., columns] for base, (k, _) in names.items()})
    unknown = np.full_like(values[:, :, 0], np.nan)  # what an older version has not recorded
    recorded = {base: name for base, (_, name) in names.items()}
    past = [Evaluated(one.step, _Own(one.curves, recorded, columns, unknown)) for one in history]
    found = pack.task.derived([*past, now], lengths)
    for base, curves in found.items():
        if base not in names:
            raise ValueError(
                f"{pack.task.name}: derived gives {base}, which is no metric; declared: {', '.join(names)}"
            )
        values[:, :, names[base][0], columns] = curves
    return tuple(found)


@dataclass(frozen=True)
class _Own(Mapping[str, NDArray[np.float32]]):
    """Recorded curves at the lengths of a distribution by the task's own names, each cut out when it is asked for."""

    curves: Curves
    recorded: Mapping[str, str]
    columns: Sequence[int]
    unknown: NDArray[np.float32]

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.curves.get(self.recorded[name], self.unknown)[..., self.columns]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.recorded)

    def __len__(self) -> int:
        return len(self.recorded)
