"""The claims on arithmetic: planted effects are found, reversed ones refused, noise decides nothing."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from orchestrator.results.scoring.evaluation_choice import BEST, LAST
from orchestrator.studies.arithmetic.claims import all_claims
from orchestrator.studies.arithmetic.measures import arms, better, by_seed, fluctuation
from orchestrator.studies.arithmetic.page import PICTURE_BYTES, write_page
from orchestrator.studies.arithmetic.ring import Ring
from orchestrator.studies.claims import Claim
from orchestrator.studies.gallery import outcomes
from orchestrator.studies.measures import Sweep
from orchestrator.studies.studies import STUDIES
from search_spaces import load_sweep
from tests.orchestrator.studies.conftest import Pretended
from trainers.config.member import MemberConfig

FILES = {file.stem: file for file in STUDIES["arithmetic"].files}
RANKS = {"learned": 0, "rpe": 2, "significance": 2, "upe": 4}  # of the claims, appended zeros being worth 1
LETTERS = ["control", "F1a", "F1b", "F1c", "F1d", "F1e", "F2a", "F2b", "F3a", "F3b", "F3c", "R1", "R5"]
EFFECT, BUMP = 0.05, 0.02
SEEDS = tuple(range(6))  # the fewest that have an interval
PRETENDED = {"evaluations": 2, "seeds": len(SEEDS)}


def member_values(
    member: MemberConfig,
    number: int,
    metrics: tuple[str, ...],
    step: int,
    effect: float,
    seeds: tuple[int, ...] = SEEDS,
) -> np.ndarray:
    """(averages, metrics, lengths) of one member: an effect wherever a claim has one, and noise.

    The noise differs between members and is nothing on average over seeds. All seeds but the last were better before
    their end.
    """
    noise = 0.002 * (member.seed - np.mean(seeds)) * (1 + number % 7)
    at_lengths = np.zeros(len(member.evaluated_lengths))
    if member.task.name == "ring_regression":
        found = ring_curves(member, effect, noise)
        return np.array([[found[metric] + at_lengths for metric in metrics]])
    task, position = member.task, member.model.position.name
    right = 0.4 + effect * (RANKS.get(position, 0) + task.zero_shift)
    if getattr(task, "carries", "full") != "full" and position == "rpe":
        right = 0.9 + effect - BUMP * (len(seeds) - 1) / len(seeds)  # at the best evaluation 0.9 and the effect
    steep = 0.5 if getattr(task, "distribution", "uniform") == "uniform" else 0.2

    def value(metric: str) -> float:
        stem, _, kind = metric.rpartition("_")
        match stem:
            case "exact_match_cascade":
                return 0.6 - effect * steep * int(kind) + noise
            case "exact_match_run":
                return 0.5 + noise / 3
            case "accuracy_digit":
                return 0.9 - effect * (kind == "1") + noise * (2 if kind == "1" else 1)
        return right + effect + 2 * noise if metric == "exact_match_shifted" else right + noise

    bump = BUMP * (step < member.training.steps and member.seed != seeds[-1])
    return np.array([[value(metric) + bump + at_lengths for metric in metrics]])


def ring_curves(member: MemberConfig, effect: float, noise: float) -> dict[str, float]:
    """Absolute positions come nearer to their limit with decay or leave it, relative ones lose a tenth, about."""
    h = member.training
    gone = np.exp(-h.learning_rate * h.weight_decay * h.steps)
    ape = 3.0 - np.sign(effect) * gone
    rpe = (0.1 - effect) * ape * (1 + noise)
    loss = {"ape": 0.6 + noise if member.task.augmented else ape, "rpe": rpe}[member.model.encoding]
    return {"test_loss": loss, "train_loss": 1e-8}


def claims_of(sweeps: dict[str, Sweep]) -> dict[str, Claim]:
    return {claim.letter: claim for claim in all_claims(sweeps)}


def answers(claim: Claim) -> list[str]:
    """Of each question, that of the last evaluation after that of the best one."""
    return [one.answer for part in claim.parts for one in outcomes(part)]


def test_planted_effects_hold(pretended: Pretended) -> None:
    claims = claims_of(pretended(EFFECT))
    assert list(claims) == LETTERS
    for letter in ("control", "F1a", "F1b", "F1c", "F1d", "F1e", "F2a", "F3a", "F3b", "F3c"):
        assert set(answers(claims[letter])) == {"held"}, letter
    assert (
        answers(claims["F2b"]) == ["held"] * 2 + ["did not hold"] * 2 + ["held"] * 2
    )  # of 0.15 + 0.1 * 8 wrong digits, the 0.15
    share = claims["F2b"].parts[1].again
    assert share is not None and float(share.effect.split()[0]) == pytest.approx(0.15 / 0.95, abs=0.005)
    for letter in ("R1", "R5"):
        decays = len(Ring(claims[letter].sweep).decays)
        assert answers(claims[letter])[: decays + 1] == ["held"] * (decays + 1)
        assert answers(claims[letter])[-2 * decays :] == ["held"] * (2 * decays)


def test_reversed_effects_do_not_hold(pretended: Pretended) -> None:
    claims = claims_of(pretended(-EFFECT))
    for letter, claim in claims.items():
        assert answers(claim)[0] == "did not hold", letter
    for letter in ("F1a", "F1b", "F1c", "F1d", "F1e", "F2a", "F3a", "F3c"):
        assert set(answers(claims[letter])) == {"did not hold"}, letter
    for letter in ("R1", "R5"):
        decays = len(Ring(claims[letter].sweep).decays)
        assert answers(claims[letter])[: decays + 1] == ["did not hold"] * (decays + 1)


def test_noise_decides_nothing(pretended: Pretended) -> None:
    for letter, claim in claims_of(pretended(0.0)).items():
        assert answers(claim)[0] == "not decided", letter


def test_best_and_last_evaluations_are_both_there(pretended: Pretended) -> None:
    sweeps = pretended(EFFECT)
    for letter, claim in claims_of(sweeps).items():
        both = {tuple(one.of for one in outcomes(part)) for part in claim.parts}
        assert both == ({("",)} if letter in ("R1", "R5") else {("best evaluation", "last evaluation")})
    sweep = sweeps["fig2_addition_cpu"]
    rows = {row[1]: row for row in fluctuation([sweep]).rows}
    assert list(rows) == list(arms(sweep)) == ["APE", "APE + zeros", "RPE"]
    for arm, name in arms(sweep).items():
        apart = by_seed(sweep, name, "exact_match", BEST) - by_seed(sweep, name, "exact_match", LAST)
        assert apart.tolist() == pytest.approx([*[BUMP] * (len(apart) - 1), 0.0], abs=1e-6)
        assert rows[arm][5:] == (pytest.approx(BUMP, abs=1e-6), pytest.approx(BUMP, abs=1e-6), len(apart))


@pytest.mark.parametrize("elsewhere", [0.0, 0.3])
def test_selection_never_looks_at_test_lengths(pretend: Callable[..., Sweep], tmp_path: Path, elsewhere: float) -> None:
    """The decay and the step that are better at the selection lengths are chosen, and worse ones at others shown."""
    text = FILES["fig2_addition_cpu"].read_text(encoding="utf-8")
    file, decays = tmp_path / "two_decays.yaml", (0.03, 0.3)
    file.write_text(f"{text}\n".replace("space:\n", f"space:\n  training.weight_decay: {{grid: {list(decays)}}}\n"))
    chosen_at, seeds = load_sweep(file).objective.lengths, load_sweep(file).seeds

    def invent(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
        selection = np.isin(member.evaluated_lengths, chosen_at)
        early = step < member.training.steps
        first = member.training.weight_decay == decays[0]
        gain = 0.1 * first + 0.2 * early
        return np.tile(np.where(selection, 0.5 + gain, 0.5 - gain + elsewhere * first * early), (1, len(metrics), 1))

    sweep = pretend(file, tmp_path, invent, evaluations=2)
    assert not set(sweep.selection) & set(sweep.test) and not set(sweep.trained) & set(sweep.test)
    for name in arms(sweep).values():
        assert sweep.setting(name, "training.weight_decay") == decays[0]
        assert by_seed(sweep, name, "exact_match", BEST).tolist() == pytest.approx([0.2 + elsewhere] * len(seeds))
        assert by_seed(sweep, name, "exact_match", LAST).tolist() == pytest.approx([0.4] * len(seeds))


def test_a_failed_seed_is_counted_and_decides_nothing(pretend: Callable[..., Sweep], tmp_path: Path) -> None:
    file = FILES["fig7a_text_addition_cpu"]
    seeds = load_sweep(file).seeds

    def invent(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
        values = member_values(member, number, metrics, step, EFFECT, seeds)
        return values * (np.nan if member.seed in seeds[2:] and member.model.position.name == "learned" else 1.0)

    sweep = pretend(file, tmp_path, invent, evaluations=2)
    for part in outcomes(better(sweep, arms(sweep), "heads by significance", "APE")):
        assert part.answer == "not decided" and f"n = 2 seeds, {len(seeds) - 2} failed" in part.effect


@pytest.mark.parametrize("name", ["fig9_ring", "fig15_ring_m5"])
def test_what_untrained_positions_lose_on_average(pretended: Pretended, name: str) -> None:
    """Against products of drawn vectors, those of the window with a squared norm of alpha."""
    sweep = pretended(0.0)[name]
    here, rng = Ring(sweep), np.random.default_rng(0)
    n, d, alpha = int(here.of("task.ring")), int(here.of("model.width")), here.of("task.alpha")
    task = MemberConfig.from_dict({**sweep.state.configurations[here.first].resolved, "seed": 0}).task
    distance = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
    target = np.array([alpha, *task.betas, *[0.0] * n])[np.minimum(distance, n - distance)]
    seen = np.isin(np.arange(1, n + 1), sweep.trained)
    assert all(target[s - 1, seen].max() == 0 for s in here.far) and len(here.far) > 10
    for decay in here.decays:
        left = (1 - here.of("training.learning_rate") * decay) ** sweep.steps
        losses = []
        for _ in range(60):
            vectors = rng.normal(size=(n, d)) / np.sqrt(d) * np.where(seen, np.sqrt(alpha), left)[:, None]
            losses.append(((vectors @ vectors.T - target) ** 2).sum(axis=1)[[s - 1 for s in here.far]].mean())
        assert here.untrained(decay) == pytest.approx(np.mean(losses), rel=0.03)
    assert here.limit == pytest.approx((target[here.far[0] - 1] ** 2).sum())


def test_the_page_has_every_claim_and_small_pictures(pretended: Pretended, tmp_path: Path) -> None:
    sweeps = pretended(EFFECT)
    drawn = np.random.default_rng(0).uniform(size=(150, 1000, 3))
    maps = sweeps["fig11_12_maps_cpu"]
    (maps.folder / "figures").mkdir(exist_ok=True)
    for name in maps.state.configurations:
        image.imsave(maps.folder / "figures" / f"maps-{name}.png", drawn)
    page = write_page(sweeps, tmp_path)
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## \((\w+)\) ", text, re.M) == LETTERS
    for heading in ("Best and last evaluation", "Other positional encodings", "Maps of positional", "Not reproduced"):
        assert f"\n## {heading}" in text
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert pictures[-2:] == ["arithmetic_maps_rpe.png", "arithmetic_maps_upe.png"]
    assert len(pictures) == len(LETTERS) + 2 and {path.name for path in tmp_path.glob("*.png")} == set(pictures)
    for picture in pictures:
        assert (tmp_path / picture).stat().st_size < PICTURE_BYTES, picture
    for name, sweep in sweeps.items():
        assert f"| {name} | {sweep.size} |" in text
    encodings = arms(sweeps["other_encodings_cpu"])
    assert {"RPE", "nope", "fire, threshold 25"} <= set(encodings) and all(f"| {arm} |" in text for arm in encodings)
    assert "nan" not in text
