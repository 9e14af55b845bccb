"""Addition, units first, in three forms that helped length generalization.

plain: as in "Transformers Can Do Arithmetic with the Right Embeddings" (McLeish et al., arXiv:2405.17399), whose
abacus embeddings are the encoding `abacus`. The paper combines them with FIRE or RoPE, `abacus_alibi` with ALiBi.
hints: a token before each digit names its significance ("What Algorithms can Transformers Learn?", Zhou et al.,
arXiv:2310.16028, and arXiv:2402.09371). coupled: digits of the same significance share a position id ("Position
Coupling", Cho et al., arXiv:2405.20671). Both numbers have the same number of digits, with leading zeros.
"""

import torch
from torch import Tensor

from trainers import Batch, Task, register, setting
from trainers.positions.abacus import Abacus
from trainers.positions.alibi import Alibi
from trainers.tasks.parts import draw_below, join_parts, mask_leading
from trainers.tasks.supervised import IGNORED

PLUS, EQUALS, END, PAD, HINT = 10, 11, 12, 13, 14  # after the digits 0 to 9; HINT + 2 names position id 2


@register("task", "reversed_addition")
class ReversedAddition(Task):
    """Input: two numbers, units first. Output: the digits of their sum, units first, and an end token.

    In `hints` and `coupled` the ids of a row start at a random offset, so that ids of longer rows are trained.

    >>> task, digits = ReversedAddition(train_digits=2, test_digits=(3,)), torch.tensor([[[[7, 1], [5, 9]]]])
    >>> batch = task.make_batch(digits, torch.tensor([[2]]), torch.tensor([[0]]))  # 17 + 95 = 112
    >>> batch.tokens.tolist()
    [[[7, 1, 10, 5, 9, 11, 2, 1, 1]]]
    >>> batch.targets.tolist()
    [[[-100, -100, -100, -100, -100, 2, 1, 1, 12]]]
    >>> ReversedAddition(form="coupled").make_batch(digits, torch.tensor([[2]]), torch.tensor([[4]])).ids.tolist()
    [[[5, 6, 4, 5, 6, 4, 5, 6, 7]]]
    >>> ReversedAddition(form="hints").make_batch(digits, torch.tensor([[2]]), torch.tensor([[0]])).tokens.tolist()
    [[[14, 7, 15, 1, 10, 14, 5, 15, 9, 11, 14, 2, 15, 1, 16, 1]]]
    """

    train_digits: int = setting(10, low=1, help="trained on numbers of 1..train_digits digits")
    test_digits: tuple[int, ...] = setting((12, 14, 16, 20), help="digits of longer test numbers")
    form: str = setting("plain", choices=("plain", "hints", "coupled"), help="how digit places are marked")

    digits = 10  # input ids below this are digits, for `abacus`
    trained_lengths = property(lambda self: tuple(range(1, self.train_digits + 1)))
    lengths = property(lambda self: tuple(sorted({*self.trained_lengths, *self.test_digits})))
    places = property(lambda self: max(self.lengths) + 1)  # of the longest sum
    inputs = property(lambda self: HINT + self.places if self.form == "hints" else HINT)
    positions = property(lambda self: self.width(max(self.lengths)))
    train_positions = property(lambda self: self.width(self.train_digits))
    position_ids = property(lambda self: self.places + 2 if self.form == "coupled" else self.positions)

    def width(self, longest: int) -> int:
        """Return T, the positions of a row of numbers of up to `longest` digits; the end token is only a target."""
        return (2 if self.form == "hints" else 1) * (3 * longest + 1) + 2

    def sample(self, stream, rows):
        """Draw a training batch in which each row has its own number of digits."""
        return self.draw_batch(stream, rows, 1 + stream.integers(1, (rows,), self.train_digits), self.train_digits)

    def draw_rows(self, stream, rows, length):
        """Draw a test batch of numbers of `length` digits."""
        return self.draw_batch(stream, rows, torch.full_like(stream.integers(1, (rows,), 1), length), length)

    def draw_batch(self, stream, rows: int, count_SB: Tensor, longest: int) -> Batch:
        """Draw numbers with `count_SB` digits each, at most `longest`, and a random first position id for each row."""
        start_SB = draw_below(stream, 2, (rows,), self.places - count_SB)
        return self.make_batch(stream.integers(0, (rows, 2, longest), 10), count_SB, start_SB)

    def make_batch(self, digits_SB2N: Tensor, count_SB: Tensor, start_SB: Tensor) -> Batch:
        """Return the batch of pairs of numbers with `count_SB` digits each."""
        longest = digits_SB2N.shape[-1]
        digits_SB2N = digits_SB2N * mask_leading(longest, count_SB)[:, :, None]

        # The sum has a digit more than the numbers, for the last carry.
        carry = torch.zeros_like(count_SB)
        sums = []
        for total in (*digits_SB2N.sum(dim=2).unbind(dim=-1), torch.zeros_like(count_SB)):
            sums.append((total + carry) % 10)
            carry = (total + carry) // 10
        numbers = [(digits_SB2N[:, :, 0], count_SB), (digits_SB2N[:, :, 1], count_SB)]
        numbers.append((torch.stack(sums, dim=-1), count_SB + 1))

        # A row is a PLUS b EQUALS sum END: each part has tokens, their position ids, and whether they are the answer.
        tokens, ids, answers = [], [], []
        for (number, count), mark, is_answer in zip(numbers, (PLUS, EQUALS, END), (0, 0, 1), strict=True):
            place_id = start_SB[..., None] + torch.arange(number.shape[-1], device=number.device)
            if self.form == "hints":
                number = torch.stack([HINT + place_id, number], dim=-1).flatten(-2)
                count = 2 * count
            mark_SB1 = torch.full_like(count, mark)[..., None]
            single_SB = torch.ones_like(count)
            tokens += [(number + 1, count), (mark_SB1 + 1, single_SB)]  # 0 is left for the pads of `join_parts`
            ids += [(place_id + 1, count), (start_SB[..., None], single_SB)]
            answers += [(torch.full_like(number, is_answer), count), (torch.full_like(mark_SB1, is_answer), single_SB)]

        # Numbers of a batch differ in length, so the parts of a row are joined without gaps.
        width = self.width(longest) + 1
        row_SBT = join_parts(tokens, width) - 1
        row_SBT = torch.where(row_SBT < 0, PAD, row_SBT)
        target_SBT = torch.where(join_parts(answers, width) > 0, row_SBT, IGNORED)
        id_SBT = join_parts(ids, width)[..., :-1] if self.form == "coupled" else None
        return Batch(row_SBT[..., :-1], target_SBT[..., 1:], ids=id_SBT)


@register("position", "abacus_alibi")
class AbacusAlibi(Abacus, Alibi):
    """Abacus embeddings, and the scores of ALiBi."""
