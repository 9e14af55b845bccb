"""Text generation: token by token after a prompt, or state by state (arXiv:2406.06467, appendix C.2).

All rows of all members take every step together, and tokens of rows that have ended are discarded. So shapes follow
from the arguments and the host never waits for a GPU; only on a CPU generation stops when every row has ended.
Shapes: M members, B rows, P tokens of the prompt, V output tokens, W tokens of the longest state.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from trainers.positions.context import GENERATION_SITE
from trainers.tasks.decoding import Decoding
from trainers.tasks.forward_pass import ForwardPass
from trainers.tasks.parts import compact, packed_places
from trainers.tensors.batch import Batch

Choose = Callable[[Tensor, int], Tensor]
MOST_DRAWS = 2**12  # parts of a step with sites below 2^32


def make_chooser(forward: ForwardPass, decoding: Decoding, shape: tuple[int, int], draw: int = 0) -> Choose:
    """Return a function of logits (M, B, V) and the token's number that chooses the next token (M, B).

    shape: rows and generated tokens. draw: the number of the text, each with its own random numbers. Raises ValueError
    for a draw outside 0..MOST_DRAWS - 1.
    """
    if not 0 <= draw < MOST_DRAWS:
        raise ValueError(f"draw is {draw}; allowed: 0 to {MOST_DRAWS - 1}")
    if not decoding.is_sampled:
        return lambda logits, number: decoding.choose_token(logits, None)
    # An evaluation is one part of its step, so parts 1, 2... are free for further draws.
    uniform = replace(forward.noise, part=draw).uniform(GENERATION_SITE, shape)
    count = shape[1] if decoding.sampled_tokens is None else decoding.sampled_tokens
    return lambda logits, number: decoding.choose_token(logits, uniform[..., number] if number < count else None)


def generate_tokens(
    forward: ForwardPass, prompt_MBP: Tensor, decoding: Decoding, choose: Choose, max_tokens: int
) -> Tensor:
    """Generate tokens after a prompt; see `Forward.generate`."""
    if max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens}; allowed: 1 or more")
    logits, cache = forward.start(Batch(prompt_MBP, prompt_MBP), prompt_MBP.shape[-1] + max_tokens - 1)
    text = prompt_MBP.new_full((*prompt_MBP.shape[:2], max_tokens), decoding.pad)
    active = torch.ones_like(prompt_MBP[..., 0], dtype=torch.bool)
    for number in range(max_tokens):
        token = torch.where(active, choose(logits[:, :, -1], number), decoding.pad)
        text[..., number] = token
        active = active & (token != decoding.end)
        forward.beat()
        if number + 1 == max_tokens or _all_ended(active):
            break
        logits, cache = forward.extend(cache, token[..., None])
    return text


def generate_states(
    forward: ForwardPass,
    prompt_MBP: Tensor,
    decoding: Decoding,
    choose: Choose,
    *,
    shared: int,
    states: int,
    width: int,
    mark: int,
) -> Tensor:
    """Generate a text state by state; see `Forward.generate_by_state`."""
    m, b, given = prompt_MBP.shape
    lead, begun = max(shared - given, 0), max(given - shared, 0)
    first = lead - begun  # number of the first state's first token
    total = shared + min(states, 2) * width - 1
    if not 0 < given < shared + width or min(states, width) < 1 or mark == decoding.end:
        raise ValueError(
            f"{states} states of {width} tokens after {shared} shared ones, a prompt of {given}, the mark {mark}; "
            f"allowed: 1 or more states and tokens, a prompt of 1..{shared + width - 1}, a mark other than the end mark"
        )
    reader = (_CachedReader if forward.model.supports_masked_cache else _UncachedReader)(forward, shared, width, total)
    logits = reader.begin(prompt_MBP)
    tokens, counts = list[Tensor](), list[Tensor]()
    all_rows = torch.ones(m, b, dtype=torch.bool, device=prompt_MBP.device)
    for number in range(lead):
        tokens.append(choose(logits, number))
        counts.append(all_rows)
        logits = reader.append(tokens[-1])
        forward.beat()
    state = torch.cat([prompt_MBP[..., shared:], prompt_MBP.new_full((m, b, width - begun), decoding.pad)], dim=-1)
    length, active = torch.full_like(all_rows, begun, dtype=torch.int64), all_rows
    for number in range(states):
        if number:
            logits = reader.start_state(state, length)
            state, length, begun = torch.full_like(state, decoding.pad), torch.zeros_like(length), 0
        marked = torch.zeros_like(active)
        for position in range(begun, width):
            token = torch.where(active, choose(logits, first + number * width + position), decoding.pad)
            state[..., position] = token
            tokens.append(token)
            counts.append(active)
            length = length + active
            marked = marked | (active & (token == mark))
            active = active & (token != mark) & (token != decoding.end)
            forward.beat()
            if position + 1 == width or _all_ended(active):
                break
            logits = reader.append(token)
        active = marked
        if _all_ended(active):
            break
    longest = shared - given + states * width
    places = packed_places(torch.stack(counts, dim=-1), longest)
    return compact(torch.stack(tokens, dim=-1), places, longest, decoding.pad)


class _UncachedReader:
    """Computes the logits of each token from the shared tokens and the state, without a KV cache."""

    def __init__(self, forward: ForwardPass, shared: int, width: int, total: int) -> None:
        self.forward, self.shared, self.width, self.total = forward, shared, width, total

    def begin(self, prompt_MBP: Tensor) -> Tensor:
        m, b, given = prompt_MBP.shape
        self.tokens = prompt_MBP.new_zeros(m, b, self.total)
        self.tokens[..., :given] = prompt_MBP
        self.length = torch.full_like(prompt_MBP[..., 0], given)
        return self.logits()

    def start_state(self, state_MBW: Tensor, length_MB: Tensor) -> Tensor:
        self.tokens[..., self.shared : self.shared + self.width] = state_MBW
        self.length = self.shared + length_MB.clamp(min=1)
        return self.logits()

    def append(self, token_MB: Tensor) -> Tensor:
        self.tokens.scatter_(-1, self.length[..., None], token_MB[..., None])
        self.length = self.length + 1
        return self.logits()

    def logits(self) -> Tensor:
        return _logits_at(self.forward.logits(Batch(self.tokens, self.tokens)), self.length - 1)


class _CachedReader:
    """Caches keys and values of the shared tokens, then of the previous state with its pads, then of the new state."""

    def __init__(self, forward: ForwardPass, shared: int, width: int, total: int) -> None:
        self.forward, self.shared, self.width, self.total = forward, shared, width, total
        self.visible: Tensor | None = None

    def begin(self, prompt_MBP: Tensor) -> Tensor:
        ids = torch.arange(prompt_MBP.shape[-1], device=prompt_MBP.device).expand_as(prompt_MBP)
        logits, self.cache = self.forward.start(Batch(prompt_MBP, prompt_MBP, ids=ids), self.total)
        self.next_id = ids[..., -1] + 1
        return logits[:, :, -1]

    def start_state(self, state_MBW: Tensor, length_MB: Tensor) -> Tensor:
        ids = torch.arange(self.shared, self.shared + self.width, device=state_MBW.device).expand_as(state_MBW)
        logits, self.cache = self.forward.extend(self.cache.truncate(self.shared), state_MBW, ids)
        length_MB = length_MB.clamp(min=1)
        self.next_id = self.shared + length_MB
        columns = torch.arange(self.total, device=state_MBW.device)
        self.visible = (columns < self.next_id[..., None]) | (columns >= self.shared + self.width)
        return _logits_at(logits, length_MB - 1)

    def append(self, token_MB: Tensor) -> Tensor:
        logits, self.cache = self.forward.extend(self.cache, token_MB[..., None], self.next_id[..., None], self.visible)
        self.next_id = self.next_id + 1
        return logits[:, :, -1]


def _logits_at(logits_MBTV: Tensor, place_MB: Tensor) -> Tensor:
    """Return the logits (M, B, V) at one place of each row."""
    index = place_MB[..., None, None].expand(-1, -1, 1, logits_MBTV.shape[-1])
    return torch.gather(logits_MBTV, 2, index)[:, :, 0]


def _all_ended(active_MB: Tensor) -> bool:
    """Whether all rows have ended; False on a GPU, where the host would have to wait."""
    return active_MB.device.type == "cpu" and not bool(active_MB.any())
