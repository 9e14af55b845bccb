"""The metric of a value recorded by a model's module. It is not registered, because models declare such metrics.

Shapes: M members, B rows, T positions, L lengths.
"""

from typing import ClassVar

import torch
from torch import Tensor

from trainers.metrics.metric import EvaluatedBatch, Metric
from trainers.settings.fields import setting


class RecordedValue(Metric):
    """Mean of a recorded value over rows, and over the values recorded under the same name.

    A value of each token is averaged over the counted targets of a row.
    """

    direction: ClassVar[str] = "none"  # its model declares the better one

    value: str = setting(help="name under which the value is recorded")

    def score_rows(self, evaluated: EvaluatedBatch) -> Tensor:
        """Return the value of each row at each length, (M, B, L), from recorded values (M,), (M, B) or (M, B, T).

        Raises ValueError for values (M, B) in a batch of several lengths.
        """
        scores = [self._score_value(value, evaluated) for value in evaluated.recorded(self.value)]
        return torch.stack(scores).mean(dim=0)

    def _score_value(self, value: Tensor, evaluated: EvaluatedBatch) -> Tensor:
        """Return a recorded value of each row at each length, (M, B, L)."""
        # A value of the member is the same for all rows; values of tokens are averaged over the counted targets.
        value = value.to(evaluated.logits.dtype)
        if value.dim() == 1:
            return value[:, None, None].expand(-1, evaluated.logits.shape[1], len(evaluated.lengths))
        if value.dim() == 3:
            return evaluated.mean_over_targets(value)

        # A value of each row says nothing about its prefixes, so the batch must measure a single length.
        if len(evaluated.lengths) > 1:
            raise ValueError(
                f"{self.value} is a value of each row, but a batch measures lengths {list(evaluated.lengths)}; "
                "allowed: a value of each token, (rows, length)"
            )
        return value[..., None]
