"""The text of a row before its layout: a question, and the states up to its answer (arXiv:2406.06467, C.2).

Shapes: S seeds, B rows, Q tokens of the longest question, K states at most, W tokens of the longest state.
"""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

NOT_JUDGED = -1  # the field of a token that is not scored, such as filler


@dataclass(frozen=True)
class Text:
    """Questions and states, int64, each padded at its end.

    question: (S, B, Q), of which question_length (S, B) tokens are used: the tokens visible to every state, without the
    start mark; empty if the question is part of the first state. states: (S, B, K, W), of which state_length (S, B, K)
    tokens are used, 0 for missing states. A state ends with its mark, the last state with the end mark. given: number
    of tokens given to a model in a test; None means the question. field: index of the field of a state that each token
    belongs to, or NOT_JUDGED, (S, B, K, W); None means a single field.
    """

    question: Tensor
    question_length: Tensor
    states: Tensor
    state_length: Tensor
    given: int | None = None
    field: Tensor | None = None

    def select_rows(self, index_SR: Tensor) -> "Text":
        """Return the text of the rows with these indices, (S, R)."""

        def select(values: Tensor) -> Tensor:
            index = index_SR.reshape(*index_SR.shape, *(1,) * (values.dim() - 2))
            return values.gather(1, index.expand(*index_SR.shape, *values.shape[2:]))

        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        selected: dict[str, Any] = {name: select(value) for name, value in tensors.items()}
        return replace(self, **selected)
