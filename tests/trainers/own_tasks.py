"""Throw-away tasks and models, one for each thing that the engine must be able to say and that no shipped one says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from trainers.evaluation.forward import Forward
from trainers.models.model import Model, Recorder
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.tasks.metric_descriptions import EvaluationCurves, steps_to
from trainers.tasks.task import Distribution, EvaluationBatch, Task
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter

TOKENS = 7


def scores_of(task: Task, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """Return each metric, (M, L), of the logits of a whole batch."""
    return task.reduce(task.score_rows(logits_MBTV, batch, lengths), batch, lengths)


def mean_loss(task: Task, logits_MBTV: Tensor, batch: Batch) -> Tensor:
    """Return the loss of a training step on the whole batch, (M,)."""
    total, weight = task.loss(logits_MBTV, batch)
    return total / weight


class Last(Task):
    """Random tokens in, the token before the last out; only the last position counts."""

    train_length: int = setting(4, low=2)
    inputs = outputs = TOKENS
    lengths = (2, 4, 6, 8)
    trained_lengths = (2, 4)
    metrics: ClassVar[Mapping[str, str]] = {"accuracy": "maximize"}

    def batch_of(self, tokens: Tensor) -> Batch:
        targets = torch.cat([tokens[..., :1], tokens[..., :-1]], dim=-1)
        weight = torch.zeros_like(tokens, dtype=torch.float32)
        weight[..., -1] = 1.0
        return Batch(tokens, targets, weight=weight)

    def sample(self, stream: Stream, rows: int) -> Batch | tuple[Batch, ...]:
        return self.batch_of(stream.integers(0, (rows, self.train_length), TOKENS))

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        for length in lengths:
            yield EvaluationBatch(self.batch_of(stream.integers(length, (samples, length), TOKENS)), (length,))

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        right = logits_MBTV[:, :, -1].argmax(dim=-1) == batch.targets[:, :, -1]
        return {"accuracy": right.float()[..., None]}


class Ragged(Last):
    """How many positions of a row count is random; or rows come in two widths, as two batches."""

    two: bool = setting(False)

    def sample(self, stream: Stream, rows: int) -> Batch | tuple[Batch, ...]:
        if self.two:
            half = rows // 2
            short = self.batch_of(stream.integers(0, (half, 2), TOKENS))
            return short, self.batch_of(stream.integers(1, (rows - half, self.train_length), TOKENS))
        batch = self.batch_of(stream.integers(0, (rows, self.train_length), TOKENS))
        counted = stream.integers(1, (rows, 1), self.train_length + 1)
        return replace(batch, weight=(torch.arange(self.train_length) < counted).float())


class Sets(Last):
    """Three sets of inputs: the one trained on, one of few tokens at the same lengths, and a long one."""

    metrics: ClassVar[Mapping[str, str]] = {"accuracy": "maximize", "spread": "none", "error": "minimize"}
    lengths = (2, 4, 8, 16)
    distributions = (
        Distribution("iid", (2, 4), (2, 4)),
        Distribution("few", (2, 4, 8)),
        Distribution("long", (8, 16)),
    )

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        for number, (name, tokens) in enumerate({"iid": TOKENS, "few": 2, "long": TOKENS}.items()):
            for length in lengths:
                if length in self.distributions[number].lengths:
                    drawn = stream.integers(100 * number + length, (samples, length), tokens)
                    yield EvaluationBatch(self.batch_of(drawn), (length,), name)
                    yield EvaluationBatch(Spread(drawn, drawn), (length,), name)

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        if isinstance(batch, Spread):  # a second batch of the same length, with a metric of its own
            return {"tokens": batch.tokens}
        return super().score_rows(logits_MBTV, batch, lengths)

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        if isinstance(batch, Spread):
            return {"spread": rows["tokens"].amax(dim=(1, 2))[:, None].float()}
        return super().reduce(rows, batch, lengths)

    def derive_metrics(
        self, history: Sequence[EvaluationCurves], lengths: tuple[int, ...]
    ) -> dict[str, NDArray[np.float32]]:
        return {"error": 1 - history[-1].curves["accuracy"]}


@dataclass(frozen=True)
class Spread(Batch):
    """Rows of which the largest token is asked."""


class Timed(Last):
    """The step at which the accuracy first reached its threshold."""

    threshold: float = setting(0.5)
    metrics: ClassVar[Mapping[str, str]] = {"accuracy": "maximize", "steps_to_accuracy": "minimize"}

    def derive_metrics(
        self, history: Sequence[EvaluationCurves], lengths: tuple[int, ...]
    ) -> dict[str, NDArray[np.float32]]:
        return {"steps_to_accuracy": steps_to(history, "accuracy", self.threshold)}


class Spoken(Last):
    """The model says what follows the first two tokens, greedily, and is right when it repeats them in turn."""

    metrics: ClassVar[Mapping[str, str]] = {"exact_match": "maximize", "said": "none"}

    def score_batch(self, forward: Forward, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        (length,) = lengths
        prompt = Batch(batch.tokens[..., :2], batch.tokens[..., :2])
        logits, cache = forward.prefill(prompt, length + 1)
        generated = [logits[:, :, -1:].argmax(dim=-1)]
        for _ in range(length - 2):
            logits, cache = forward.decode(cache, generated[-1])
            generated.append(logits.argmax(dim=-1))
        tokens = torch.cat(generated, dim=-1)
        wanted = batch.tokens[..., torch.arange(length - 1) % 2]
        return {"exact_match": (tokens == wanted).all(dim=-1).float()[..., None], "said": tokens.float().mean(-1, True)}


class Echo(Timed):
    """One token over and over in, the same out: learned in a few steps. Rows of length 2 have the first three tokens.

    Its first stage is those rows, its second all tokens in rows of length 4.
    """

    stages = (2, 4)

    def rows_of(self, words: Tensor, length: int, tokens: int | Tensor) -> Batch:
        return self.batch_of(((words * tokens) >> 32).expand(*words.shape[:-1], length))

    def sample(self, stream: Stream, rows: int) -> Batch:
        return self.rows_of(stream.bits(0, (rows, 1)), self.train_length, TOKENS)

    def sample_staged(self, stream: Stream, rows: int, stage_S: Tensor) -> Batch:
        tokens = torch.where(stage_S == 0, 3, TOKENS)
        return self.rows_of(stream.bits(0, (rows, 1)), self.train_length, tokens[:, None, None])

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        for length in lengths:
            words = stream.bits(length, (samples, 1))
            yield EvaluationBatch(self.rows_of(words, length, 3 if length == 2 else TOKENS), (length,))


class Corpus(Last):
    """Windows of a text that is kept outside, here an array on disk that is mapped into memory."""

    path: str = setting("")

    def sample(self, stream: Stream, rows: int) -> Batch:
        text = torch.from_numpy(np.load(self.path, mmap_mode="c"))
        start = stream.integers(0, (rows, 1), len(text) - self.train_length + 1)
        return self.batch_of(text[start + torch.arange(self.train_length)].long())


class Bag(Model):
    """One vector for each token and position, summed over what was seen; no dropout, but random numbers in training."""

    shaken: bool = setting(False)

    @property
    def draws_random_numbers(self) -> bool:
        return self.shaken

    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        return (
            Parameter(name="vectors", shape=(TOKENS, TOKENS), std=0.3),
            Parameter(name="scale", shape=(1,), std=0.0, mean=1.0),
        )

    def count_operations(self, task: Task, rows: int, positions: int) -> float:
        return 2.0 * rows * positions * TOKENS

    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        one_hot = functional.one_hot(batch.tokens, TOKENS).to(weights["vectors"].dtype)
        logits = torch.einsum("mbtv,mvw->mbtw", one_hot, weights["vectors"]).cumsum(dim=2)
        if noise is not None and noise.training and self.shaken:
            logits = logits + noise.integers(5, (logits.shape[1], 1, TOKENS), 3).to(logits.dtype)
        return logits * weights["scale"][:, None, None]
