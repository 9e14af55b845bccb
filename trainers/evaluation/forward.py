"""Passes of some members' models without learning: whole batches, tokens one after the other, or texts they write.

Shapes: M members, B rows, T positions, K positions kept, P tokens of a prompt, G generated ones, V output tokens.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from torch import Tensor

from trainers.evaluation.generate import by_state, chooser, continued
from trainers.models.model import Cache, Model
from trainers.positions.context import Recorder
from trainers.tasks.decoding import Decoding
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.precision import computing


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
    beat: Callable[[], None] = lambda: None
    recorded: dict[str, list[Tensor]] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> Tensor:
        """Logits (M, B, T, V)."""
        self.recorded.clear()
        return self.logits(batch, self._record)

    def logits(self, batch: Batch, record: Recorder | None = None) -> Tensor:
        """Logits (M, B, T, V); what the layers record of themselves is told `record` alone."""
        with self._computing():
            return self._wide(self.model.logits(self.weights, batch, self.noise, self.form, record))

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

    def generated(self, prompt_MBP: Tensor, decoding: Decoding, *, most: int) -> Tensor:
        """What the models write behind a prompt, int64 (M, B, most): up to the end mark, then pads.

        Where tokens are drawn, each has its own number, which depends on the row in its batch and not on how the batch
        came in pieces; two calls for the same rows have the same numbers. Raises ValueError for a `most` below 1.
        """
        choose = chooser(self, decoding, (prompt_MBP.shape[1], most))
        return continued(self, prompt_MBP, decoding, choose, most)

    def generated_by_state(
        self, prompt_MBP: Tensor, decoding: Decoding, *, shared: int, states: int, width: int, mark: int
    ) -> Tensor:
        """What they write state by state, int64 (M, B, G), G = shared - P + states * width: up to the end, then pads.

        The first `shared` tokens, the question, are seen by every state. Those that the prompt lacks are written first,
        whatever they are; a prompt that goes on behind them is the beginning of the first state. A state goes up to
        `mark`, or to the end mark, and has `width` tokens at most; a row whose state is longer ends there. Each further
        state is written by a model that is given the shared tokens and the state before alone, at positions 0, 1, 2...
        (the inductive scratchpad, arXiv:2406.06467, appendix C.2). Numbers are drawn as in `generated`. Raises
        ValueError for a prompt that is empty or leaves no room in the first state.
        """
        most = shared - prompt_MBP.shape[-1] + states * width
        choose = chooser(self, decoding, (prompt_MBP.shape[1], most))
        return by_state(self, prompt_MBP, decoding, choose, shared=shared, states=states, width=width, mark=mark)

    def _record(self, name: str, value: Tensor) -> None:
        self.recorded.setdefault(name, []).append(value)
