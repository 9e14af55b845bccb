"""Four tasks of "Neural Networks and the Chomsky Hierarchy" (Delétang et al., arXiv:2207.02098).

A row is a string, then one empty token for each symbol of the answer, then pads. The answer is read at the empty
tokens, as in the authors' code. Their strings of a training batch have the same length; here lengths differ within a
batch.

Shapes: S seeds, B rows, N symbols of the longest string, A symbols of its answer, T positions.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from trainers import Batch, Task, register, setting
from trainers.tasks.supervised import IGNORED


class FormalLanguage(Task):
    """Base of the tasks: strings of random symbols with their answers."""

    train_length: int = setting(40, low=2, help="trained on strings of 1..train_length symbols")
    test_lengths: tuple[int, ...] = setting((60, 100, 200, 300, 400, 500), help="lengths of longer test strings")

    causal = False  # models may see whole rows, because answers are no inputs
    symbols = 2  # number of distinct symbols; the empty token and the pad follow
    inputs = property(lambda self: self.symbols + 2)
    trained_lengths = property(lambda self: tuple(range(1, self.train_length + 1)))
    lengths = property(lambda self: tuple(sorted({*self.trained_lengths, *self.test_lengths})))
    positions = property(lambda self: self.width(max(self.lengths)))
    train_positions = property(lambda self: self.width(self.train_length))

    def answer_length(self, longest: int) -> int:
        """Return A, the number of symbols of the longest answer."""
        return 1

    @abstractmethod
    def compute_answers(self, string_SBN: Tensor, length_SB: Tensor) -> Tensor:
        """Return the answers (S, B, A) of the first `length_SB` symbols of each string."""

    def draw_strings(self, stream, rows: int, longest: int) -> Tensor:
        """Draw strings (S, B, N)."""
        return stream.integers(0, (rows, longest), self.symbols)

    def draw_lengths(self, stream, rows: int) -> Tensor:
        """Draw the lengths (S, B) of training strings."""
        return 1 + stream.integers(1, (rows,), self.train_length)

    def width(self, longest: int) -> int:
        """Return T, the positions of a row for strings of up to `longest` symbols."""
        return longest + self.answer_length(longest)

    def sample(self, stream, rows):
        """Draw a training batch of strings of different lengths."""
        return self.make_batch(self.draw_strings(stream, rows, self.train_length), self.draw_lengths(stream, rows))

    def draw_rows(self, stream, rows, length):
        """Draw a test batch of strings of the same length."""
        string_SBN = self.draw_strings(stream, rows, length)
        return self.make_batch(string_SBN, torch.full_like(string_SBN[..., 0], length))

    def make_batch(self, string_SBN: Tensor, length_SB: Tensor) -> Batch:
        """Return the batch of the first `length_SB` symbols of each string."""
        # Strings of a batch differ in length, so positions are counted from the end of each.
        empty = self.symbols
        pad = self.symbols + 1
        longest = string_SBN.shape[-1]
        position_T = torch.arange(self.width(longest), device=string_SBN.device)
        after_SBT = position_T - length_SB[..., None]

        # The answer follows its string; positions before and after it are no targets.
        answer_SBA = self.compute_answers(string_SBN, length_SB)
        last = answer_SBA.shape[-1] - 1
        target_SBT = answer_SBA.gather(-1, after_SBT.clamp(0, last))
        target_SBT = target_SBT.masked_fill((after_SBT < 0) | (after_SBT > last), IGNORED)

        # The model must not read the answer, so its positions have empty tokens.
        symbol_SBT = string_SBN.gather(-1, position_T.clamp(max=longest - 1).expand_as(after_SBT))
        empty_or_pad_SBT = torch.where(target_SBT == IGNORED, pad, empty)
        return Batch(torch.where(after_SBT < 0, symbol_SBT, empty_or_pad_SBT), target_SBT)


@register("task", "even_pairs")
class EvenPairs(FormalLanguage):
    """Input: bits. Output: whether the number of neighbours 01 and 10 is even (0) or odd (1). A regular language.

    >>> task = EvenPairs(train_length=6, test_lengths=(7,))
    >>> strings = torch.tensor([[[0, 0, 1, 1, 1, 0], [0, 1, 0, 1, 0, 0]]]), torch.tensor([[6, 4]])
    >>> task.make_batch(*strings).tokens.tolist()
    [[[0, 0, 1, 1, 1, 0, 2], [0, 1, 0, 1, 2, 3, 3]]]
    >>> task.compute_answers(*strings).tolist()
    [[[0], [1]]]
    """

    metrics = property(lambda self: {"accuracy": "maximize"})

    def compute_answers(self, string_SBN, length_SB):
        """Return 1 for strings whose first and last bit differ: exactly these have an odd number of changes."""
        return (string_SBN[..., :1] != string_SBN.gather(-1, length_SB[..., None] - 1)).long()


@register("task", "parity_check")
class ParityCheck(FormalLanguage):
    """Input: bits. Output: whether the number of ones is even (0) or odd (1). A regular language.

    >>> task = ParityCheck(train_length=4, test_lengths=(5,))
    >>> task.compute_answers(torch.tensor([[[0, 1, 1, 1], [1, 1, 0, 1]]]), torch.tensor([[4, 3]])).tolist()
    [[[1], [0]]]
    """

    metrics = property(lambda self: {"accuracy": "maximize"})

    def compute_answers(self, string_SBN, length_SB):
        """Return the parity of the ones of each string."""
        return string_SBN.cumsum(dim=-1).gather(-1, length_SB[..., None] - 1) % 2


@register("task", "modular_arithmetic")
class ModularArithmetic(FormalLanguage):
    """Input: numbers 0 to 4 joined by +, - and *. Output: the value modulo 5. A regular language.

    Symbols 5, 6 and 7 are +, - and *. All lengths are odd.

    >>> task = ModularArithmetic(train_length=5, test_lengths=(7,))
    >>> task.compute_answers(torch.tensor([[[1, 5, 2, 7, 3], [1, 6, 1, 6, 1]]]), torch.tensor([[5, 5]])).tolist()
    [[[2], [4]]]
    """

    train_length: int = setting(39, low=3, help="trained on strings of 1, 3, 5, .. train_length symbols")
    test_lengths: tuple[int, ...] = setting((61, 101, 201, 301, 401, 499), help="lengths of longer test strings")

    symbols = 8
    trained_lengths = property(lambda self: tuple(range(1, self.train_length + 1, 2)))
    metrics = property(lambda self: {"accuracy": "maximize"})

    def draw_strings(self, stream, rows, longest):
        """Draw numbers at even positions and operators at odd ones."""
        number_SBN = stream.integers(0, (rows, longest), 5)
        operator_SBN = 5 + stream.integers(2, (rows, longest), 3)
        is_operator_N = torch.arange(longest, device=number_SBN.device) % 2 == 1
        return torch.where(is_operator_N, operator_SBN, number_SBN)

    def draw_lengths(self, stream, rows):
        """Draw odd lengths."""
        return 1 + 2 * stream.integers(1, (rows,), (self.train_length + 1) // 2)

    def compute_answers(self, string_SBN, length_SB):
        """Return the values (S, B, 1), from the sum of finished terms and the product of the current term."""
        total = torch.zeros_like(length_SB)
        product = string_SBN[..., 0]
        for n in range(2, string_SBN.shape[-1], 2):
            operator = string_SBN[..., n - 1]
            number = string_SBN[..., n]
            is_inside = n < length_SB
            is_factor = operator == 7
            term = torch.where(operator == 6, -number, number)
            total = torch.where(is_inside & ~is_factor, (total + product) % 5, total)
            product = torch.where(is_inside, torch.where(is_factor, product * number, term) % 5, product)
        return ((total + product) % 5)[..., None]


@register("task", "reverse_string")
class ReverseString(FormalLanguage):
    """Input: bits. Output: the bits in reverse order. A context-free language that needs a stack.

    >>> task = ReverseString(train_length=4, test_lengths=(5,))
    >>> batch = task.make_batch(torch.tensor([[[0, 1, 1, 0]]]), torch.tensor([[3]]))
    >>> batch.tokens.tolist(), batch.targets.tolist()
    ([[[0, 1, 1, 2, 2, 2, 3, 3]]], [[[-100, -100, -100, 1, 1, 0, -100, -100]]])
    """

    def answer_length(self, longest):
        """Return A, which is the length of the string."""
        return longest

    def compute_answers(self, string_SBN, length_SB):
        """Return the reversed strings (S, B, N), IGNORED after each."""
        source_SBN = length_SB[..., None] - 1 - torch.arange(string_SBN.shape[-1], device=string_SBN.device)
        return string_SBN.gather(-1, source_SBN.clamp(min=0)).masked_fill(source_SBN < 0, IGNORED)
