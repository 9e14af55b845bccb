"""The claims files that are shipped: every one can be asked of its sweeps, and its numbers are what they say."""

from pathlib import Path

import numpy as np
import pytest
import torch

from orchestrator.claims.verdicts import judge, read_tested_sweeps
from search_spaces import load_sweep
from search_spaces.grammar.claims import Claim, load_claims
from tests.orchestrator.claims.conftest import pretended_sweep
from trainers.config.member import MemberConfig
from trainers.tasks.language.corpus import Corpus, open_corpus

FOLDER = Path(__file__).parents[3] / "search_spaces"
FILES = sorted(FOLDER.glob("*/claims.yaml"))
EACH = pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)


def learned_values(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
    """(averages, metrics, lengths): nearly nothing wrong, with noise, so that every seed has learned the task."""
    rng = np.random.default_rng([member.seed, number, step])
    lengths = np.array(member.evaluated_lengths)

    def curve(name: str) -> np.ndarray:
        noise = rng.normal(size=len(lengths))
        if name.startswith("steps_to_"):
            return 200.0 + 50.0 * rng.integers(0, 3, len(lengths))
        if name.partition(".")[0] == "perplexity":
            return 5.0 + 0.1 * noise
        return 0.995 + 0.001 * noise if member.metrics[name].direction == "maximize" else 0.005 + 0.001 * noise

    return np.array([[curve(name) for name in metrics] for _ in member.training.averages])


def test_every_study_has_claims() -> None:
    assert {file.parent.name for file in FILES} == {
        "set_complement", "arithmetic", "threshold_attention", "inductive_scratchpad", "gpu",
    }  # fmt: skip


@pytest.mark.slow
@EACH
def test_every_claim_can_be_asked_of_its_sweep(file: Path, tmp_path: Path) -> None:
    """All arms, metrics, averages and lengths are there, and nothing but the numbers leaves a claim undecided."""
    claims = load_claims(file)
    for name in claims.sweeps:
        pretended_sweep(file.with_name(f"{name}.yaml"), tmp_path, learned_values, evaluations=1)
    judgements = judge(claims, read_tested_sweeps(claims, tmp_path))
    assert len(judgements) == len(claims.claims)
    for judgement in judgements:
        assert judgement.answer is not None, judgement.claim.id
        assert not np.isnan(judgement.answer.effect) and not np.isnan(judgement.answer.low), judgement.claim.id
        assert judgement.answer.n == judgement.answer.n_trained >= judgement.answer.n_needed, judgement.claim.id
        assert judgement.verdict != "not tested" or judgement.reason.startswith("its control"), (
            judgement.claim.id,
            judgement.verdict_text,
        )


@EACH
def test_sweeps_register_the_claims_and_have_seeds_enough_to_decide_them(file: Path) -> None:
    """Seeds that all agree decide every claim of the file, also after Holm's correction."""
    claims = load_claims(file)
    for name in claims.sweeps:
        spec = load_sweep(file.with_name(f"{name}.yaml"))
        assert spec.claims == "claims.yaml", name
        about = [claim for claim in claims.claims if claim.sweep == name]
        if all(claim.question != "trend" for claim in about):
            assert 2 * 0.5 ** len(spec.seeds) * claims.family <= 0.05, f"{name} has too few seeds"


def by_id(study: str, name: str) -> Claim:
    (claim,) = [claim for claim in load_claims(FOLDER / study / "claims.yaml").claims if claim.id == name]
    return claim


def test_the_perplexity_of_a_learned_text_is_that_of_pairs_of_bytes() -> None:
    rule = by_id("threshold_attention", "perplexity").learned
    name = load_sweep(FOLDER / "threshold_attention" / "lm_wikitext103_cpu.yaml").task["corpus"]
    assert rule is not None and rule.most == pytest.approx(perplexity_by_pairs(open_corpus(name)), abs=0.005)


def perplexity_by_pairs(corpus: Corpus) -> float:
    """The perplexity of the test text with each byte predicted from the one before: counts of training, plus one."""
    train, test = (corpus.ids(split, torch.arange(corpus.size(split))).numpy() for split in ("train", "test"))
    counts = np.ones((corpus.vocabulary, corpus.vocabulary))
    np.add.at(counts, (train[:-1], train[1:]), 1.0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return float(np.exp(-np.log(shares[test[:-1], test[1:]]).mean()))


@pytest.mark.parametrize(("sweep", "prefix"), [("fig9_ring", "ring_1"), ("fig15_ring_m5", "ring_5")])
def test_the_numbers_of_a_ring_are_those_of_its_sweep(sweep: str, prefix: str) -> None:
    """The loss at far positions against products of drawn vectors; the limit, n/d and the bound on near pairs."""
    spec = load_sweep(FOLDER / "arithmetic" / f"{sweep}.yaml")
    task, training, width = spec.task, spec.training, spec.model["width"]
    n, alpha, betas = task["ring"], task["alpha"], task["betas"]
    limit, shrink = by_id("arithmetic", f"{prefix}_limit"), by_id("arithmetic", f"{prefix}_shrink")
    assert f"is {alpha**2 + 2 * sum(beta**2 for beta in betas):.4g} with the alpha and beta chosen here" in limit.note
    distance = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
    target = np.array([alpha, *betas, *[0.0] * n])[np.minimum(distance, n - distance)]
    window = range((n - task["window"]) // 2 + 1, (n + task["window"]) // 2 + 1)
    seen = np.isin(np.arange(1, n + 1), window)
    far = tuple(s for s in range(1, n + 1) if not seen[s - 1] and target[s - 1, seen].max() == 0)
    assert limit.lengths == shrink.lengths == far
    left = (1 - training["learning_rate"] * 0.01) ** training["steps"]
    rng, losses = np.random.default_rng(0), []
    for _ in range(100):
        vectors = rng.normal(size=(n, width)) / np.sqrt(width) * np.where(seen, np.sqrt(alpha), left)[:, None]
        losses.append(((vectors @ vectors.T - target) ** 2).sum(axis=1)[[s - 1 for s in far]].mean())
    assert shrink.around == pytest.approx(np.mean(losses), rel=0.02)
    assert shrink.within == pytest.approx(0.1 * (shrink.around or 0), rel=0.02)
    assert by_id("arithmetic", f"{prefix}_augmented").bound == pytest.approx(n / width, abs=5e-4)
    assert by_id("arithmetic", f"{prefix}_augmented_far").bound == pytest.approx(0.1 / n, abs=5e-6)
