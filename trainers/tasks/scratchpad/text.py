"""What a row says before it is laid out: a question, and the states that lead to its answer (arXiv:2406.06467, C.2).

Shapes: S seeds, B rows, Q tokens of the longest question, K states at most, W tokens of the longest state.
"""

from dataclasses import dataclass

from torch import Tensor

NOT_JUDGED = -1  # the field of a token that may be anything, such as filler


@dataclass(frozen=True)
class Text:
    """Questions and states, int64, each filled up on its right.

    question: (S, B, Q), of which question_length (S, B) count: what every state may see, the start mark aside. It may
    be empty: then the question is part of the first state. states: (S, B, K, W), of which state_length (S, B, K)
    count, 0 where a row has no such state. A state ends with its mark, the last one of a row with the end mark. given:
    how many tokens of a row a model is given in a test; None: its question. field: (S, B, K, W), the number of the part
    of a state that each token belongs to, or NOT_JUDGED; None: all are one part.
    """

    question: Tensor
    question_length: Tensor
    states: Tensor
    state_length: Tensor
    given: int | None
    field: Tensor | None = None

    def rows(self, index_SR: Tensor) -> "Text":
        """The rows with these numbers, (S, R)."""

        def picked(of: Tensor) -> Tensor:
            index = index_SR.reshape(*index_SR.shape, *(1,) * (of.dim() - 2)).expand(*index_SR.shape, *of.shape[2:])
            return of.gather(1, index)

        return Text(
            question=picked(self.question),
            question_length=picked(self.question_length),
            states=picked(self.states),
            state_length=picked(self.state_length),
            given=self.given,
            field=None if self.field is None else picked(self.field),
        )
