"""Set complement: predict the uniform distribution over the tokens that are absent (arXiv:2510.08341)."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks import uniform
from trainers.tasks.metric_descriptions import EvaluationCurves
from trainers.tasks.task import Batch, EvaluationBatch, Task
from trainers.tensors.device_constants import make_constant


@register("task", "set_complement")
class SetComplement(Task):
    """Input: distinct tokens. Output: at every position, the uniform distribution over the tokens not seen so far.

    Tokens are 0..v-1. A training row is the start of a random permutation; position s-1 is the example of length s.
    With `target: sampled` the target is the token that follows (a uniform draw from the complement), with `soft` it is
    the distribution itself.

    >>> SetComplement(vocabulary=5, train_length=2).make_targets(torch.tensor([[[3, 1]]])).tolist()[0][0]
    [[0.25, 0.25, 0.25, 0.0, 0.25], [0.3333333432674408, 0.0, 0.3333333432674408, 0.0, 0.3333333432674408]]
    >>> SetComplement(vocabulary=5, train_length=3).make_targets(torch.tensor([[[0, 2, 4]]])).tolist()[0][0][2]
    [0.0, 0.5, 0.0, 0.5, 0.0]
    """

    vocabulary: int = setting(20, low=3, high=100_000, help="number of tokens v")
    train_length: int = setting(5, low=1, help="trained on lengths 1..train_length")
    target: str = setting("sampled", choices=("sampled", "soft"), help="next token, or the whole distribution")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem if a training row can contain every token."""
        if self.train_length >= self.vocabulary:
            yield self._make_problem(
                "train_length", f"{self.train_length} leaves no absent token", f"< vocabulary ({self.vocabulary})"
            )

    @property
    def inputs(self) -> int:
        """Number of input tokens."""
        return self.vocabulary

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Lengths seen in training."""
        return tuple(range(1, self.train_length + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths that can be evaluated: at least one token stays absent."""
        return tuple(range(1, self.vocabulary))

    # The metrics of `trainers.tasks.uniform`, with absent tokens allowed, are means over inputs. total_variation_p99 is
    # their 99th percentile, margin_min the worst input. displacement is the Delta of the balanced closed form with the
    # same invalid mass m: s log(s (1 - m) / ((v - s) m)). margin_bound is the paper's (2/s) C, where C is the smaller
    # of margin_min at lengths 1 and 2: a lower bound of margin_min at length s for a balanced model.
    metrics: ClassVar[Mapping[str, str]] = {
        **uniform.METRICS,
        "total_variation_p99": "minimize",
        "margin_min": "maximize",
        "displacement": "none",
        "margin_bound": "none",
    }
    headline = ("total_variation", "invalid_mass", "margin")

    def make_targets(self, tokens_SBT: Tensor) -> Tensor:
        """Return the uniform distribution over absent tokens after each position, float32 (S, B, T, V)."""
        # A token is present from its first position on; one that never occurs has a position after the last.
        position = torch.arange(tokens_SBT.shape[-1], device=tokens_SBT.device)
        never = position.new_full((*tokens_SBT.shape[:-1], self.vocabulary), tokens_SBT.shape[-1])
        first_position = never.scatter_reduce(-1, tokens_SBT, position.expand_as(tokens_SBT), "amin")
        is_present = first_position[..., None, :] <= position[:, None]
        return uniform.make_uniform(~is_present)

    def sample(self, stream: Stream, rows: int) -> Batch:
        """Return a training batch for every seed of the stream."""
        count = self.train_length + (self.target == "sampled")  # a sampled target is the token after the row
        permutations = stream.permutations(0, rows, self.vocabulary, count)
        tokens = permutations[..., : self.train_length]
        return Batch(tokens, permutations[..., 1:] if self.target == "sampled" else self.make_targets(tokens))

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield all inputs of a length if there are at most `samples`, otherwise random rows of several lengths.

        Inputs with the same set and last token count as one; sampled rows have a random order.
        """
        # A prefix of a random row is a random row, too: the same rows measure all lengths that are sampled.
        counts = {s: s * math.comb(self.vocabulary, s) for s in lengths}
        sampled = tuple(s for s in lengths if counts[s] > samples)
        if sampled:
            rows = stream.permutations(0, samples, self.vocabulary, max(sampled))
            yield EvaluationBatch(Batch(rows, self.make_targets(rows)), sampled)

        for s in lengths:
            if counts[s] <= samples:
                rows = make_constant(_list_inputs(self.vocabulary, s), stream.seeds_S.device)
                rows = rows.expand(len(stream.seeds_S), -1, -1)
                yield EvaluationBatch(Batch(rows, self.make_targets(rows)), (s,))

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the scores of every row, and the log mass on absent and on other tokens, (M, B, L)."""
        # Targets are 0 or 1 / n: rounded up they are the mask of absent tokens, as factors.
        absent = torch.ceil(uniform.select_lengths(batch.targets, lengths))
        rows, log_valid, log_invalid = uniform.score_uniformity(uniform.select_lengths(logits_MBTV, lengths), absent)
        return {**rows, "log_valid": log_valid, "log_invalid": log_invalid}

    def counted_targets(self, batch: Batch, lengths: tuple[int, ...]) -> Tensor:
        """Return the mask of the last position of each length, bool (M, B, T, L)."""
        return uniform.mask_last_positions(batch.tokens, lengths)

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return means over rows and the extremes, (M, L)."""
        s = make_constant(lengths, batch.tokens.device) + 0.0
        rank_99 = math.ceil(0.99 * batch.tokens.shape[1])
        odds = torch.logsumexp(rows["log_valid"], dim=1) - torch.logsumexp(rows["log_invalid"], dim=1)
        return {
            **{name: rows[name].mean(dim=1) for name in uniform.METRICS},
            "total_variation_p99": torch.kthvalue(rows["total_variation"], rank_99, dim=1).values,
            "margin_min": rows["margin"].amin(dim=1),
            "displacement": s * (torch.log(s) - torch.log(self.vocabulary - s) + odds),
        }

    def derive_metrics(
        self, history: Sequence[EvaluationCurves], lengths: tuple[int, ...]
    ) -> dict[str, NDArray[np.float32]]:
        """Return margin_bound, computed from lengths 1 and 2; NaN unless both are evaluated."""
        margins = history[-1].curves["margin_min"]
        s = np.array(lengths)
        if {1, 2} <= {*lengths}:
            smallest = margins[..., [lengths.index(1), lengths.index(2)]].min(axis=-1, keepdims=True)
        else:
            smallest = np.full_like(margins[..., :1], np.nan)
        return {"margin_bound": 2 * smallest / s}


def _list_inputs(vocabulary: int, length: int) -> tuple[tuple[int, ...], ...]:
    """Return every set of `length` tokens with every choice of its last token."""
    rows = list[tuple[int, ...]]()
    for tokens in itertools.combinations(range(vocabulary), length):
        rows += [tokens[:i] + tokens[i + 1 :] + (tokens[i],) for i in range(length)]
    return tuple(rows)
