"""The claim on a text: perplexity in windows longer than the trained ones."""

import numpy as np
import pandas as pd
from torch import arange

from orchestrator.studies.claims import NOT_TESTABLE, Claim, Part, Table, within
from orchestrator.studies.measures import Effect, Sweep, effect_of_seeds, paired_effect
from orchestrator.studies.threshold_attention.measures import arms
from trainers.tasks.language.corpus import Corpus, open_corpus

TEXT = "lm_wikitext103_cpu"
PERPLEXITY = "perplexity"
SMALL = """\
The model is far too small to speak of the paper's claim: it has read a small text less than once, byte by byte. Asked
is whether windows of a few lines do harm, and not whether they are of use.
"""


def perplexity_claim(sweep: Sweep) -> Claim:
    """(T3) The perplexity does not grow with the window."""
    of = arms(sweep)
    longest, trained = windows(sweep)[-1], windows(sweep)[0]
    corpus = open_corpus(str(sweep.resolved(of["tra"], "task.corpus")))
    pairs = by_pairs(corpus)
    window = f"windows of {longest} bytes"
    parts = [_grows(sweep, config_id, name, pairs) for name, config_id in of.items()]
    for name, config_id in of.items():
        if name != "tra":
            effect = paired_effect(growth(sweep, of["tra"]), growth(sweep, config_id), on=("seed",))
            asked = f"does the perplexity grow less with tra than with {name}?"
            parts.append(Part(asked=asked, effect=str(effect), answer=effect.verdict("smaller")))
    return Claim(
        letter="T3",
        says="Perplexity stays robust when the window grows.",
        sweep=sweep,
        measured=f"perplexity of a byte of the test text, in {window} over that in windows of {trained}, the trained "
        f"ones, seed by seed: at most 1 where longer windows do no harm. Nothing is tested where a seed predicts no "
        f"better than from the byte before alone, which has a perplexity of {pairs:.3g}. {' '.join(SMALL.split())}",
        parts=parts,
        tables=[_perplexities(sweep)],
        shown=len(parts),
    )


def windows(sweep: Sweep) -> tuple[int, ...]:
    """The windows of the test text, the trained one first: what is chosen is chosen on another text."""
    return next(iter(sweep.measured.values())).metrics[PERPLEXITY].lengths


def growth(sweep: Sweep, name: str) -> pd.DataFrame:
    """One row per seed: `value`, the perplexity in the longest windows over that in the trained ones."""
    longest, trained = (_of_seeds(sweep, name, length) for length in (windows(sweep)[-1], windows(sweep)[0]))
    return longest.assign(value=longest["value"].to_numpy() / trained["value"].to_numpy())


def by_pairs(corpus: Corpus) -> float:
    """The perplexity of the test text with each byte predicted from the one before: counts of training, plus one."""
    train, test = (corpus.ids(split, arange(corpus.size(split))).numpy() for split in ("train", "test"))
    counts = np.ones((corpus.vocabulary, corpus.vocabulary))
    np.add.at(counts, (train[:-1], train[1:]), 1.0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return float(np.exp(-np.log(shares[test[:-1], test[1:]]).mean()))


def _grows(sweep: Sweep, config_id: str, name: str, pairs: float) -> Part:
    effect: Effect = effect_of_seeds(growth(sweep, config_id)["value"])
    trained = _of_seeds(sweep, config_id, windows(sweep)[0])["value"]
    better = int((trained < pairs).sum())
    return Part(
        asked=f"is the perplexity in windows of {windows(sweep)[-1]} bytes at most that in windows of "
        f"{windows(sweep)[0]} with {name}?",
        effect=f"ratio {str(effect).replace('+', '')}; {better} of {len(trained)} seeds predict better than from pairs",
        answer=within(effect, most=1.0) if better == len(trained) else NOT_TESTABLE,
    )


def _perplexities(sweep: Sweep) -> Table:
    rows = []
    for name, config_id in arms(sweep).items():
        values = [_of_seeds(sweep, config_id, length)["value"] for length in windows(sweep)]
        rows.append((name, *(f"{of.median():.4g} ({of.min():.4g} to {of.max():.4g})" for of in values)))
    head = ("attention", *(f"window {length}" for length in windows(sweep)))
    return Table(title="perplexity of a byte, median (least to greatest)", head=head, rows=rows)


def _of_seeds(sweep: Sweep, name: str, length: int) -> pd.DataFrame:
    rows = sweep.members(PERPLEXITY, "raw", (length,))
    return rows[rows["config_id"] == name].sort_values("seed", ignore_index=True)
