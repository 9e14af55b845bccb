"""Language modelling: the next token of a text, and its perplexity in windows of growing length.

Shapes: S seeds, M members, B rows, T positions of a window, V tokens.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from trainers.errors import CorpusError, Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks import supervised
from trainers.tasks.language.corpus import Corpus, open_corpus
from trainers.tasks.task import Batch, Distribution, EvaluationBatch, Task


@register("task", "language")
class Language(Task):
    """Input: the tokens of a window of a text. Output: at every position, the next token.

    Length is the number of tokens of a window. Training windows start at random in the training text. The test text is
    split into windows that do not overlap; the validation text is evaluated in windows of the trained length.

    >>> task = Language(train_window=12, test_windows=(24,))
    >>> "".join(task.format_row(task.read_windows("train", torch.tensor([[35]])), 0)[0])
    "¶Of␣Man's␣fi"
    >>> "".join(task.format_row(task.read_windows("train", torch.tensor([[35]])), 0)[1])
    "Of␣Man's␣fir"
    """

    corpus: str = setting(
        "paradise_lost", help="name of the text; `paradise_lost`, read byte by byte, is on every machine"
    )
    sha256: str | None = setting(None, help="hash of the file; null: the hash of the file when the sweep is planned")
    train_window: int = setting(64, low=1, help="tokens of a training window")
    test_windows: tuple[int, ...] = setting((128, 256, 512), low=1, help="other lengths of test windows")

    # perplexity: exp of the mean negative log likelihood of a token, over all tokens of all windows.
    metrics: ClassVar[Mapping[str, str]] = {"perplexity": "minimize"}

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of an invalid name or hash."""
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", self.corpus):
            allowed = "letters, digits, dots, dashes and underscores"
            yield self._make_problem("corpus", f"{self.corpus!r} is not a name", allowed)
        if self.sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            yield self._make_problem("sha256", "is not a SHA-256", "64 hexadecimal digits, or null")

    @property
    def corpora(self) -> tuple[str, ...]:
        """The name of the corpus."""
        return (self.corpus,)

    def pin_data(self) -> Self:
        """Return this task with the hash of the corpus file; unchanged if it is missing or a hash is set."""
        if self.sha256 is not None:
            return self
        try:
            return replace(self, sha256=open_corpus(self.corpus).sha256)
        except CorpusError:
            return self

    def find_data_problems(self) -> Iterator[Problem]:
        """Yield problems of the corpus: a missing or changed file, and windows longer than a split."""
        try:
            corpus = open_corpus(self.corpus, self.sha256)
        except CorpusError as error:
            yield self._make_problem("corpus", str(error))
            return

        # A window needs a token more than its length: the target of its last token.
        for key, split, longest in (
            ("train_window", "train", self.train_window),
            ("train_window", "validation", self.train_window),
            ("test_windows", "test", max(self.lengths)),
        ):
            if corpus.size(split) <= longest:
                message = f"{longest} tokens do not fit into the {split} text of {self.corpus}"
                yield Problem(key=key, given=longest, message=message, allowed=f"< {corpus.size(split)}")

    @property
    def text(self) -> Corpus:
        """The corpus. Raises CorpusError if it is missing."""
        return open_corpus(self.corpus, self.sha256)

    @property
    def inputs(self) -> int:
        """Number of input tokens."""
        return self.text.vocabulary

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """The trained length of windows."""
        return (self.train_window,)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of windows that can be evaluated."""
        return tuple(sorted({self.train_window, *self.test_windows}))

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """The test text in windows of all lengths, and the validation text in windows of the trained length."""
        return (
            Distribution("test", self.lengths, self.trained_lengths),
            Distribution("validation", self.trained_lengths),
        )

    def read_windows(self, split: str, starts_SB: Tensor, length: int | None = None) -> Batch:
        """Return windows of a split of the text that start at these positions, by default of the trained length."""
        position = torch.arange((length or self.train_window) + 1, device=starts_SB.device)
        ids = self.text.ids(split, starts_SB[..., None] + position)
        return Batch(ids[..., :-1], ids[..., 1:])

    def sample(self, stream: Stream, rows: int) -> Batch:
        """Return a training batch for every seed of the stream."""
        return self.read_windows("train", stream.integers(0, (rows,), self.text.size("train") - self.train_window))

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield the windows of each length at the start of the text, the same for every seed.

        Each length has at least one window, and as many whole ones as fit into the tokens of `samples` windows of the
        distribution's shortest length, or into the text if that is shorter.
        """
        for distribution in self.distributions:
            for length in (length for length in lengths if length in distribution.lengths):
                tokens = min(self.text.size(distribution.name) - 1, samples * min(distribution.lengths))
                starts = length * torch.arange(max(1, tokens // length), device=stream.seeds_S.device)
                yield EvaluationBatch(
                    self.read_windows(distribution.name, starts.expand(len(stream.seeds_S), -1), length),
                    (length,),
                    distribution.name,
                )

    def validation_batches(self, stream: Stream, samples: int) -> Iterator[EvaluationBatch]:
        """Yield the validation text in windows of the trained length, as a batch of the first distribution."""
        for batch in self.evaluation_batches(stream, samples, self.trained_lengths):
            if batch.distribution == "validation":
                yield replace(batch, distribution="")

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the mean negative log likelihood of the tokens of each window, (M, B, 1)."""
        return {"loss": supervised.compute_token_losses(logits_MBTV, batch.targets).mean(dim=-1, keepdim=True)}

    def reduce(self, rows: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the perplexity over all windows, (M, 1)."""
        return {"perplexity": rows["loss"].double().mean(dim=1).exp()}

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return tokens and targets of a row of the first seed as text."""
        words = self.text.words
        tokens = batch.tokens[0, row].tolist()
        targets = batch.targets[0, row].tolist()
        return [words[token] for token in tokens], [words[target] for target in targets]


@register("task", "wikitext")
class Wikitext(Language):
    """The next token of WikiText-103 (Merity et al., arXiv:1609.07843) in GPT-2 tokens, as in arXiv:2503.23174.

    `lengthwise data FILE --fetch` prepares the corpus for the sweep of FILE.

    >>> Wikitext().train_window, Wikitext().lengths
    (128, (128, 256, 512, 1024, 2048, 4096))
    >>> Wikitext().corpus
    'wikitext-103'
    """

    trial_settings: ClassVar[Mapping[str, Any]] = {"corpus": "paradise_lost", "train_window": 16, "test_windows": [32]}

    corpus: str = setting("wikitext-103", help="name of the text")
    train_window: int = setting(128, low=1, help="tokens of a training window")
    test_windows: tuple[int, ...] = setting((256, 512, 1024, 2048, 4096), low=1, help="other lengths of test windows")
