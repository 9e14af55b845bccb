"""A stand-in for the models of one pack: it is right in every token, and writes given answers."""

from collections.abc import Callable

import torch
from torch import Tensor

from trainers.tasks.decoding import Decoding
from trainers.tensors.batch import Batch


class Writer:
    """Writes the tokens `answer(row, prompt)` after the prompt of each row; rows of all members are counted through."""

    def __init__(self, outputs: int, answer: Callable[[int, Tensor], list[int]]) -> None:
        self.outputs, self.answer = outputs, answer

    def __call__(self, batch: Batch) -> Tensor:
        return torch.nn.functional.one_hot(batch.targets.clamp(min=0), self.outputs).float()

    def generate(
        self, prompt_MBP: Tensor, decoding: Decoding, *, max_tokens: int, draw: int = 0, draws: int | None = None
    ) -> Tensor:
        tokens = torch.full((*prompt_MBP.shape[:2], max_tokens), decoding.pad)
        for row, prompt in enumerate(prompt_MBP.flatten(0, 1)):
            answer = torch.tensor(self.answer(row, prompt)[:max_tokens])
            tokens.flatten(0, 1)[row, : len(answer)] = answer
        return tokens

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
        return self.generate(prompt_MBP, decoding, max_tokens=shared - prompt_MBP.shape[-1] + states * width)
