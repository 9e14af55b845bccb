"""The claims of arXiv:2406.01895 as questions to the ledgers of this study's sweeps: effect, interval, and an answer.

Weight decays and best evaluations are chosen by the objective's selection lengths; what is reported are the lengths
beyond them, at the best evaluation, as in the paper, and at the last one. Effects are over seeds.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.studies.arithmetic.carries import cascades, runs, training_sums
from orchestrator.studies.arithmetic.measures import (
    EVALUATIONS,
    EXACT,
    Values,
    arms,
    at_both,
    better,
    by_length,
    by_seed,
    change,
    smaller,
    trained,
)
from orchestrator.studies.arithmetic.ring import ring
from orchestrator.studies.claims import Claim, Table, plain, within
from orchestrator.studies.measures import Effect, Sweep, effect_of_seeds
from orchestrator.wording import spans

SHIFTED = "exact_match_shifted"
RIGHT = "exact match (every digit and pad of the answer right)"


def all_claims(sweeps: Mapping[str, Sweep]) -> list[Claim]:
    """Every claim, put to the sweeps by name."""
    addition, complexity = sweeps["fig2_addition_cpu"], sweeps["fig8_complexity_cpu"]
    return [
        no_carries(sweeps["fig10_nocarry_cpu"]),
        encodings(
            "F1a",
            "Addition: relative positions are better than absolute ones, with and without appended zeros.",
            addition,
            [("RPE", "APE"), ("RPE", "APE + zeros")],
        ),
        encodings(
            "F1b",
            "Multiplication by one digit: uniform positions are better than relative ones, these than absolute ones.",
            sweeps["fig4_mul1_cpu"],
            [("UPE", "RPE"), ("RPE", "APE")],
        ),
        encodings(
            "F1c",
            "Multiplication by several digits: uniform positions are best; appended zeros help relative ones.",
            sweeps["fig5_mul3_cpu"],
            [("UPE", "RPE"), ("UPE", "APE + zeros"), ("UPE", "RPE + zeros"), ("RPE + zeros", "RPE")],
        ),
        encodings(
            "F1d",
            "Addition inside text: heads by digit significance are better than ordinary ones.",
            sweeps["fig7a_text_addition_cpu"],
            [("heads by significance", "APE")],
        ),
        encodings(
            "F1e",
            "Multiplication inside text: heads by digit significance are better than ordinary ones.",
            sweeps["fig7b_text_multiplication_cpu"],
            [("heads by significance", "APE")],
        ),
        zeros(addition),
        digits(sweeps["table1_augmented_cpu"]),
        cascades(complexity),
        runs(complexity),
        training_sums(complexity),
        ring("R1", "one neighbour", sweeps["fig9_ring"]),
        ring("R5", "five neighbours", sweeps["fig15_ring_m5"]),
    ]


def encodings(letter: str, says: str, sweep: Sweep, pairs: list[tuple[str, str]]) -> Claim:
    """(F1) The encoding that has the structure of the task is better."""
    chosen = arms(sweep)
    return Claim(
        letter=letter,
        says=says,
        sweep=sweep,
        measured=f"{RIGHT} at test lengths {spans(sweep.test)}, seed by seed; {trained(sweep)}",
        parts=[better(sweep, chosen, first, second) for first, second in pairs],
        tables=[by_length(sweep, chosen)],
        shown=len(pairs),
    )


def no_carries(sweep: Sweep) -> Claim:
    """The positive control: what needs no carries is learned at every length."""
    chosen = arms(sweep)
    wanted = sweep.state.spec["objective"]["threshold"]
    right = at_both(
        f"is exact match of RPE at test lengths {spans(sweep.test)} at least {wanted}?",
        lambda at: effect_of_seeds(by_seed(sweep, chosen["RPE"], EXACT, at)),
        lambda effect: within(effect, least=wanted),
        plain,
    )
    return Claim(
        letter="control",
        says="Addition without carries: relative positions are right far beyond the trained lengths.",
        sweep=sweep,
        measured=f"{RIGHT} at test lengths {spans(sweep.test)}; {trained(sweep)}. A positive control: "
        "where it fails, models this small and trained this shortly do not even add single digits at every place, and "
        "what they fail at below says little about encodings",
        parts=[right, *(better(sweep, chosen, "RPE", other) for other in ("APE", "APE + zeros"))],
        tables=[by_length(sweep, chosen)],
    )


def zeros(sweep: Sweep) -> Claim:
    """(F2) Appended zeros help, but less than the encoding."""
    chosen = arms(sweep)

    def gain(arm: str, at: str) -> Values:
        return by_seed(sweep, chosen[arm], EXACT, at) - by_seed(sweep, chosen["APE"], EXACT, at)

    less = at_both(
        "do appended zeros gain less over APE than relative positions do?",
        lambda at: change(gain("APE + zeros", at), gain("RPE", at)),
        smaller,
    )
    easier = at_both(
        "is APE + zeros better on trained sums with zeros appended than on other sums as long?",
        lambda at: change(*(by_seed(sweep, chosen["APE + zeros"], metric, at) for metric in (SHIFTED, EXACT))),
    )
    return Claim(
        letter="F2a",
        says="Appended zeros help absolute positions, but less than relative positions do.",
        sweep=sweep,
        measured=f"{RIGHT} at test lengths {spans(sweep.test)}, seed by seed; `shifted`: sums of trained numbers with "
        "zeros appended up to that length",
        parts=[less, better(sweep, chosen, "APE + zeros", "APE"), easier],
        tables=[by_length(sweep, {"APE + zeros": chosen["APE + zeros"]}, SHIFTED)],
        shown=2,
    )


def digits(sweep: Sweep) -> Claim:
    """(F2) With appended zeros most errors are in the least significant digit."""
    (name,) = arms(sweep).values()
    numbers, length = digits_of(sweep)
    at_length = {
        (metric, at): by_seed(sweep, name, metric, at, (length,))
        for metric in (*(f"accuracy_digit_{k}" for k in numbers), EXACT, SHIFTED)
        for at in EVALUATIONS
    }

    def wrong(at: str) -> list[Values]:
        return [1 - at_length[f"accuracy_digit_{k}", at] for k in numbers]

    def mean(values: list[Values]) -> Values:
        return sum(values[1:], start=values[0]) / len(values)

    def share(at: str) -> Effect:
        """Of the least significant digit among all wrong ones, over the seeds that make mistakes."""
        units, *others = wrong(at)
        total = sum(others, start=units)
        return effect_of_seeds((units / total)[total != 0])

    oftener = at_both(
        "is the least significant digit wrong more often than the others are on average (share of sums)?",
        lambda at: change(wrong(at)[0], mean(wrong(at)[1:])),
    )
    most = at_both(
        "are more than half of all wrong digits least significant ones?",
        share,
        lambda effect: within(effect, least=0.5),
        plain,
    )
    easier = at_both(
        "are trained sums with zeros appended right more often than other sums as long?",
        lambda at: change(at_length[SHIFTED, at], at_length[EXACT, at]),
    )
    rows: list[tuple[Any, ...]] = []
    for metric in dict.fromkeys(metric for metric, _ in at_length):
        over_seeds = [at_length[metric, at] for at in EVALUATIONS]
        cells = [number for values in over_seeds for number in (values.median(), values.min(), values.max())]
        rows.append((metric.replace("_", " "), *cells))
    head = ("metric", *(f"{what}, {at}" for at in EVALUATIONS for what in ("median", "least", "greatest")))
    return Claim(
        letter="F2b",
        says="With appended zeros, most errors are in the least significant digit.",
        sweep=sweep,
        measured=f"accuracy of each digit of the answer at sums of {length} digits, units first, absolute positions "
        f"with appended zeros; {trained(sweep)}. `shifted`: sums of trained numbers with zeros "
        "appended up to that length",
        parts=[oftener, most, easier],
        tables=[Table(title=f"sums of {length} digits, over seeds", head=head, rows=rows)],
        shown=2,
    )


def digits_of(sweep: Sweep) -> tuple[range, int]:
    """The digits that are measured, and the longest test length of which these are all digits."""
    most = int(sweep.resolved(next(iter(sweep.state.configurations)), "task.measured_digits"))
    length = max(s for s in sweep.test if s < most)
    return range(1, length + 2), length
