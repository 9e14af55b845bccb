"""Addition by shifting digits out of both numbers (Abbe et al., arXiv:2406.06467, Fig. 5b and appendix C.2)."""

from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.fixed_set import Draws
from trainers.tasks.scratchpad import shift
from trainers.tasks.scratchpad.operands import Operands, sum_alone
from trainers.tasks.scratchpad.scratchpad_task import NONE
from trainers.tasks.scratchpad.sums import Sums
from trainers.tasks.scratchpad.text import Text


@register("task", "shift_addition")
class ShiftAddition(Sums):
    """Two numbers behind filler; out, turn by turn, both with their last digit moved to the front, and the sum so far.

    The question is the first state, which the model completes with a window of `$` and filler that it makes up. The
    answer, behind the last state, is the last carry, also if it is 0, and the window. A full scratchpad is the same
    text. Without a scratchpad the answer is the sum alone, which begins with the last carry, too. Neither is in the
    paper.

    >>> from trainers.tasks.scratchpad.operands import added, tokens
    >>> task = ShiftAddition(canvas=2, train_digits=1, test_digits=())
    >>> numbers = added(*torch.tensor([[[[9, 0]]], [[[4, 0]]]]), torch.tensor([[1]]))
    >>> text = shift.with_states(numbers, tokens("p-w-lh")[None, None], 1)
    >>> ["".join(of) for of in task.shown(task.test_of(text, 1), 0)]
    ['p$9+w$4=$lh|0#9p$+4w$=3$l|1#9p$+4w$=3$l|1#13$l', '$9+w$4=$lh|0#9p$+4w$=3$l|1#~~~~~~~~~~~~~~13$l.']
    """

    train_digits: int = setting(4, low=1, help="trained on numbers of up to so many digits")

    @property
    def fields(self) -> tuple[str, ...]:
        """The parts of a state."""
        return () if self.scratchpad == NONE else shift.FIELDS

    @property
    def filler_width(self) -> int:
        """`$` and filler of the window."""
        return self.canvas + 1

    def question_width(self, length: int) -> int:
        """Both numbers without a scratchpad; otherwise they are of the first state."""
        return shift.question_width(self.canvas) if self.scratchpad == NONE else 0

    def state_widths(self, length: int) -> tuple[int, ...]:
        """The first state, one for each digit, and the answer."""
        if self.scratchpad == NONE:
            return (length + 2,)
        return (*[shift.state_width(self.canvas)] * (length + 1), shift.answer_width(self.canvas))

    def written(self, numbers: Operands, draws: Draws, site: int, longest: int) -> Text:
        """The text of given numbers, with random filler."""
        filler = shift.fillers(draws, site, numbers)
        if self.scratchpad == NONE:
            return sum_alone(shift.question(numbers, filler), numbers, numbers.count + 1, longest)
        return shift.with_states(numbers, filler, longest)

    def sources(self, longest: int) -> tuple[int, ...]:
        """Which token of the answer to numbers of `longest` digits each token repeats."""
        return shift.sources(longest, self.canvas)
