"""Texts that models write: token by token behind a prompt, or state by state (arXiv:2406.06467, appendix C.2).

All rows of all members take every step together. One that has ended stays, and what it says is not kept, so shapes
follow from the arguments and the host never looks; on a CPU alone it does, and stops when every row has ended.
Shapes: M members, B rows, P tokens of the prompt, V output tokens, W tokens of a state at most.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from trainers.positions.context import GENERATION_SITE
from trainers.tasks.decoding import Decoding
from trainers.tasks.forward_pass import ForwardPass
from trainers.tensors.batch import Batch

Choose = Callable[[Tensor, int], Tensor]


def chooser(forward: ForwardPass, decoding: Decoding, shape: tuple[int, int]) -> Choose:
    """What gives the next token (M, B) by its logits (M, B, V) and its number, for so many rows and tokens."""
    if not decoding.draws:
        return lambda logits, number: decoding.chosen(logits, None)
    uniform = forward.noise.uniform(GENERATION_SITE, shape)
    drawn = shape[1] if decoding.drawn is None else decoding.drawn
    return lambda logits, number: decoding.chosen(logits, uniform[..., number] if number < drawn else None)


def continued(forward: ForwardPass, prompt_MBP: Tensor, decoding: Decoding, choose: Choose, most: int) -> Tensor:
    """See `Forward.generated`."""
    if most < 1:
        raise ValueError(f"{most} tokens; allowed: 1 or more")
    logits, cache = forward.start(Batch(prompt_MBP, prompt_MBP), prompt_MBP.shape[-1] + most - 1)
    found = prompt_MBP.new_full((*prompt_MBP.shape[:2], most), decoding.pad)
    going = torch.ones_like(prompt_MBP[..., 0], dtype=torch.bool)
    for number in range(most):
        token = torch.where(going, choose(logits[:, :, -1], number), decoding.pad)
        found[..., number] = token
        going = going & (token != decoding.end)
        forward.beat()
        if number + 1 == most or _nobody(going):
            break
        logits, cache = forward.extend(cache, token[..., None])
    return found


def by_state(
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
    """See `Forward.generated_by_state`."""
    m, b, given = prompt_MBP.shape
    lead, begun = max(shared - given, 0), max(given - shared, 0)
    first = lead - begun  # the number of a token that begins the first state
    total = shared + min(states, 2) * width - 1
    if not 0 < given < shared + width or min(states, width) < 1 or mark == decoding.end:
        raise ValueError(
            f"{states} states of {width} tokens behind {shared} shared ones, a prompt of {given} and the mark {mark}; "
            f"allowed: states and tokens from 1 up, a prompt of 1..{shared + width - 1} and a mark that does not end"
        )
    reader = (_Kept if forward.model.keeps_gaps else _Anew)(forward, shared, width, total)
    logits = reader.begin(prompt_MBP)
    found, counts = list[Tensor](), list[Tensor]()
    everyone = torch.ones(m, b, dtype=torch.bool, device=prompt_MBP.device)
    for number in range(lead):
        found.append(choose(logits, number))
        counts.append(everyone)
        logits = reader.follow(found[-1])
        forward.beat()
    state = torch.cat([prompt_MBP[..., shared:], prompt_MBP.new_full((m, b, width - begun), decoding.pad)], dim=-1)
    length, going = torch.full_like(everyone, begun, dtype=torch.int64), everyone
    for number in range(states):
        if number:
            logits = reader.again(state, length)
            state, length, begun = torch.full_like(state, decoding.pad), torch.zeros_like(length), 0
        closed = torch.zeros_like(going)
        for place in range(begun, width):
            token = torch.where(going, choose(logits, first + number * width + place), decoding.pad)
            state[..., place] = token
            found.append(token)
            counts.append(going)
            length = length + going
            closed = closed | (going & (token == mark))
            going = going & (token != mark) & (token != decoding.end)
            forward.beat()
            if place + 1 == width or _nobody(going):
                break
            logits = reader.follow(token)
        going = closed
        if _nobody(going):
            break
    return _flat(found, counts, decoding.pad, shared - given + states * width)


class _Anew:
    """Reads the shared tokens and a state from the beginning, at every token."""

    def __init__(self, forward: ForwardPass, shared: int, width: int, total: int) -> None:
        self.forward, self.shared, self.width, self.total = forward, shared, width, total

    def begin(self, prompt_MBP: Tensor) -> Tensor:
        m, b, given = prompt_MBP.shape
        self.tokens = prompt_MBP.new_zeros(m, b, self.total)
        self.tokens[..., :given] = prompt_MBP
        self.length = torch.full_like(prompt_MBP[..., 0], given)
        return self.logits()

    def again(self, state_MBW: Tensor, length_MB: Tensor) -> Tensor:
        self.tokens[..., self.shared : self.shared + self.width] = state_MBW
        self.length = self.shared + length_MB.clamp(min=1)
        return self.logits()

    def follow(self, token_MB: Tensor) -> Tensor:
        self.tokens.scatter_(-1, self.length[..., None], token_MB[..., None])
        self.length = self.length + 1
        return self.logits()

    def logits(self) -> Tensor:
        return _at(self.forward.logits(Batch(self.tokens, self.tokens)), self.length - 1)


class _Kept:
    """Keeps the keys of the shared tokens; behind them those of the state before, filled up, and of the new one."""

    def __init__(self, forward: ForwardPass, shared: int, width: int, total: int) -> None:
        self.forward, self.shared, self.width, self.total = forward, shared, width, total
        self.visible: Tensor | None = None

    def begin(self, prompt_MBP: Tensor) -> Tensor:
        ids = torch.arange(prompt_MBP.shape[-1], device=prompt_MBP.device).expand_as(prompt_MBP)
        logits, self.cache = self.forward.start(Batch(prompt_MBP, prompt_MBP, ids=ids), self.total)
        self.next_id = ids[..., -1] + 1
        return logits[:, :, -1]

    def again(self, state_MBW: Tensor, length_MB: Tensor) -> Tensor:
        ids = torch.arange(self.shared, self.shared + self.width, device=state_MBW.device).expand_as(state_MBW)
        logits, self.cache = self.forward.extend(self.cache.cut(self.shared), state_MBW, ids)
        length_MB = length_MB.clamp(min=1)
        self.next_id = self.shared + length_MB
        columns = torch.arange(self.total, device=state_MBW.device)
        self.visible = (columns < self.next_id[..., None]) | (columns >= self.shared + self.width)
        return _at(logits, length_MB - 1)

    def follow(self, token_MB: Tensor) -> Tensor:
        logits, self.cache = self.forward.extend(self.cache, token_MB[..., None], self.next_id[..., None], self.visible)
        self.next_id = self.next_id + 1
        return logits[:, :, -1]


def _at(logits_MBTV: Tensor, place_MB: Tensor) -> Tensor:
    """The logits (M, B, V) at one place of each row."""
    index = place_MB[..., None, None].expand(-1, -1, 1, logits_MBTV.shape[-1])
    return torch.gather(logits_MBTV, 2, index)[:, :, 0]


def _flat(tokens: list[Tensor], counts: list[Tensor], pad: int, width: int) -> Tensor:
    """The tokens (M, B) that count, one behind the other in each row, (M, B, width)."""
    tokens_MBN, counts_MBN = torch.stack(tokens, dim=-1), torch.stack(counts, dim=-1)
    place = torch.where(counts_MBN, counts_MBN.cumsum(dim=-1) - 1, width)
    found = tokens_MBN.new_full((*tokens_MBN.shape[:2], width + 1), pad)
    return found.scatter_(-1, place, tokens_MBN)[..., :width]


def _nobody(going_MB: Tensor) -> bool:
    """Whether no row goes on; on a CPU alone, since the host would wait."""
    return going_MB.device.type == "cpu" and not bool(going_MB.any())
