"""The base of tasks answered in states: without a scratchpad, with a full one, or with an inductive one.

"How Far Can Transformers Reason? The Globality Barrier and Inductive Scratchpad", Abbe et al., arXiv:2406.06467.
Shapes: S seeds, M members, B rows, P tokens of a prompt, G tokens of an answer, T positions, V tokens.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from trainers.tasks.evaluated_model import EvaluatedModel, ForwardPass
from trainers.tasks.fixed_set import Draws
from trainers.tasks.metric_descriptions import EvaluationCurves, steps_to
from trainers.tasks.parts import PAD, draw_below, find_packed_columns, scatter_columns
from trainers.tasks.scratchpad import layout, scores
from trainers.tasks.scratchpad.generation_cost import count_passes
from trainers.tasks.scratchpad.layout import ScratchpadBatch, Widths
from trainers.tasks.scratchpad.lengths import LENGTH_SITES, Slice, split_batch
from trainers.tasks.scratchpad.text import Text
from trainers.tasks.task import Batch, EvaluationBatch, Task

NONE, FULL, INDUCTIVE = "none", "full", "inductive"  # kinds of scratchpads
MASK, SPLIT, TRANSITION = "mask", "split", "transition"  # forms of rows, beside FULL
SITES_PER_DRAW = 64  # sites of random words for each draw of rows
_TRANSITION_SITE, _SHIFT_SITE, TEXT_SITE = range(LENGTH_SITES, LENGTH_SITES + 3)


class ScratchpadTask(Task):
    """A question, then states that end with a mark, the last state with the end mark; a subclass defines length.

    A test at a length has only rows of this length. A model gets the question and generates the rest; with an inductive
    scratchpad it generates each state from the question and the previous state.
    """

    scratchpad: str = setting(
        INDUCTIVE,
        choices=(NONE, FULL, INDUCTIVE),
        help="the text before the answer: none, all states, or states that see only the previous state",
    )
    row_form: str = setting(
        MASK,
        choices=(MASK, SPLIT, TRANSITION),
        help="how an inductive scratchpad is trained: on full rows, on each of their transitions, or on a random one",
    )
    loss_on_question: bool = setting(True, help="whether the tokens of the question are also trained")
    fix_first_state: bool = setting(True, help="if the question is the first state, the second one sees it")
    random_offsets: bool = setting(False, help="in training a full scratchpad has random position offsets")
    slices: int = setting(1, low=1, help="parts of a training batch by length, each as wide as its longest row")
    fixed_set: int | None = setting(None, low=1, below=2**32, help="distinct training rows; null: always fresh ones")
    temperature: float = setting(0.0, low=0.0, help="temperature of generation in tests; 0: likeliest token")
    top_k: int | None = setting(None, low=1, help="number of likeliest tokens to sample from; null: all")
    solved: float = setting(0.95, above=0.0, high=1.0, help="share of exact matches that counts as solved")

    mark: ClassVar[str] = "#"  # the token that ends a state
    end: ClassVar[str] = "."  # the token that ends an answer
    state_fields: ClassVar[tuple[str, ...]] = ()  # names of the parts of a state that have metrics, by index
    generation_metrics: ClassVar[tuple[str, ...]] = ("exact_match",)  # of generated answers

    @property
    @abstractmethod
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens as text; the first is the pad."""

    @abstractmethod
    def question_width(self, length: int) -> int:
        """Return the number of tokens of the longest question of this length, without the start mark."""

    @abstractmethod
    def state_widths(self, length: int) -> tuple[int, ...]:
        """Return the largest number of tokens of each state of a row of this length."""

    @property
    def start(self) -> str | None:
        """The token between the question and the first state, which is part of the answer; None for no such token."""
        return None

    @property
    def fields(self) -> tuple[str, ...]:
        """The `state_fields`; none without a scratchpad."""
        return () if self.scratchpad == NONE else self.state_fields

    @abstractmethod
    def text(self, draws: Draws, site: int, length_SB: Tensor, longest: int) -> Text:
        """Return drawn rows of these lengths, at most `longest`, which determines the shapes.

        Random words come from `draws` at up to SITES_PER_DRAW - TEXT_SITE sites from `site` on.
        """

    def length_weight(self, length: int) -> int:
        """Return the relative frequency of a length in training."""
        return 1

    def score_generated(self, written_MBG: Tensor, batch: ScratchpadBatch) -> dict[str, Tensor]:
        """Return whether each generated row is right by each of `generation_metrics`, (M, B)."""
        return {"exact_match": (written_MBG == batch.answer).all(dim=-1)}

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of settings that the kind of scratchpad does not allow."""
        if self.random_offsets and self.scratchpad != FULL:
            message = f"the scratchpad is {self.scratchpad}"
            yield self._make_problem("random_offsets", message, f"false, or scratchpad: {FULL}")
        if self.fixed_set is not None and self.form == SPLIT:
            message = "a batch of split rows ends in the middle of an example"
            yield self._make_problem("fixed_set", message, "null, or another row_form")

    @property
    def inputs(self) -> int:
        """Number of tokens."""
        return len(self.vocabulary)

    @property
    def positions(self) -> int:
        """Number of positions of the longest row in training and tests."""
        test_form = MASK if self.scratchpad == INDUCTIVE else FULL
        return max(self.train_positions, *(self.count_row_tokens(length, test_form) - 1 for length in self.lengths))

    @property
    def position_ids(self) -> int:
        """Upper bound of position ids: for the question and two states, or for full rows."""
        if self.scratchpad != INDUCTIVE:
            return self.positions
        return max(widths.shared + 2 * max(widths.states) for widths in map(self.widths, self.lengths))

    @property
    def has_groups(self) -> bool:
        """Whether groups mask other states: with an inductive scratchpad, always in tests."""
        return self.scratchpad == INDUCTIVE

    @property
    def train_positions(self) -> int:
        """Number of positions of the longest training row."""
        return max(self.count_row_tokens(length, self.form) - 1 for length in self.trained_lengths)

    @property
    def passes(self) -> float:
        """The cost of a test in passes over its true tokens: one such pass, plus generation with a KV cache."""
        return self._estimate_passes(cached=True, cost=lambda context: 1.0)

    def passes_with(self, model: EvaluatedModel) -> float:
        """Return `passes` for a model, from its operations and its KV cache."""
        cached = model.supports_masked_cache if self.scratchpad == INDUCTIVE else model.cache_size_per_token > 0
        return self._estimate_passes(cached, cost=lambda context: model.count_operations(self, 1, context) / context)

    def _estimate_passes(self, cached: bool, cost: Callable[[int], float]) -> float:
        """Return the cost of tests at all lengths together."""
        widths = map(self.widths, self.lengths)
        return count_passes(widths, by_state=self.scratchpad == INDUCTIVE, cached=cached, cost=cost)

    @property
    def metrics(self) -> Mapping[str, str]:
        """Each metric and its better direction.

        Of generated answers: `generation_metrics`. Of next-token predictions on true rows: token_accuracy,
        state_accuracy (states without a mistake), field_<name> (tokens of a part of a state), state_loss and, if the
        question is trained, question_loss (with the start mark; mostly noise). steps_to_<metric>: the step of the first
        evaluation that solved a length.
        """
        accuracies = ("token_accuracy", "state_accuracy", *(f"field_{name}" for name in self.fields))
        scores = dict.fromkeys((*self.generation_metrics, *accuracies), "maximize")
        losses = ("state_loss", "question_loss") if self.loss_on_question else ("state_loss",)
        return scores | dict.fromkeys([*(f"steps_to_{name}" for name in self.generation_metrics), *losses], "minimize")

    @property
    def headline(self) -> tuple[str, ...]:
        """Metrics that are charted."""
        return (*self.generation_metrics, "state_accuracy")

    @property
    def decoding(self) -> Decoding:
        """The settings of text generation."""
        return Decoding(end=self.token(self.end), pad=PAD, temperature=self.temperature, top_k=self.top_k)

    def token(self, symbol: str) -> int:
        """Return the id of a token."""
        return self.vocabulary.index(symbol)

    def widths(self, length: int) -> Widths:
        """Return the widths of the parts of a row of this length."""
        return Widths(self.question_width(length), int(self.start is not None), self.state_widths(length))

    def sample(self, stream: Stream, rows: int) -> tuple[Batch, ...]:
        """Return a training batch for every seed of the stream, in slices that each have a width."""
        weights = tuple((length, self.length_weight(length) * self.examples(length)) for length in self.trained_lengths)
        slices = split_batch(weights, rows, self.slices)
        return tuple(self.training_rows(part, part.make_draws(stream, rows, self.fixed_set)) for part in slices)

    def training_rows(self, part: Slice, draws: Draws) -> Batch:
        """Return the rows of a slice of a training batch, in the form of the task."""
        site = SITES_PER_DRAW * part.number
        start = self.start_token
        on_question = self.loss_on_question
        width = max(self.count_row_tokens(length, self.form) for length in part.lengths)

        # Consecutive transitions of the same examples fill the slice.
        if self.form == SPLIT:
            length_SE, example_SB, index_SB = part.draw_transitions(draws, site, self.transitions)
            text = self.text(draws, site + TEXT_SITE, length_SE, part.longest).select_rows(example_SB)
            rows = layout.make_transition_rows(text, start, width, index_SB)
            return layout.make_batch(rows, loss_on_question=on_question)

        # All other forms have an example in each row.
        length_SB = part.draw_lengths(draws, site, part.rows)
        text = self.text(draws, site + TEXT_SITE, length_SB, part.longest)
        if self.form == TRANSITION:
            count_SB = part.look_up(length_SB, self.transitions)
            index_SB = draw_below(draws, site + _TRANSITION_SITE, (part.rows,), count_SB)
            rows = layout.make_transition_rows(text, start, width, index_SB)
            return layout.make_batch(rows, loss_on_question=on_question)
        if self.form == MASK:
            rows = layout.make_masked_rows(text, start, width, fix_first_state=self.fix_first_state)
            return layout.make_batch(rows, loss_on_question=on_question, ids=True, groups=True)
        if not self.random_offsets:
            return layout.make_batch(layout.make_full_rows(text, start, width), loss_on_question=on_question)
        return self._make_shifted_rows(part, draws, text, width)

    def _make_shifted_rows(self, part: Slice, draws: Draws, text: Text, width: int) -> Batch:
        """Return full rows whose states have random position offsets, within the positions of the longest test row."""
        tokens = text.question_length + text.state_length.sum(dim=-1)
        step = min(self.state_widths(self.trained_lengths[0]))  # offsets are multiples of the narrowest state
        free_positions = self.positions + 1 - int(self.start is not None) - tokens
        site = SITES_PER_DRAW * part.number + _SHIFT_SITE
        shift_SB = step * draw_below(draws, site, (part.rows,), free_positions // step + 1)
        rows = layout.make_full_rows(text, self.start_token, width, shift_SB)
        batch = layout.make_batch(rows, loss_on_question=self.loss_on_question, ids=True)
        assert batch.ids is not None
        return replace(batch, ids=batch.ids.clamp(max=self.positions - 1))  # only the last token, which is no input

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield a batch of every length."""
        for length in lengths:
            site = SITES_PER_DRAW * (1 + length)
            length_SB = torch.full((len(stream.seeds_S), samples), length, device=stream.seeds_S.device)
            text = self.text(stream, site + TEXT_SITE, length_SB, length)
            yield EvaluationBatch(self.test_batch(text, length), (length,))

    def test_batch(self, text: Text, length: int) -> ScratchpadBatch:
        """Return the test batch of a text whose rows have this length."""
        return layout.make_test_batch(
            text,
            self.start_token,
            self.widths(length),
            loss_on_question=self.loss_on_question,
            fix_first_state=self.fix_first_state if self.scratchpad == INDUCTIVE else None,
        )

    def score_batch(self, forward: ForwardPass, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the scores of generated answers, and of next-token predictions on true rows."""
        assert isinstance(batch, ScratchpadBatch)
        written = self._generate_texts(forward, batch, lengths, self.decoding)
        right = {name: value[..., None] for name, value in self.score_generated(written, batch).items()}
        return {**right, **self.score_rows(forward(batch), batch, lengths)}

    def sample_answers(
        self, forward: ForwardPass, batch: Batch, lengths: tuple[int, ...], draws: int, temperature: float
    ) -> Tensor:
        """Return `draws` sampled answers, int64 (M, B, draws, A): the `answer_mask` of generated texts, then pads."""
        assert isinstance(batch, ScratchpadBatch)
        decoding = replace(self.decoding, temperature=temperature)
        return self._read_answers(self._generate_texts(forward, batch, lengths, decoding, draws))

    def true_answers(self, batch: Batch, lengths: tuple[int, ...]) -> Tensor:
        """Return the right answers, int64 (M, B, A)."""
        assert isinstance(batch, ScratchpadBatch)
        return self._read_answers(batch.answer)

    def answer_mask(self, text: Tensor) -> Tensor:
        """Return which tokens of texts (..., G) are the answer: the last state with the end mark; none without it."""
        # The last state begins after the last mark and ends with the end mark.
        is_end = text == self.token(self.end)
        index = torch.arange(text.shape[-1], device=text.device)
        is_mark = (text == self.token(self.mark)) & (is_end.cumsum(dim=-1) == 0)
        last_mark = torch.where(is_mark, index, -1).amax(dim=-1, keepdim=True)
        end = torch.where(is_end, index, -1).amax(dim=-1, keepdim=True)  # the only one: pads follow
        return (index > last_mark) & (index <= end)

    def _generate_texts(
        self,
        forward: ForwardPass,
        batch: ScratchpadBatch,
        lengths: tuple[int, ...],
        decoding: Decoding,
        draws: int | None = None,
    ) -> Tensor:
        """Return generated texts, int64 (M, B, G), or with `draws` (M, B, draws, G)."""
        if self.scratchpad != INDUCTIVE:
            return forward.generate(batch.prompt, decoding, max_tokens=batch.answer.shape[-1], draws=draws)
        widths = self.widths(lengths[0])
        sizes = {"shared": widths.shared, "states": len(widths.states), "width": max(widths.states)}
        return forward.generate_by_state(batch.prompt, decoding, **sizes, mark=self.token(self.mark), draws=draws)

    def _read_answers(self, text: Tensor) -> Tensor:
        """Return the answers of texts (..., G) at the start of rows of G tokens, followed by pads."""
        width = text.shape[-1]
        return scatter_columns(text, find_packed_columns(self.answer_mask(text), width), width)

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return counts and summed losses of tokens, states and fields, (M, B, 1); see `scores.score_next_tokens`."""
        assert isinstance(batch, ScratchpadBatch)
        states = len(self.state_widths(lengths[0]))
        return scores.score_next_tokens(logits_MBTV, batch, self.fields, states, questions=self.loss_on_question)

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return shares of rows, tokens and states, and mean losses, (M, 1)."""
        right = {name: rows[name].float().mean(dim=1) for name in self.generation_metrics if name in rows}
        return {**right, **scores.reduce_scores(rows)}

    def derive_metrics(
        self, history: Sequence[EvaluationCurves], lengths: tuple[int, ...]
    ) -> dict[str, NDArray[np.float32]]:
        """Return the step at which each of `generation_metrics` was first solved; infinite until then."""
        return {f"steps_to_{name}": steps_to(history, name, self.solved) for name in self.generation_metrics}

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return tokens and targets of a row of the first seed as text, without pads; ~ is a masked target."""
        tokens = batch.tokens[0, row].tolist()
        targets = batch.targets[0, row].tolist()
        end = max((position for position, token in enumerate(tokens) if token != PAD), default=0) + 1
        target_symbols = ["~" if target == supervised.IGNORED else self.vocabulary[target] for target in targets[:end]]
        return [self.vocabulary[token] for token in tokens[:end]], target_symbols

    @property
    def form(self) -> str:
        """The form of training rows."""
        return self.row_form if self.scratchpad == INDUCTIVE else FULL

    @property
    def start_token(self) -> int | None:
        """The id of the start mark, None without a start mark."""
        return None if self.start is None else self.token(self.start)

    def transitions(self, length: int) -> int:
        """Return the number of states of a row of this length, each reached by a transition."""
        return len(self.state_widths(length))

    def count_row_tokens(self, length: int, form: str) -> int:
        """Return the number of tokens of the longest row of this length and form, including the last token."""
        widths = self.widths(length)
        return {FULL: widths.full, MASK: widths.masked}.get(form, widths.transition)

    def examples(self, length: int) -> int:
        """Return the number of training rows of an example of this length: its transitions, or 1."""
        return self.transitions(length) if self.form in (SPLIT, TRANSITION) else 1
