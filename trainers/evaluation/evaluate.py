"""Curves over lengths for every member and every weight average of a pack.

A batch is evaluated in pieces of some members and some rows; only the scores of the rows are stored.
Shapes: M members, A averages, K metrics, L lengths.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.evaluation.added_metrics import AddedMetrics
from trainers.evaluation.forward import Forward
from trainers.evaluation.results import Validation
from trainers.packs.evaluation_inputs import draw_evaluation_inputs, draw_validation_inputs, make_evaluation_stream
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState, collect_weights, compute_averages
from trainers.random import Stream
from trainers.tasks.metric_descriptions import Curves, EvaluationCurves
from trainers.tasks.task import Distribution, EvaluationBatch, Task
from trainers.tensors.batch import Batch
from trainers.tensors.device_constants import make_constant
from trainers.tensors.noise import Noise

LOGITS_PER_PASS = 2**19  # of several members together on a CPU: 2 MiB in float32, about the size of a CPU cache
LOGITS_PER_MEMBER = 2**26  # of one member in a piece of its rows
PAIRS_PER_MEMBER = 2**27  # pairs of positions: attention scores of one head, 512 MiB in float32
SCORES_PER_PASS = 2**20  # attention scores of a layer on a CPU: 4 MiB in float32, which stay in the CPU cache
SCORES_PER_PASS_ON_GPU = 2**28  # attention scores of a layer on a GPU; encodings hold up to eight such tensors: 8 GiB
OPERATIONS_PER_MEMBER = 1e12  # so that activations of large models fit beside their training state


@torch.no_grad()
def evaluate(
    pack: Pack, state: TrainingState, history: Sequence[EvaluationCurves] = (), beat: Callable[[], None] = lambda: None
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return metric names (K) and values (M, A, K, L) of the current weights; NaN for failed members.

    The inputs come from each seed's eval stream and are the same at every evaluation. history: the earlier evaluations,
    ascending. beat: called after every piece. Raises ValueError for a batch of an unknown distribution or length, for
    an undeclared or missing metric, and for a metric with two batches at the same length.
    """
    names = tuple(pack.metrics)
    noise_stream = make_evaluation_stream(pack, "dropout")
    weights = tuple(compute_averages(pack, state).values())
    evaluator = _PackEvaluator(pack, weights, noise_stream, AddedMetrics.from_pack(pack, state.step), beat)
    values, measured_pairs = evaluator.measure_curves(draw_evaluation_inputs(pack), names, pack.lengths)

    # Derived metrics are computed from the measured ones, so they come last.
    measured_names = {name for name, _ in measured_pairs}
    for distribution in pack.task.distributions:
        derived = _derive_metrics(pack, state, history, distribution, values)
        measured_names |= {pack.task.recorded_name(name, distribution.name) for name in derived}

    # A declared metric that no batch measures would silently be NaN in every curve.
    declared_names = {
        name for name, metric in pack.metrics.items() if metric.lengths and metric.base in pack.task.metrics
    }
    if missing := sorted(declared_names - measured_names):
        raise ValueError(
            f"{pack.task.name}: neither reduce nor derive_metrics returns the declared metrics {', '.join(missing)}"
        )
    values[state.failed_at.cpu().numpy() >= 0] = np.nan
    return names, values


