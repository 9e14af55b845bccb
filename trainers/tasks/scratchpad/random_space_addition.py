"""Addition of numbers at random places of a canvas (Abbe et al., arXiv:2406.06467, Fig. 5b and appendix C.2)."""

from collections.abc import Iterator

from trainers.errors import Problem
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad import random_space
from trainers.tasks.scratchpad.operands import START, Operands, sum_alone
from trainers.tasks.scratchpad.scratchpad_task import NONE
from trainers.tasks.scratchpad.sums import Sums
from trainers.tasks.scratchpad.text import Text


@register("task", "random_space_addition")
class RandomSpaceAddition(Sums):
    """Two numbers at random places of a canvas; out, pair by pair of digits, their places, the carry, the sum so far.

    First the model makes up `$` and filler, from where each found digit pushes out a character. A sum with a digit more
    than the numbers has a state for it, with the place of the plus sign. A full scratchpad is the same text. Without a
    scratchpad the answer is the sum alone. Neither is in the paper.

    >>> from trainers.tasks.scratchpad.operands import added, tokens
    >>> task = RandomSpaceAddition(canvas=3, train_digits=2, test_digits=(), scratchpad="full")
    >>> numbers = added(*torch.tensor([[[[7, 5, 0]]], [[[8, 4, 0]]]]), torch.tensor([[2]]))  # 57 + 48, units first
    >>> places, initial = torch.tensor([[[1, 2, 3, 5, 6, 7, 7]]]), tokens("$keam")[None, None]
    >>> text = random_space.with_states(numbers, places, initial, 2)
    >>> "".join(task.shown(task.test_of(text, 2), 0)[0])
    '_57+_48=$keam:[02]7[06]8c1r5$kea#[01]5[05]4c1r05$ke#[-1]_[03]_c0r105$k'
    >>> "".join(task.vocabulary[token] for token in random_space.question(numbers, places).flatten())
    '_57+_48='
    """

    def cross_checks(self) -> Iterator[Problem]:
        """A problem with a canvas whose places have no number of two digits, and those of all sums."""
        if self.canvas > random_space.LARGEST_CANVAS:
            message = f"its {2 * self.canvas + 1} cells have no numbers of two digits"
            allowed = f"<= {random_space.LARGEST_CANVAS}"
            yield Problem(key="canvas", given=self.canvas, message=message, allowed=allowed)
        yield from super().cross_checks()

    @property
    def start(self) -> str | None:
        """The token between filler and states."""
        return None if self.scratchpad == NONE else START

    @property
    def fields(self) -> tuple[str, ...]:
        """The parts of a state."""
        return () if self.scratchpad == NONE else random_space.FIELDS

    @property
    def filler_width(self) -> int:
        """`$` and filler."""
        return self.canvas + 2

    def question_width(self, length: int) -> int:
        """The canvas and the equals sign; with states `$` and filler, too."""
        return random_space.question_width(self.canvas) + (0 if self.scratchpad == NONE else self.filler_width)

    def state_widths(self, length: int) -> tuple[int, ...]:
        """A state for each digit, and one for the carry out of the last."""
        return (length + 2,) if self.scratchpad == NONE else (random_space.state_width(self.canvas),) * (length + 1)

    def written(self, numbers: Operands, draws: Draws, site: int, longest: int) -> Text:
        """The text of given numbers, at random places and with random filler."""
        places = random_space.places(draws, site, numbers)
        if self.scratchpad == NONE:
            question = random_space.question(numbers, places)
            return sum_alone(question, numbers, numbers.count + numbers.longer, longest)
        return random_space.with_states(numbers, places, random_space.initially(draws, site + 1, numbers), longest)

    def sources(self, longest: int) -> tuple[int, ...]:
        """Which token of the answer to numbers of `longest` digits each token repeats."""
        return random_space.sources(longest, self.canvas)
