"""Tasks that are answered in states: without a scratchpad, with a plain one, or with an inductive one.

"How Far Can Transformers Reason? The Globality Barrier and Inductive Scratchpad", Abbe et al., arXiv:2406.06467.
Shapes: S seeds, M members, B rows, P tokens of a prompt, G tokens of an answer, T positions, V tokens.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.tasks import supervised
from trainers.tasks.decoding import Decoding
from trainers.tasks.fixed_set import Draws
from trainers.tasks.forward_pass import EvaluatedModel, ForwardPass
from trainers.tasks.metrics import Evaluated, steps_to
from trainers.tasks.parts import PAD
from trainers.tasks.scratchpad import scores
from trainers.tasks.scratchpad.layout import ScratchpadBatch, Widths, test_of
from trainers.tasks.scratchpad.lengths import slices_of
from trainers.tasks.scratchpad.text import Text
from trainers.tasks.scratchpad.training_rows import (
    FULL,
    MASK,
    SITES,
    SPLIT,
    TEXT_SITE,
    TRANSITION,
    training_rows,
)
from trainers.tasks.scratchpad.writing import passes
from trainers.tasks.task import Batch, EvaluationBatch, Task

NONE, INDUCTIVE = "none", "inductive"  # kinds of scratchpads, beside FULL


class ScratchpadTask(Task):
    """A question, then states with a mark behind each, the last one with the end mark; length is the task's own number.

    A test of one length has rows of that length alone. A model is given the question and writes all that follows; with
    an inductive scratchpad each state from the question and the state before.
    """

    scratchpad: str = setting(
        INDUCTIVE,
        choices=(NONE, FULL, INDUCTIVE),
        help="what leads to the answer: nothing, states, or states that see only the last one",
    )
    row_form: str = setting(
        MASK,
        choices=(MASK, SPLIT, TRANSITION),
        help="how an inductive scratchpad is trained: whole rows, each of their transitions, or one at random",
    )
    loss_on_question: bool = setting(True, help="whether the tokens of the question are trained, too")
    fix_first_state: bool = setting(True, help="where the question is the first state: the second one sees it")
    random_offsets: bool = setting(False, help="in training a full scratchpad stands anywhere among the positions")
    slices: int = setting(1, low=1, help="parts of a training batch by length, each as wide as its longest row")
    fixed_set: int | None = setting(None, low=1, below=2**32, help="distinct training rows; null: always fresh ones")
    temperature: float = setting(0.0, low=0.0, help="of the tokens that a model writes in tests; 0: the likeliest")
    top_k: int | None = setting(None, low=1, help="how many tokens are drawn from; null: all")
    solved: float = setting(0.95, above=0.0, high=1.0, help="share of exact matches that counts as solved")

    mark: ClassVar[str] = "#"  # the token that ends a state
    end: ClassVar[str] = "."  # the token that ends an answer

    @property
    @abstractmethod
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens as one reads them; the first one is the pad."""

    @abstractmethod
    def question_width(self, length: int) -> int:
        """Tokens of the longest question of a row of this length: what every state sees, the start mark aside."""

    @abstractmethod
    def state_widths(self, length: int) -> tuple[int, ...]:
        """Tokens of each state of a row of this length, the most that there can be."""

    @property
    def start(self) -> str | None:
        """The token between the question and the first state, if there is one; it is part of the answer."""
        return None

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the parts of a state, by their numbers; none: they are not scored apart."""
        return ()

    @abstractmethod
    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Rows of these lengths, of which `longest` is the most that there can be; shapes follow from it alone.

        Random words come from `draws` at up to `training_rows.TEXT_SITES` sites from `site` on.
        """

    def weight_of(self, length: int) -> int:
        """How often a length is trained on, compared with others."""
        return 1

    def right(self, written_MBG: Tensor, batch: ScratchpadBatch) -> dict[str, Tensor]:
        """Of what a model wrote, whether each row is right by each metric of `judged`, (M, B)."""
        assert batch.answer is not None
        return {"exact_match": (written_MBG == batch.answer).all(dim=-1)}

    @property
    def judged(self) -> tuple[str, ...]:
        """The metrics of what a model writes."""
        return ("exact_match",)

    def cross_checks(self) -> Iterator[Problem]:
        """Problems with settings that need another kind of scratchpad."""
        if self.random_offsets and self.scratchpad != FULL:
            message = f"the scratchpad is {self.scratchpad}"
            yield Problem(key="random_offsets", given=True, message=message, allowed=f"false, or scratchpad: {FULL}")
        if self.fixed_set is not None and self.form == SPLIT:
            message = "a batch of split rows ends in the middle of one"
            yield Problem(key="fixed_set", given=self.fixed_set, message=message, allowed="null, or another row_form")

    @property
    def inputs(self) -> int:
        """Number of tokens."""
        return len(self.vocabulary)

    @property
    def positions(self) -> int:
        """Positions of the longest row, in training or in a test."""
        tests = max(
            self.width_of(length, MASK if self.scratchpad == INDUCTIVE else FULL) - 1 for length in self.lengths
        )
        return max(tests, self.train_positions)

    @property
    def position_ids(self) -> int:
        """Position ids are below this: those of two states by turns, or of whole rows."""
        if self.scratchpad != INDUCTIVE:
            return self.positions
        return max(found.shared + 2 * max(found.states) for found in map(self.widths, self.lengths))

    @property
    def grouped(self) -> bool:
        """Whether groups hide states from each other: with an inductive scratchpad, in tests at least."""
        return self.scratchpad == INDUCTIVE

    @property
    def train_positions(self) -> int:
        """Positions of the longest training row."""
        return max(self.width_of(length, self.form) - 1 for length in self.trained_lengths)

    @property
    def passes(self) -> float:
        """One pass behind the true tokens, and what is written, in tokens of such a pass, where keys are kept."""
        return self._passes(keeps=True, cost=lambda context: 1.0)

    def passes_by(self, model: EvaluatedModel) -> float:
        """By the operations of the model, and by whether it keeps what was passed."""
        keeps = model.keeps_gaps if self.scratchpad == INDUCTIVE else model.kept_numbers > 0
        return self._passes(keeps, cost=lambda context: model.operations(self, 1, context) / context)

    def _passes(self, keeps: bool, cost: Callable[[int], float]) -> float:
        every = map(self.widths, self.lengths)
        return passes(every, by_state=self.scratchpad == INDUCTIVE, keeps=keeps, cost=cost)

    @property
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction.

        Of what a model writes: those of `judged`; exact_match, whole answers, states and end mark included. Of the next
        token behind the true ones: token_accuracy, state_accuracy (states without a mistake), field_<name> (tokens of a
        part of a state), state_loss (of the tokens that are judged) and, where it is trained, question_loss (with the
        start mark; much of it is noise). steps_to_<metric>: the step of the first evaluation that solved a length.
        """
        read = ("token_accuracy", "state_accuracy", *(f"field_{name}" for name in self.fields))
        best = dict.fromkeys((*self.judged, *read), "maximize")
        losses = ("state_loss", "question_loss") if self.loss_on_question else ("state_loss",)
        return best | dict.fromkeys([*(f"steps_to_{name}" for name in self.judged), *losses], "minimize")

    @property
    def headline(self) -> tuple[str, ...]:
        """The metrics worth a chart."""
        return (*self.judged, "state_accuracy")

    @property
    def decoding(self) -> Decoding:
        """How models write."""
        return Decoding(end=self.token(self.end), pad=PAD, temperature=self.temperature, top_k=self.top_k)

    def token(self, symbol: str) -> int:
        """The number of a token."""
        return self.vocabulary.index(symbol)

    def widths(self, length: int) -> Widths:
        """The tokens of a row of this length."""
        return Widths(self.question_width(length), int(self.start is not None), self.state_widths(length))

    def sample(self, stream: Stream, rows: int) -> tuple[Batch, ...]:
        """A training batch for every seed of the stream, in slices of one width each."""
        return self.sampled(stream, rows, {length: self.weight_of(length) for length in self.trained_lengths})

    def sampled(self, stream: Stream, rows: int, weights: Mapping[int, int]) -> tuple[Batch, ...]:
        """A training batch of examples whose lengths have these weights.

        Of transitions, an example has as many times more as it has transitions.
        """
        law = tuple((length, weights[length] * self.examples(length)) for length in sorted(weights))
        slices = slices_of(law, rows, self.slices)
        return tuple(training_rows(self, one, one.draws(stream, rows, self.fixed_set)) for one in slices)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """A batch of every length."""
        for length in lengths:
            site = SITES * (1 + length)
            length_SB = torch.full((len(stream.seeds_S), samples), length, device=stream.seeds_S.device)
            text = self.text(stream, site + TEXT_SITE, length_SB, length)
            yield EvaluationBatch(self.test_of(text, length), (length,))

    def test_of(self, text: Text, length: int) -> ScratchpadBatch:
        """The batch of a test of one length."""
        fix = self.fix_first_state if self.scratchpad == INDUCTIVE else None
        return test_of(
            text, self.start_token, self.widths(length), loss_on_question=self.loss_on_question, fix_first_state=fix
        )

    def scored(self, forward: ForwardPass, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """What a model writes behind the prompts, and what it says behind each true token."""
        assert isinstance(batch, ScratchpadBatch) and batch.prompt is not None and batch.answer is not None
        widths = self.widths(lengths[0])
        if self.scratchpad == INDUCTIVE:
            sizes = {"shared": widths.shared, "states": len(widths.states), "width": max(widths.states)}
            written = forward.generated_by_state(batch.prompt, self.decoding, **sizes, mark=self.token(self.mark))
        else:
            written = forward.generated(batch.prompt, self.decoding, most=batch.answer.shape[-1])
        right = {name: value[..., None] for name, value in self.right(written, batch).items()}
        return {**right, **self.rows(forward(batch), batch, lengths)}

    def rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """How many tokens, states and tokens of each field there are, and how many of them are right, (M, B, 1)."""
        assert isinstance(batch, ScratchpadBatch)
        states = len(self.state_widths(lengths[0]))
        return scores.counts(logits_MBTV, batch, self.fields, states, questions=self.loss_on_question)

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Shares of rows, tokens and states, and mean losses, (M, 1)."""
        right = {name: rows[name].float().mean(dim=1) for name in self.judged if name in rows}
        return {**right, **scores.shares(rows)}

    def derived(self, history: Sequence[Evaluated], lengths: tuple[int, ...]) -> dict[str, NDArray[np.float32]]:
        """The step at which each metric of what a model writes was first solved; infinite until then."""
        return {f"steps_to_{name}": steps_to(history, name, self.solved) for name in self.judged}

    def shown(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Tokens and targets of a row of the first seed, without the pads on the right; ~ where no target counts."""
        tokens, targets = (of[0, row].tolist() for of in (batch.tokens, batch.targets))
        end = max((place for place, token in enumerate(tokens) if token != PAD), default=0) + 1
        said = ["~" if target == supervised.IGNORED else self.vocabulary[target] for target in targets[:end]]
        return [self.vocabulary[token] for token in tokens[:end]], said

    @property
    def form(self) -> str:
        """The form of training rows."""
        return self.row_form if self.scratchpad == INDUCTIVE else FULL

    @property
    def start_token(self) -> int | None:
        """The number of the start mark, if there is one."""
        return None if self.start is None else self.token(self.start)

    def transitions(self, length: int) -> int:
        """How many states a row of this length has, each reached by a transition."""
        return len(self.state_widths(length))

    def width_of(self, length: int, form: str) -> int:
        """Tokens of the longest row of this length and form, the last one, too, which is no input."""
        widths = self.widths(length)
        return {FULL: widths.full, MASK: widths.masked}.get(form, widths.transition)

    def examples(self, length: int) -> int:
        """How many rows an example of this length is, if each of its transitions is one."""
        return self.transitions(length) if self.form in (SPLIT, TRANSITION) else 1