@torch.no_grad()
def evaluate_weights(pack: Pack, weights: Sequence[Tensor]) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return metric names (K) and values (M, A, K, L) of given weights (M, P), a tensor for each of A averages.

    The inputs are the same as in `evaluate`. Metrics derived from earlier evaluations are left out.
    """
    # Stored weights have no earlier evaluations, from which metrics could be derived.
    derived = pack.task.derived_metrics
    names = tuple(name for name, metric in pack.metrics.items() if metric.base not in derived)
    noise_stream = make_evaluation_stream(pack, "dropout")
    steps = torch.full((), pack.training.steps, dtype=torch.int64, device=pack.device)
    evaluator = _PackEvaluator(pack, weights, noise_stream, AddedMetrics.from_pack(pack, steps), lambda: None)
    values, _ = evaluator.measure_curves(draw_evaluation_inputs(pack), names, pack.lengths)
    return names, values


@torch.no_grad()
def validate(pack: Pack, state: TrainingState, beat: Callable[[], None] = lambda: None) -> Validation | None:
    """Return the scores of the current weights for early stopping and curricula; None if the pack has neither.

    The inputs come from each seed's validation stream and are the same at every evaluation. Raises ValueError if the
    task does not return a needed metric, and the errors of `evaluate`.
    """
    if not pack.criteria:
        return None

    # Early stopping and a curriculum may use the same metric, which is then measured once.
    decisions = tuple(dict.fromkeys((criterion.metric, criterion.average) for criterion in pack.criteria))
    names, labels = (tuple(dict.fromkeys(column)) for column in zip(*decisions, strict=True))
    lengths = tuple(sorted(pack.task.distributions[0].trained_lengths))

    # The validation stream draws the inputs at step 0, so the noise of the passes has another step.
    inputs = make_evaluation_stream(pack, "validation")
    noise_stream = replace(inputs, step=torch.ones_like(inputs.step))
    weights = collect_weights(pack, state)
    averages = tuple(weights[label] for label in labels)
    evaluator = _PackEvaluator(pack, averages, noise_stream, AddedMetrics.from_model(pack, state.step), beat)
    values, measured_pairs = evaluator.measure_curves(draw_validation_inputs(pack), names, lengths)

    if missing := [name for name in names if name not in {name for name, _ in measured_pairs}]:
        raise ValueError(f"{pack.task.name}: reduce does not return {', '.join(missing)} for validation batches")
    values[state.failed_at.cpu().numpy() >= 0] = np.nan
    scores = [values[:, labels.index(label), names.index(name)] for name, label in decisions]
    return Validation(decisions=decisions, lengths=lengths, values_MDL=np.stack(scores, axis=1))


@dataclass(frozen=True)
class _PackEvaluator:
    """Evaluates weights of a pack, (M, P) for each average; `beat` is called after every piece."""

    pack: Pack
    averages: Sequence[Tensor]
    noise_stream: Stream
    added_metrics: AddedMetrics
    beat: Callable[[], None]

    def measure_curves(
        self, batches: Iterable[EvaluationBatch], names: Sequence[str], lengths: tuple[int, ...]
    ) -> tuple[NDArray[np.float32], set[tuple[str, int]]]:
        """Return metrics (M, A, K, L) of all averages, and the measured (metric, length) pairs."""
        pack = self.pack

        # Metrics stay NaN at lengths that no batch measures.
        metric_indices, length_indices = ({name: i for i, name in enumerate(keys)} for keys in (names, lengths))
        shape = (len(self.averages) * len(pack), len(names), len(lengths))
        values = torch.full(shape, torch.nan, device=pack.device)
        measured_pairs = set[tuple[str, int]]()

        # Averages are evaluated like further members, so that several share a pass.
        for evaluation_batch in batches:
            check_lengths(pack.task, evaluation_batch, lengths)
            columns = make_constant(tuple(length_indices[length] for length in evaluation_batch.lengths), pack.device)
            rows_at_once, members_at_once = choose_piece_sizes(pack, evaluation_batch.batch)
            for first in range(0, len(values), members_at_once):
                stacked_members = range(first, min(first + members_at_once, len(values)))
                scores = self._score_members(evaluation_batch, stacked_members, rows_at_once)
                if first == 0:
                    _add_measured_pairs(pack, evaluation_batch, scores, measured_pairs)
                for name, value in scores.items():
                    recorded = pack.task.recorded_name(name, evaluation_batch.distribution)
                    if recorded in metric_indices:
                        member_values = values[stacked_members.start : stacked_members.stop, metric_indices[recorded]]
                        member_values.index_copy_(1, columns, value.float())

        return values.reshape(-1, len(pack), *shape[1:]).transpose(0, 1).contiguous().cpu().numpy(), measured_pairs

    def _score_members(
        self, evaluation_batch: EvaluationBatch, stacked_members: range, rows_at_once: int
    ) -> dict[str, Tensor]:
        """Return the metrics (M, L) of some members on a batch, evaluated in pieces of `rows_at_once` rows.

        stacked_members: indices into the stack of weights: every member of the first average, then of the second, ...
        """
        pack = self.pack

        # Averages have the same seeds, so the index of a seed repeats with every average.
        weights = pack.layout.split(_select_weights(self.averages, stacked_members))
        seed_index = torch.arange(stacked_members.start, stacked_members.stop, device=pack.device) % len(pack)
        seed_index = seed_index if pack.seed_index_M is None else pack.seed_index_M[seed_index]
        batch = evaluation_batch.batch.for_members(seed_index)

        # Metrics of the task, of the model and added metrics share a pass, unless the task makes passes of its own.
        total_rows = batch.tokens.shape[1]
        added_metrics = self.added_metrics.select_measured(pack, evaluation_batch)
        is_recording = bool(pack.model.metrics or added_metrics.metrics)
        shares_logits = bool(added_metrics.metrics) and type(pack.task).score_batch is Task.score_batch
        task_rows, model_rows, added_rows = (list[Mapping[str, Tensor]]() for _ in range(3))
        for first in range(0, total_rows, rows_at_once):
            end = min(first + rows_at_once, total_rows)
            piece = batch if rows_at_once >= total_rows else batch.slice_rows(first, end)
            piece_noise = Noise(self.noise_stream, seed_index, training=False, first=first, total=total_rows)
            forward = Forward(
                pack.model, weights, pack.form, piece_noise, pack.training.compute_dtype, self.beat, is_recording
            )

            # The task's scores, then scores of the model and of added metrics, from values recorded in the pass.
            logits = None
            if shares_logits:
                logits = forward(piece)
                task_rows.append(pack.task.score_rows(logits, piece, evaluation_batch.lengths))
            else:
                task_rows.append(pack.task.score_batch(forward, piece, evaluation_batch.lengths))
            model_rows.append(pack.model.measure_rows(weights, piece, evaluation_batch.lengths, forward.recorded))
            if added_metrics.metrics:
                added_rows.append(added_metrics.score_rows(pack, evaluation_batch, forward, piece, logits))
            self.beat()

        # A metric need not be a mean, so it is reduced from the scores of all rows.
        task_scores = pack.task.reduce(_join_rows(task_rows), batch, evaluation_batch.lengths)
        model_scores = pack.model.reduce(_join_rows(model_rows), weights, evaluation_batch.lengths)
        added_scores = added_metrics.reduce(pack, evaluation_batch, _join_rows(added_rows or [{}]))
        return {**task_scores, **model_scores, **added_scores}


def check_lengths(task: Task, evaluation_batch: EvaluationBatch, lengths: Sequence[int]) -> None:
    """Raise ValueError for a batch of an unknown distribution, or with a length outside of it or of `lengths`."""
    distributions = {distribution.name: distribution for distribution in task.distributions}
    distribution = distributions.get(evaluation_batch.distribution or task.distributions[0].name)
    if distribution is None:
        name = evaluation_batch.distribution
        raise ValueError(f"{task.name} has no distribution {name!r}; allowed: {[*distributions]}")
    allowed = [length for length in lengths if length in distribution.lengths]
    if wrong := [length for length in evaluation_batch.lengths if length not in allowed]:
        source = f"distribution {distribution.name!r}" if distribution.name else "evaluation"
        raise ValueError(f"{task.name}: a batch measures the lengths {wrong} of its {source}; allowed: {allowed}")


def _add_measured_pairs(
    pack: Pack, evaluation_batch: EvaluationBatch, scores: Iterable[str], measured_pairs: set[tuple[str, int]]
) -> None:
    """Add the (metric, length) pairs of a batch to `measured_pairs`.

    Raises ValueError for undeclared or repeated metrics.
    """
    for name in scores:
        recorded = pack.task.recorded_name(name, evaluation_batch.distribution)
        if recorded not in pack.metrics:
            declared = ", ".join([*pack.task.metrics, *pack.model.metrics])
            raise ValueError(f"{pack.task.name} or its model: undeclared metric {name}; allowed: {declared}")

        # A second batch at a length would overwrite the first, instead of being averaged with it.
        pairs = {(recorded, length) for length in evaluation_batch.lengths}
        if name in {**pack.task.metrics, **pack.evaluation.added_metrics} and pairs & measured_pairs:
            lengths = sorted(length for _, length in pairs & measured_pairs)
            raise ValueError(
                f"{pack.task.name}: two batches have {name} at lengths {lengths}; allowed: a single batch with all "
                "rows of a length"
            )
        measured_pairs |= pairs


def _select_weights(averages: Sequence[Tensor], stacked_members: range) -> Tensor:
    """Return the weights of some members, numbered as in `_score_members`, from averages (M, P)."""
    # The indices may continue from one average into the next.
    count = len(averages[0])
    slices = [
        (max(stacked_members.start - first, 0), max(stacked_members.stop - first, 0))
        for first in range(0, len(averages) * count, count)
    ]
    selected = [
        weights[low:high] for weights, (low, high) in zip(averages, slices, strict=True) if low < min(high, count)
    ]
    return selected[0] if len(selected) == 1 else torch.cat(selected)


def _join_rows(pieces: Sequence[Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
    """Return the scores of all rows, (M, B, ...) by name, from the scores of the pieces."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: torch.cat([piece[name] for piece in pieces], dim=1) for name in pieces[0]}


