"""A task with three test sets, for the tests of this folder: what it is trained on, a harder set and a longer one."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.task import Distribution, EvaluationBatch, EvaluationCurves, Task, steps_to
from trainers.tensors.batch import Batch


@register("task", "three_sets")
class ThreeSets(Task):
    """Tokens in, the same tokens out. Training has common tokens alone, and few of the last `rare` ones.

    Sets: `iid` as in training at lengths 1..4; `hard` of rare tokens alone at lengths 3 and 4; `long` as in training at
    lengths 5..7.

    >>> ThreeSets().recorded_name("accuracy", "hard")
    'accuracy.hard'
    >>> [one.name for one in ThreeSets().distributions]
    ['iid', 'hard', 'long']
    """

    vocabulary: int = setting(6, low=2, help="number of tokens")
    rare: int = setting(2, low=1, help="how many of them are rare")
    threshold: float = setting(0.9, help="the accuracy that counts as reached")

    @property
    def inputs(self) -> int:
        """Number of input tokens."""
        return self.vocabulary

    @property
    def outputs(self) -> int:
        """Number of output tokens."""
        return self.vocabulary

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Lengths seen in training."""
        return (1, 2, 3)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of all sets."""
        return tuple(range(1, 8))

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """What it is trained on, the harder set and the longer one."""
        sets = {"iid": (1, 2, 3, 4), "hard": (3, 4), "long": (5, 6, 7)}
        return tuple(
            Distribution(name, lengths, self.trained_lengths * (name == "iid")) for name, lengths in sets.items()
        )

    @property
    def metrics(self) -> Mapping[str, str]:
        """Accuracy, and the step at which it was at its threshold; accuracy on each token alone."""
        tokens = dict.fromkeys((f"accuracy_token_{token}" for token in range(self.vocabulary)), "maximize")
        return {"accuracy": "maximize", "steps_to_accuracy": "minimize", "error": "minimize", **tokens}

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics worth a chart."""
        return ("accuracy", "steps_to_accuracy")

    def sample(self, stream: Stream, rows: int) -> Batch:
        """A training batch."""
        tokens = self._tokens(stream, 0, rows, max(self.trained_lengths), "iid")
        return Batch(tokens, tokens)

    @property
    def stages(self) -> tuple[int, ...]:
        """Two."""
        return (1, 3)

    def sample_staged(self, stream: Stream, rows: int, stage_S: Tensor) -> Batch:
        """A training batch; at the first stage it has common tokens alone."""
        tokens = self.sample(stream, rows).tokens
        tokens = torch.where(stage_S[:, None, None] == 0, tokens % (self.vocabulary - self.rare), tokens)
        return Batch(tokens, tokens)

    def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropy."""
        logs = torch.log_softmax(logits_MBTV, dim=-1)
        picked = torch.gather(logs, -1, batch.targets[..., None])[..., 0]
        return -picked.sum(dim=(1, 2)), torch.full_like(picked[:, 0, 0], picked[0].numel())

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """A batch of each set."""
        for site, distribution in enumerate(self.distributions):
            own_lengths = tuple(length for length in lengths if length in distribution.lengths)
            if own_lengths:
                tokens = self._tokens(stream, site, samples, max(own_lengths), distribution.name)
                yield EvaluationBatch(Batch(tokens, tokens), own_lengths, distribution.name)

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Whether the last token is right."""
        at = torch.tensor([length - 1 for length in lengths], device=logits_MBTV.device)
        wanted = batch.targets.index_select(2, at)
        right = (logits_MBTV.index_select(2, at).argmax(dim=-1) == wanted).to(logits_MBTV.dtype)
        of_token = {
            f"accuracy_token_{token}": torch.where(wanted == token, right, torch.nan)
            for token in range(self.vocabulary)
        }
        return {"accuracy": right, "error": 1.0 - right, **of_token}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Means over the rows that count."""
        return {name: value.nanmean(dim=1) for name, value in rows.items()}

    def derive_metrics(
        self, history: Sequence[EvaluationCurves], lengths: tuple[int, ...]
    ) -> dict[str, NDArray[np.float32]]:
        """The first evaluation at which accuracy was at its threshold."""
        return {"steps_to_accuracy": steps_to(history, "accuracy", self.threshold)}

    def _tokens(self, stream: Stream, site: int, rows: int, positions: int, name: str) -> Tensor:
        """Rare tokens are the last ones; of 16 tokens of training one is rare."""
        drawn = stream.uniform(site, (rows, positions, 2))
        common = (drawn[..., 0] * (self.vocabulary - self.rare)).long()
        rare = self.vocabulary - self.rare + (drawn[..., 0] * self.rare).long()
        chance = {"iid": 1 / 16, "hard": 1.0, "long": 1 / 16}[name]
        return torch.where(drawn[..., 1] < chance, rare, common)
