"""Metrics of an evaluation in addition to the task's: `evaluation.metrics`, and values recorded by modules.

Shapes: M members, B rows, T positions, V output tokens, L lengths.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor

from trainers.errors import locate_method
from trainers.evaluation.forward import Forward
from trainers.metrics.metric import EvaluatedBatch, Metric
from trainers.metrics.recorded_value import RecordedValue
from trainers.packs.pack import Pack
from trainers.tasks.task import EvaluationBatch
from trainers.tensors.batch import Batch
from trainers.tensors.device_constants import make_constant


@dataclass(frozen=True)
class AddedMetrics:
    """Metrics that a configuration adds to its task's metrics, by label. step: training steps so far, int64 ()."""

    metrics: Mapping[str, Metric]
    step: Tensor

    @classmethod
    def from_pack(cls, pack: Pack, step: Tensor) -> Self:
        """Return the metrics recorded by the model, and the metrics of `evaluation.metrics`."""
        return cls({**cls.from_model(pack, step).metrics, **pack.evaluation.added_metrics}, step)

    @classmethod
    def from_model(cls, pack: Pack, step: Tensor) -> Self:
        """Return the metrics recorded by the model."""
        return cls({name: RecordedValue(value=name) for name in pack.model.recorded_metrics}, step)

    def select_measured(self, pack: Pack, evaluation_batch: EvaluationBatch) -> Self:
        """Return the metrics that are defined at a length of the batch."""
        metrics = {
            label: metric
            for label, metric in self.metrics.items()
            if self._find_defined_lengths(pack, evaluation_batch, label)
        }
        return replace(self, metrics=metrics)

    def score_rows(
        self,
        pack: Pack,
        evaluation_batch: EvaluationBatch,
        forward: Forward,
        piece: Batch,
        logits: Tensor | None,
    ) -> dict[str, Tensor]:
        """Return the scores of some rows of a batch by label: (M, B, L), or (M, B, ...) for a metric with `reduce`.

        logits: (M, B, T, V), None if they were not computed. Raises ValueError for scores of another shape.
        """

        def sample(draws: int, temperature: float) -> Tensor:
            separate_forward = replace(forward)  # without the draws that the task or other metrics have sampled
            return pack.task.sample_answers(separate_forward, piece, evaluation_batch.lengths, draws, temperature)

        # Logits and attention are functions, because their passes run only for metrics that read them.
        evaluated = EvaluatedBatch(
            batch=piece,
            lengths=evaluation_batch.lengths,
            task=pack.task,
            weights=forward.weights,
            step=self.step,
            compute_logits=lambda: forward.logits(piece) if logits is None else logits,
            compute_attention=partial(forward.attention, piece),
            values=dict(forward.recorded),
            sample=sample,
        )

        # Metrics may be the user's code, so their results are checked.
        scores = {label: metric.score_rows(evaluated) for label, metric in self.metrics.items()}
        for label, metric in self.metrics.items():
            _check_scores(metric, scores[label], (*piece.tokens.shape[:2], len(evaluation_batch.lengths)))
        return scores

    def reduce(self, pack: Pack, evaluation_batch: EvaluationBatch, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return each metric, (M, L), NaN at lengths where it is not defined. Raises ValueError for another shape."""
        values = dict[str, Tensor]()
        for label, metric in self.metrics.items():
            value = metric.reduce(rows[label], evaluation_batch.lengths)
            if value.shape != (shape := (len(rows[label]), len(evaluation_batch.lengths))):
                raise ValueError(
                    f"metric {label}: reduce returns the shape {tuple(value.shape)} for {shape[0]} members and lengths "
                    f"{list(evaluation_batch.lengths)}; allowed: (M, L) = {shape}{locate_method(metric.reduce)}"
                )

            # A batch of several lengths may have some at which the metric is not defined.
            defined_lengths = self._find_defined_lengths(pack, evaluation_batch, label)
            is_defined = tuple(length in defined_lengths for length in evaluation_batch.lengths)
            mask = make_constant(is_defined, value.device, torch.bool)
            values[label] = torch.where(mask, value, torch.nan)
        return values

    def _find_defined_lengths(self, pack: Pack, evaluation_batch: EvaluationBatch, label: str) -> set[int]:
        """Return the lengths of a batch at which a metric is defined."""
        recorded = pack.metrics[pack.task.recorded_name(label, evaluation_batch.distribution)]
        return {*evaluation_batch.lengths}.intersection(recorded.lengths)


def _check_scores(metric: Metric, scores: object, shape: tuple[int, int, int]) -> None:
    """Raise ValueError for an invalid result of `score_rows`; `shape` is (M, B, L)."""
    # With a `reduce` of its own a metric may return any trailing shape.
    if type(metric).reduce is not Metric.reduce:
        is_valid = isinstance(scores, Tensor) and scores.shape[:2] == shape[:2]
        allowed = f"(M, B, ...) = {shape[:2]}"
    else:
        is_valid = isinstance(scores, Tensor) and scores.shape == shape and scores.is_floating_point()
        allowed = f"(M, B, L) = {shape}, floating-point"

    if not is_valid:
        description = f"{scores.dtype} {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(f"score_rows returns {description}; allowed: {allowed}{locate_method(metric.score_rows)}")
