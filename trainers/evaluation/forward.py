"""Forward passes in evaluation: over full batches, token by token with a KV cache, or generating texts.

Shapes: M members, B rows, T positions, K cached positions, P tokens of a prompt, G generated ones, V output tokens.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from torch import Tensor

from trainers.evaluation.generate import MAX_DRAWS, TokenChooser, generate_states, generate_tokens, make_chooser
from trainers.models.model import Cache, Model
from trainers.positions.context import Recorder
from trainers.tasks.decoding import Decoding
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.precision import autocast


@dataclass(frozen=True)
class Forward:
    """The models of M members with the weights of an average, (M, *shape) by name.

    noise: random numbers of these rows in evaluation, without dropout. compute_dtype: as in training; logits have the
    dtype of the weights. is_recording: whether calls collect recorded values. recorded: values that the layers recorded
    in the last call. used_draws: the numbers of the draws of sampled texts so far.
    """

    model: Model
    weights: Mapping[str, Tensor]
    form: str
    noise: Noise
    compute_dtype: str = "float32"
    beat: Callable[[], None] = lambda: None
    is_recording: bool = True
    recorded: dict[str, list[Tensor]] = field(default_factory=dict)
    used_draws: set[int] = field(default_factory=set, init=False)

    def __call__(self, batch: Batch) -> Tensor:
        """Return logits (M, B, T, V), and collect the values that the layers record in `recorded`."""
        self.recorded.clear()
        return self.logits(batch, self._record if self.is_recording else None)

    def logits(self, batch: Batch, record: Recorder | None = None) -> Tensor:
        """Return logits (M, B, T, V); `record` gets the values that the layers record."""
        with self._autocast():
            return self._cast(self.model.logits(self.weights, batch, self.noise, self.form, record))

    def prefill(self, batch: Batch, width: int) -> tuple[Tensor, Cache]:
        """Return logits (M, B, T, V), and a KV cache of up to `width` positions."""
        with self._autocast():
            logits, cache = self.model.prefill(self.weights, batch, width, self.noise, self.form)
        return self._cast(logits), cache

    def decode(
        self,
        cache: Cache,
        tokens_MBT: Tensor,
        ids_MBT: Tensor | None = None,
        visible_MBK: Tensor | None = None,
    ) -> tuple[Tensor, Cache]:
        """Return logits (M, B, T, V) of the following tokens, and the extended KV cache.

        ids_MBT: their position ids, if the batch had ids. visible_MBK: mask of the positions they see, as wide as the
        cache; None means all earlier positions. No token sees later positions.
        """
        with self._autocast():
            logits, cache = self.model.decode(
                self.weights, cache, tokens_MBT, ids_MBT, visible_MBK, self.noise, self.form
            )
        return self._cast(logits), cache

    start, extend = prefill, decode  # old names, which users' tasks for 2.0.0 may call

    def attention(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the attention weights (M, B, H, T, K) of every layer; empty for a model without attention weights."""
        with self._autocast():
            return self.model.compute_attention(self.weights, batch, self.noise)

    @property
    def _first_weight(self) -> Tensor:
        """Any weight: all have the same dtype and device."""
        return next(iter(self.weights.values()))

    def _autocast(self) -> AbstractContextManager[object]:
        return autocast(self.compute_dtype, self._first_weight.device.type)

    def _cast(self, logits: Tensor) -> Tensor:
        """Return logits in the dtype of the weights, as in training."""
        return logits.to(self._first_weight.dtype)

    def generate(
        self,
        prompt_MBP: Tensor,
        decoding: Decoding,
        *,
        max_tokens: int,
        draw: int = 0,
        draws: int | None = None,
        ids: Tensor | None = None,
        groups: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor:
        """Return the text generated after each prompt, int64 (M, B, max_tokens): tokens to the end mark, then pads.

        draws: return this many texts for each prompt, (M, B, draws, max_tokens), numbered draw, draw + 1, ... Random
        numbers of sampled tokens depend on the number of the draw and on the row in its batch, not on how many draws
        are made or in which pieces the batch is evaluated. Without sampling all draws are equal.

        ids, groups: position ids and groups of the tokens that are read, int64 (M, B, P + max_tokens - 1), as in a
        `Batch`. lengths: numbers of real tokens of padded prompts, int64 (M, B), at least 1; a text follows the real
        tokens of its row, and `ids` and `groups` count without the padding.

        Raises ValueError for `max_tokens` or `draws` below 1, a draw that was sampled already, and other shapes.
        """
        # Checks come first, because they are cheaper than reading the prompts.
        choosers = self._make_choosers(decoding, (prompt_MBP.shape[1], max_tokens), draw, draws)
        inputs = {"ids": ids, "groups": groups, "lengths": lengths}
        return _select_draws(generate_tokens(self, prompt_MBP, decoding, choosers, max_tokens, **inputs), draws)

    def generate_by_state(
        self,
        prompt_MBP: Tensor,
        decoding: Decoding,
        *,
        shared: int,
        states: int,
        width: int,
        mark: int,
        draw: int = 0,
        draws: int | None = None,
    ) -> Tensor:
        """Return the text generated state by state after each prompt, int64 (M, B, G): to the end mark, then pads.

        G = shared - P + states * width. The first `shared` tokens, the question, are visible to every state. If the
        prompt is shorter, the model completes them first; if it is longer, its rest begins the first state. A state
        ends with `mark` or the end mark and has at most `width` tokens; a row with a longer state ends there. Every
        later state is generated from the shared tokens and the previous state only, at positions 0, 1, 2... (the
        inductive scratchpad, arXiv:2406.06467, appendix C.2). draws: return this many texts, (M, B, draws, G), as in
        `generate`. Raises ValueError for a prompt that is empty or fills the first state, for `draws` below 1, and for
        a draw that was sampled already.
        """
        max_tokens = shared - prompt_MBP.shape[-1] + states * width
        choosers = self._make_choosers(decoding, (prompt_MBP.shape[1], max_tokens), draw, draws)
        sizes = {"shared": shared, "states": states, "width": width, "mark": mark}
        return _select_draws(generate_states(self, prompt_MBP, decoding, choosers, **sizes), draws)

    def _make_choosers(
        self, decoding: Decoding, shape: tuple[int, int], draw: int, draws: int | None
    ) -> Iterator[TokenChooser]:
        """Return a function for each text that chooses its tokens. Raises ValueError for an invalid or used draw."""
        if draws is not None and draws < 1:
            raise ValueError(f"draws is {draws}; allowed: 1 or more, or None for one text")
        numbers = range(draw, draw + (draws or 1))
        # The numbers are consecutive, so checking both ends is enough.
        for number in (numbers[0], numbers[-1]):
            if not 0 <= number < MAX_DRAWS:
                raise ValueError(f"draw is {number}; allowed: 0 to {MAX_DRAWS - 1}")

        # Without sampling a single text serves all draws; sampled draws must not repeat random numbers.
        if not decoding.is_sampled:
            numbers = numbers[:1]
        elif repeated := self.used_draws.intersection(numbers):
            raise ValueError(
                f"draw {min(repeated)} was sampled already, with the same random numbers; allowed: another draw, "
                f"such as generate(..., draw={max(self.used_draws) + 1})"
            )
        else:
            self.used_draws.update(numbers)
        return (make_chooser(self, decoding, shape, number) for number in numbers)

    def _record(self, name: str, value: Tensor) -> None:
        """Append a value that a layer records."""
        self.recorded.setdefault(name, []).append(value)


def _select_draws(texts_MBDG: Tensor, draws: int | None) -> Tensor:
    """Return all draws, (M, B, draws, G), repeating a single text without sampling; (M, B, G) if `draws` is None."""
    return texts_MBDG[:, :, 0] if draws is None else texts_MBDG.expand(-1, -1, draws, -1)
