"""The claims of arXiv:2406.01895 as questions to the ledgers of this study's sweeps: effect, interval, and an answer.

Weight decays and best checkpoints are chosen by the objective's selection lengths; what is reported are the lengths
beyond them, at the best checkpoint, as in the paper, and at the last one. Effects are over seeds.
"""

from collections.abc import Mapping

from arithmetic_carries import cascades, runs, training_sums
from arithmetic_measures import CHECKPOINTS, EXACT, arms, better, by_length, by_seed, change
from arithmetic_ring import ring
from claims import Claim, Part, Table, plain, within
from measures import Sweep, effect_of_seeds

from orchestrator.length_groups import spans

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
        measured=f"{RIGHT} at test lengths {spans(sweep.test)}, seed by seed; trained on {spans(sweep.trained)}",
        parts=[part for first, second in pairs for part in better(sweep, chosen, first, second)],
        tables=[by_length(sweep, chosen)],
        shown=2 * len(pairs),
    )


def no_carries(sweep: Sweep) -> Claim:
    """The positive control: what needs no carries is learned at every length."""
    chosen, parts = arms(sweep), []
    wanted = sweep.state.spec["objective"]["threshold"]
    for at, words in CHECKPOINTS.items():
        effect = effect_of_seeds(by_seed(sweep, chosen["RPE"], EXACT, at).to_numpy())
        asked = f"{words}: is exact match of RPE at test lengths {spans(sweep.test)} at least {wanted}?"
        parts.append(Part(asked=asked, effect=plain(effect), answer=within(effect, least=wanted)))
    for other in ("APE", "APE + zeros"):
        parts += better(sweep, chosen, "RPE", other)
    return Claim(
        letter="control",
        says="Addition without carries: relative positions are right far beyond the trained lengths.",
        sweep=sweep,
        measured=f"{RIGHT} at test lengths {spans(sweep.test)}; trained on {spans(sweep.trained)}. A positive control: "
        "where this fails, nothing else on this page means much",
        parts=parts,
        tables=[by_length(sweep, chosen)],
        shown=2,
    )


def zeros(sweep: Sweep) -> Claim:
    """(F2) Appended zeros help, but less than the encoding."""
    chosen = arms(sweep)
    parts = []
    for at, words in CHECKPOINTS.items():
        plain_ape, shifted, relative = (by_seed(sweep, chosen[arm], EXACT, at) for arm in ("APE", "APE + zeros", "RPE"))
        effect = change(shifted - plain_ape, relative - plain_ape)
        asked = f"{words}: do appended zeros gain less over APE than relative positions do?"
        parts.append(Part(asked=asked, effect=str(effect), answer=effect.verdict("smaller")))
    parts += better(sweep, chosen, "APE + zeros", "APE")
    for at, words in CHECKPOINTS.items():
        on_shifted, uniform = (by_seed(sweep, chosen["APE + zeros"], metric, at) for metric in (SHIFTED, EXACT))
        effect = change(on_shifted, uniform)
        asked = f"{words}: is APE + zeros better on trained sums with zeros appended than on other sums as long?"
        parts.append(Part(asked=asked, effect=str(effect), answer=effect.verdict("larger")))
    return Claim(
        letter="F2a",
        says="Appended zeros help absolute positions, but less than relative positions do.",
        sweep=sweep,
        measured=f"{RIGHT} at test lengths {spans(sweep.test)}, seed by seed; `shifted`: sums of trained numbers with "
        "zeros appended up to that length",
        parts=parts,
        tables=[by_length(sweep, {"APE + zeros": chosen["APE + zeros"]}, SHIFTED)],
        shown=4,
    )


def digits(sweep: Sweep) -> Claim:
    """(F2) With appended zeros most errors are in the least significant digit."""
    (name,) = arms(sweep).values()
    numbers, length = digits_of(sweep)
    at_length = {
        (metric, at): by_seed(sweep, name, metric, at, (length,))
        for metric in (*(f"accuracy_digit_{k}" for k in numbers), EXACT, SHIFTED)
        for at in CHECKPOINTS
    }
    oftener, most, easier = [], [], []
    for at, words in CHECKPOINTS.items():
        wrong = [1 - at_length[f"accuracy_digit_{k}", at] for k in numbers]
        effect = change(wrong[0], sum(wrong[1:]) / len(wrong[1:]))
        asked = f"{words}: is the least significant digit wrong more often than the others are on average?"
        oftener.append(Part(asked=asked, effect=f"{effect} (share of sums)", answer=effect.verdict("larger")))
        effect = effect_of_seeds((wrong[0] / sum(wrong)).to_numpy())
        asked = f"{words}: are more than half of all wrong digits least significant ones?"
        most.append(Part(asked=asked, effect=plain(effect), answer=within(effect, least=0.5)))
        effect = change(at_length[SHIFTED, at], at_length[EXACT, at])
        asked = f"{words}: are trained sums with zeros appended right more often than other sums as long?"
        easier.append(Part(asked=asked, effect=str(effect), answer=effect.verdict("larger")))
    rows = []
    for metric in dict.fromkeys(metric for metric, _ in at_length):
        over_seeds = [at_length[metric, at] for at in CHECKPOINTS]
        cells = [number for values in over_seeds for number in (values.median(), values.min(), values.max())]
        rows.append((metric.replace("_", " "), *cells))
    head = ("metric", *(f"{what}, {at}" for at in CHECKPOINTS for what in ("median", "least", "greatest")))
    return Claim(
        letter="F2b",
        says="With appended zeros, most errors are in the least significant digit.",
        sweep=sweep,
        measured=f"accuracy of each digit of the answer at sums of {length} digits, units first, absolute positions "
        f"with appended zeros; trained on {spans(sweep.trained)} digits. `shifted`: sums of trained numbers with zeros "
        "appended up to that length",
        parts=[*oftener, *most, *easier],
        tables=[Table(title=f"sums of {length} digits, over seeds", head=head, rows=rows)],
        shown=4,
    )


def digits_of(sweep: Sweep) -> tuple[range, int]:
    """The digits that are measured, and the longest test length of which these are all digits."""
    most = int(sweep.resolved(next(iter(sweep.state.configurations)), "task.measured_digits"))
    length = max(s for s in sweep.test if s < most)
    return range(1, length + 2), length
