"""Text generation: token by token after a prompt, or state by state (arXiv:2406.06467, appendix C.2).

All rows of all members take every step together, and tokens of rows that have ended are discarded. So shapes follow
from the arguments and the host never waits for a GPU; only on a CPU generation stops when every row has ended.
Draws are generated one after another in equal shapes, so the number of draws never changes the bits of a draw.
Shapes: M members, B rows, P tokens of the prompt, D draws, G generated tokens, T = P + G - 1 tokens that are read,
V output tokens, W tokens of the longest state.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainers.positions.context import GENERATION_SITE
from trainers.tasks.decoding import Decoding
from trainers.tasks.evaluated_model import ForwardPass
from trainers.tasks.parts import find_packed_columns, scatter_columns
from trainers.tensors.batch import Batch

TokenChooser = Callable[[Tensor, int], Tensor]
MAX_DRAWS = 2**12  # more parts would need random-number sites of 2^32 and above


def make_chooser(forward: ForwardPass, decoding: Decoding, shape: tuple[int, int], draw: int = 0) -> TokenChooser:
    """Return a function that chooses the next token (M, B) from logits (M, B, V) and the number of the token.

    shape: (rows, generated tokens). draw: the number of the text, which selects its random numbers.
    """
    if not decoding.is_sampled:
        return lambda logits, number: decoding.choose_token(logits, None)
    # An evaluation is one part of its step, so parts 1, 2... are free for further draws.
    uniform = replace(forward.noise, part=draw).uniform(GENERATION_SITE, shape)
    count = shape[1] if decoding.sampled_tokens is None else decoding.sampled_tokens
    return lambda logits, number: decoding.choose_token(logits, uniform[..., number] if number < count else None)


def generate_tokens(
    forward: ForwardPass,
    prompt_MBP: Tensor,
    decoding: Decoding,
    choosers: Iterable[TokenChooser],
    max_tokens: int,
    *,
    ids: Tensor | None = None,
    groups: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Tensor:
    """Return the text after each prompt for each chooser, int64 (M, B, D, G); see `Forward.generate`."""
    if max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}; allowed: 1 or more")

    # Groups and padding mask positions of the KV cache, which not every model supports.
    inputs = _TextInputs(prompt_MBP, prompt_MBP.shape[-1] + max_tokens - 1, ids, groups, lengths)
    inputs.check_shapes()
    is_masked = groups is not None or lengths is not None
    reader_class = _UncachedText if is_masked and not forward.model.supports_masked_cache else _CachedText
    reader = reader_class(forward, inputs)
    return torch.stack([_generate_text(reader, decoding, choose, max_tokens) for choose in choosers], dim=2)


def _generate_text(
    reader: "_CachedText | _UncachedText", decoding: Decoding, choose: TokenChooser, max_tokens: int
) -> Tensor:
    """Return a text after the prompt of a reader, int64 (M, B, G)."""
    # Rows end at different steps; those that have ended go on and write pads, so that shapes stay equal.
    logits = reader.read_prompt()
    text = logits.new_full((*logits.shape[:2], max_tokens), decoding.pad, dtype=torch.int64)
    active = torch.ones_like(text[..., 0], dtype=torch.bool)

    # The logits after the last token are not needed, so the loop ends before they are computed.
    for number in range(max_tokens):
        token = torch.where(active, choose(logits, number), decoding.pad)
        text[..., number] = token
        active = active & (token != decoding.end)
        reader.forward.beat()
        if number + 1 == max_tokens or _all_ended(active):
            break
        logits = reader.append_token(token)
    return text


def generate_states(
    forward: ForwardPass,
    prompt_MBP: Tensor,
    decoding: Decoding,
    choosers: Iterable[TokenChooser],
    *,
    shared: int,
    states: int,
    width: int,
    mark: int,
) -> Tensor:
    """Return the text by states for each chooser, int64 (M, B, D, G); see `Forward.generate_by_state`."""
    prompt_length = prompt_MBP.shape[-1]
    total = shared + min(states, 2) * width - 1
    if min(states, width) < 1:
        raise ValueError(f"states is {states} and width is {width}; allowed: 1 or more of each")
    if not 0 < prompt_length < shared + width:
        raise ValueError(f"the prompt has {prompt_length} tokens; allowed: 1 to {shared + width - 1}")
    if mark == decoding.end:
        raise ValueError(f"mark {mark} is the end mark; allowed: another token")

    # The previous state is masked behind its last token, so the KV cache must support masked positions.
    reader_class = _CachedStates if forward.model.supports_masked_cache else _UncachedStates
    reader = reader_class(forward, prompt_MBP, shared, width, total)
    return torch.stack([_generate_text_by_state(reader, decoding, choose, states, mark) for choose in choosers], dim=2)


def _generate_text_by_state(
    reader: "_CachedStates | _UncachedStates", decoding: Decoding, choose: TokenChooser, states: int, mark: int
) -> Tensor:
    """Return a text of states after the prompt of a reader, int64 (M, B, G)."""
    # A long prompt ends inside the first state; a short prompt leaves shared tokens to generate.
    prompt_MBP, shared, width = reader.prompt, reader.shared, reader.width
    m, b, prompt_length = prompt_MBP.shape
    tokens_before_state = max(shared - prompt_length, 0)
    tokens_in_state = max(prompt_length - shared, 0)
    state_offset = tokens_before_state - tokens_in_state  # number of the token at position 0 of the first state
    logits = reader.read_prompt()
    tokens, written_masks = list[Tensor](), list[Tensor]()
    all_rows = torch.ones(m, b, dtype=torch.bool, device=prompt_MBP.device)

    # Tokens between the prompt and the first state.
    for number in range(tokens_before_state):
        tokens.append(choose(logits, number))
        written_masks.append(all_rows)
        logits = reader.append_token(tokens[-1])
        reader.forward.beat()

    # State by state, until no row has written a mark.
    state = torch.cat(
        [prompt_MBP[..., shared:], prompt_MBP.new_full((m, b, width - tokens_in_state), decoding.pad)], dim=-1
    )
    length = torch.full_like(all_rows, tokens_in_state, dtype=torch.int64)
    active = all_rows
    for number in range(states):
        # Read the previous state, and begin an empty state.
        if number:
            logits = reader.start_state(state, length)
            state = torch.full_like(state, decoding.pad)
            length = torch.zeros_like(length)
            tokens_in_state = 0

        # On a GPU the host does not know when all rows have ended, so it writes the full width.
        marked = torch.zeros_like(active)
        for position in range(tokens_in_state, width):
            token = torch.where(active, choose(logits, state_offset + number * width + position), decoding.pad)
            state[..., position] = token
            tokens.append(token)
            written_masks.append(active)
            length = length + active
            marked = marked | (active & (token == mark))
            active = active & (token != mark) & (token != decoding.end)
            reader.forward.beat()
            if position + 1 == width or _all_ended(active):
                break
            logits = reader.append_token(token)

        # A row without the mark has ended, by the end mark or because its state was too long.
        active = marked
        if _all_ended(active):
            break

    # Rows whose states ended early have gaps before the next state; the text has none.
    max_tokens = shared - prompt_length + states * width
    columns = find_packed_columns(torch.stack(written_masks, dim=-1), max_tokens)
    return scatter_columns(torch.stack(tokens, dim=-1), columns, max_tokens, decoding.pad)


@dataclass(frozen=True, eq=False)
class _TextInputs:
    """A prompt (M, B, P), the number T of tokens read, and ids, groups and lengths as in `Forward.generate`."""

    prompt: Tensor
    total: int
    ids: Tensor | None
    groups: Tensor | None
    lengths: Tensor | None

    def check_shapes(self) -> None:
        """Raise ValueError unless ids and groups are (M, B, T) and lengths (M, B)."""
        rows = tuple(self.prompt.shape[:2])
        for name, shape in (("ids", (*rows, self.total)), ("groups", (*rows, self.total)), ("lengths", rows)):
            value: Tensor | None = getattr(self, name)
            if value is not None and value.shape != shape:
                raise ValueError(f"{name} has the shape {tuple(value.shape)}; allowed: {shape}")


class _CachedText:
    """Reads a text with a KV cache of the prompt, followed by the generated tokens.

    Padding of a prompt stays in the cache, between the prompt and its text, and is masked.
    """

    def __init__(self, forward: ForwardPass, inputs: _TextInputs) -> None:
        prompt_MBP, total, lengths = inputs.prompt, inputs.total, inputs.lengths
        ids, groups = inputs.ids, inputs.groups
        self.forward = forward
        self.prompt_length = prompt_MBP.shape[-1]
        self.visible: Tensor | None = None

        # With padded prompts a generated token has different columns in the cache and in its row.
        if lengths is not None:
            columns = torch.arange(total, device=prompt_MBP.device)
            unpadded_columns = torch.where(
                columns < self.prompt_length, columns, columns - self.prompt_length + lengths[..., None]
            )
            ids = unpadded_columns if ids is None else torch.gather(ids, -1, unpadded_columns)
            groups = None if groups is None else torch.gather(groups, -1, unpadded_columns)
            self.visible = (columns < lengths[..., None]) | (columns >= self.prompt_length)
        self.ids = ids
        self.groups = groups

        # The logits of the prompt's last real token predict the first generated token.
        prompt_inputs = (None if values is None else values[..., : self.prompt_length] for values in (ids, groups))
        logits, self.cache = forward.prefill(Batch(prompt_MBP, prompt_MBP, *prompt_inputs), total)
        self.logits = logits[:, :, -1] if lengths is None else _select_logits(logits, lengths - 1)

    def read_prompt(self) -> Tensor:
        """Return the logits (M, B, V) after the prompt; the cache forgets the tokens of an earlier text."""
        self.cache = self.cache.truncate(self.prompt_length)
        return self.logits

    def append_token(self, token_MB: Tensor) -> Tensor:
        """Append a token to each row; return the logits (M, B, V) of the next token."""
        # Padding and groups mask only what new tokens see: the prompt was masked when it was read.
        column = slice(self.cache.length, self.cache.length + 1)
        ids = None if self.ids is None else self.ids[..., column]
        visible = self.visible
        if self.groups is not None:
            group = self.groups[..., column]
            is_visible = (self.groups == group) | (self.groups == 0) | (group == 0)
            visible = is_visible if visible is None else visible & is_visible
        logits, self.cache = self.forward.decode(self.cache, token_MB[..., None], ids, visible)
        return logits[:, :, -1]


class _UncachedText:
    """Reads a text without a KV cache: computes all tokens of a row again for each new token; padding is at the end."""

    def __init__(self, forward: ForwardPass, inputs: _TextInputs) -> None:
        self.forward = forward
        self.inputs = inputs

    def read_prompt(self) -> Tensor:
        """Return the logits (M, B, V) after the prompt."""
        prompt, lengths = self.inputs.prompt, self.inputs.lengths
        m, b, prompt_length = prompt.shape
        self.tokens = prompt.new_zeros(m, b, self.inputs.total)
        self.tokens[..., :prompt_length] = prompt
        self.width = prompt_length
        self.length = prompt.new_full((m, b), prompt_length) if lengths is None else lengths
        return self._compute_logits()

    def append_token(self, token_MB: Tensor) -> Tensor:
        """Append a token to each row; return the logits (M, B, V) of the next token."""
        # Rows of padded prompts differ in length, so their tokens go to different columns.
        self.tokens.scatter_(-1, self.length[..., None], token_MB[..., None])
        self.width, self.length = self.width + 1, self.length + 1
        return self._compute_logits()

    def _compute_logits(self) -> Tensor:
        """Return the logits (M, B, V) after the last token of each row, by a pass over all tokens."""
        tokens = self.tokens[..., : self.width]
        optional = (self.inputs.ids, self.inputs.groups)
        ids, groups = (None if values is None else values[..., : self.width] for values in optional)
        lengths = None if self.inputs.lengths is None else self.length
        return _select_logits(self.forward.logits(Batch(tokens, tokens, ids, groups, lengths=lengths)), self.length - 1)


class _UncachedStates:
    """Reads states without a KV cache: computes shared tokens and two states again for each new token."""

    def __init__(self, forward: ForwardPass, prompt_MBP: Tensor, shared: int, width: int, total: int) -> None:
        self.forward = forward
        self.prompt = prompt_MBP
        self.shared = shared
        self.width = width
        self.ids = torch.arange(total, device=prompt_MBP.device).expand(*prompt_MBP.shape[:2], total)

    def read_prompt(self) -> Tensor:
        """Return the logits (M, B, V) after the prompt."""
        prompt_length = self.prompt.shape[-1]
        self.tokens = torch.zeros_like(self.ids)
        self.tokens[..., :prompt_length] = self.prompt
        self.length = torch.full_like(self.prompt[..., 0], prompt_length)
        return self._compute_logits()

    def start_state(self, state_MBW: Tensor, length_MB: Tensor) -> Tensor:
        """Make a state the previous state; return the logits (M, B, V) of the first token of the next state."""
        self.tokens[..., self.shared : self.shared + self.width] = state_MBW
        # An empty state has no last token with logits, so a row that has ended reads its first pad.
        self.length = self.shared + length_MB.clamp(min=1)
        return self._compute_logits()

    def append_token(self, token_MB: Tensor) -> Tensor:
        """Append a token to each row; return the logits (M, B, V) of the next token."""
        self.tokens.scatter_(-1, self.length[..., None], token_MB[..., None])
        self.length = self.length + 1
        return self._compute_logits()

    def _compute_logits(self) -> Tensor:
        """Return the logits (M, B, V) after the last token of each row, by a pass over all tokens."""
        return _select_logits(self.forward.logits(Batch(self.tokens, self.tokens, ids=self.ids)), self.length - 1)


class _CachedStates:
    """Reads states with a KV cache of the shared tokens, the previous state with its pads, and the new state."""

    def __init__(self, forward: ForwardPass, prompt_MBP: Tensor, shared: int, width: int, total: int) -> None:
        self.forward = forward
        self.prompt = prompt_MBP
        self.shared = shared
        self.width = width
        self.total = total
        self.logits: Tensor | None = None

    def read_prompt(self) -> Tensor:
        """Return the logits (M, B, V) after the prompt; read it again only if states have overwritten its keys."""
        ids = torch.arange(self.prompt.shape[-1], device=self.prompt.device).expand_as(self.prompt)
        self.next_id = ids[..., -1] + 1
        self.visible: Tensor | None = None
        if self.logits is None or ids.shape[-1] > self.shared:  # states overwrite the keys behind the shared tokens
            logits, self.cache = self.forward.prefill(Batch(self.prompt, self.prompt, ids=ids), self.total)
            self.logits = logits[:, :, -1]
        self.cache = self.cache.truncate(ids.shape[-1])
        return self.logits

    def start_state(self, state_MBW: Tensor, length_MB: Tensor) -> Tensor:
        """Make a state the previous state; return the logits (M, B, V) of the first token of the next state."""
        # The cache keeps the pads of a short state; they are masked, and ids continue after its last real token.
        ids = torch.arange(self.shared, self.shared + self.width, device=state_MBW.device).expand_as(state_MBW)
        logits, self.cache = self.forward.decode(self.cache.truncate(self.shared), state_MBW, ids)
        length_MB = length_MB.clamp(min=1)
        self.next_id = self.shared + length_MB
        columns = torch.arange(self.total, device=state_MBW.device)
        self.visible = (columns < self.next_id[..., None]) | (columns >= self.shared + self.width)
        return _select_logits(logits, length_MB - 1)

    def append_token(self, token_MB: Tensor) -> Tensor:
        """Append a token to each row; return the logits (M, B, V) of the next token."""
        logits, self.cache = self.forward.decode(self.cache, token_MB[..., None], self.next_id[..., None], self.visible)
        self.next_id = self.next_id + 1
        return logits[:, :, -1]


def _select_logits(logits_MBTV: Tensor, position_MB: Tensor) -> Tensor:
    """Return the logits (M, B, V) at a position of each row."""
    index = position_MB[..., None, None].expand(-1, -1, 1, logits_MBTV.shape[-1])
    return torch.gather(logits_MBTV, 2, index)[:, :, 0]


def _all_ended(active_MB: Tensor) -> bool:
    """Return whether all rows have ended; always False on a GPU, where the host would have to wait."""
    return active_MB.device.type == "cpu" and not bool(active_MB.any())