def choose_piece_sizes(pack: Pack, batch: Batch) -> tuple[int, int]:
    """Return how many rows of a batch are evaluated at once, and how many members together on these rows.

    The number of rows is limited by the memory of a single member, never of the pack. On a CPU the attention scores
    should fit into the CPU cache; on a GPU the scores of all members together are limited. Generated tokens have few
    scores, and only generation needs a KV cache.
    """
    # The sizes of one row of one member.
    on_cpu = pack.device.type == "cpu"
    generates = pack.task.passes > 1
    positions = batch.tokens.shape[-1]
    logit_count = positions * pack.task.outputs
    cache_size = positions * pack.model.cache_size_per_token if generates else 0
    score_count = 0 if generates else pack.model.scores_per_pair * positions**2
    operations = pack.model.count_operations(pack.task, 1, positions)

    # Rows come first and do not depend on the number of members, because other pieces could give other bits.
    score_limit = SCORES_PER_PASS if on_cpu else SCORES_PER_PASS_ON_GPU
    fitting_rows = score_limit // score_count if score_count else LOGITS_PER_MEMBER
    limits = (PAIRS_PER_MEMBER // positions**2, int(OPERATIONS_PER_MEMBER // max(operations, 1.0)), fitting_rows)
    rows_at_once = max(1, min(LOGITS_PER_MEMBER // max(logit_count, cache_size), *limits))
    piece_rows = min(rows_at_once, batch.tokens.shape[1])
    members = (LOGITS_PER_PASS if on_cpu else LOGITS_PER_MEMBER) // (piece_rows * logit_count)
    return rows_at_once, max(
        1, min(members, LOGITS_PER_MEMBER // max(1, piece_rows * cache_size), fitting_rows // piece_rows)
    )


def _derive_metrics(
    pack: Pack,
    state: TrainingState,
    history: Sequence[EvaluationCurves],
    distribution: Distribution,
    values: NDArray[np.float32],
) -> tuple[str, ...]:
    """Write the derived metrics of a distribution at its lengths into `values`; return their names."""
    # A task derives metrics for one distribution at a time, by its own names and at the lengths of the distribution.
    lengths = tuple(length for length in pack.lengths if length in distribution.lengths)
    columns = [pack.lengths.index(length) for length in lengths]
    names = {
        metric.base: (k, name)
        for k, (name, metric) in enumerate(pack.metrics.items())
        if metric.distribution == distribution.name
    }

    # Earlier evaluations are views, which copy only what the task reads.
    current = EvaluationCurves(int(state.step), {base: values[:, :, k][..., columns] for base, (k, _) in names.items()})
    unknown = np.full_like(values[:, :, 0], np.nan)  # for metrics that an older version did not record
    recorded = {base: name for base, (_, name) in names.items()}
    past = [
        EvaluationCurves(evaluation.step, _DistributionCurves(evaluation.curves, recorded, columns, unknown))
        for evaluation in history
    ]

    # Only declared metrics have a column in the curves.
    derived = pack.task.derive_metrics([*past, current], lengths)
    for base, curves in derived.items():
        if base not in names:
            raise ValueError(f"{pack.task.name}: derive_metrics: undeclared metric {base}; allowed: {', '.join(names)}")
        values[:, :, names[base][0], columns] = curves
    return tuple(derived)


@dataclass(frozen=True)
class _DistributionCurves(Mapping[str, NDArray[np.float32]]):
    """Recorded curves at the lengths of a distribution by the task's own metric names, sliced on access."""

    curves: Curves
    recorded: Mapping[str, str]
    columns: Sequence[int]
    unknown: NDArray[np.float32]

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        curve: NDArray[np.float32] = self.curves.get(self.recorded[name], self.unknown)[..., self.columns]
        return curve

    def __iter__(self) -> Iterator[str]:
        return iter(self.recorded)

    def __len__(self) -> int:
        return len(self.recorded)
