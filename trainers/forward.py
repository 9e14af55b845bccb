"""Passes of some members' models without learning: whole batches, or tokens one after the other.

Shapes: M members, B rows, T positions, K positions kept, V output tokens.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from torch import Tensor

from trainers.batch import Batch
from trainers.models.model import Cache, Model
from trainers.noise import Noise
from trainers.precision import computing


@dataclass(frozen=True)
class Forward:
    """The models of M members with the weights of one average, (M, *shape) by name.

    noise: what is random in a test of the rows at hand; nothing is dropped. compute_dtype: as in training; logits have
    the type of the weights. recorded: what the layers recorded of themselves in the last whole pass.
    """

    model: Model
    weights: Mapping[str, Tensor]
    form: str
    noise: Noise
    compute_dtype: str = "float32"
    recorded: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> Tensor:
        """Logits (M, B, T, V)."""
        self.recorded.clear()
        with self._computing():
            return self._wide(self.model.logits(self.weights, batch, self.noise, self.form, self._record))

    def start(self, batch: Batch, width: int) -> tuple[Tensor, Cache]:
        """Logits (M, B, T, V), and what is kept to go on up to `width` positions."""
        with self._computing():
            logits, cache = self.model.start(self.weights, batch, width, self.noise, self.form)
        return self._wide(logits), cache

    def extend(
        self,
        cache: Cache,
        tokens_MBT: Tensor,
        ids_MBT: Tensor | None = None,
        visible_MBK: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """Logits (M, B, T, V) of the tokens that follow, and what is kept of all tokens so far.

        `ids_MBT` are their position ids, where the batch had any. They see the positions that `visible_MBK` (its last
        dimension the width of the cache) allows, and none that follow; all before them if it is None.
        """
        with self._computing():
            logits, cache = self.model.extend(
                self.weights, cache, tokens_MBT, ids_MBT, visible_MBK, self.noise, self.form
            )
        return self._wide(logits), cache

    @property
    def _weight(self) -> Tensor:
        return next(iter(self.weights.values()))

    def _computing(self) -> AbstractContextManager[object]:
        return computing(self.compute_dtype, self._weight.device.type)

    def _wide(self, logits: Tensor) -> Tensor:
        return logits.to(self._weight.dtype)

    def _record(self, name: str, value: Tensor) -> None:
        self.recorded.setdefault(name, []).append(value)
