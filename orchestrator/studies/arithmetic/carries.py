"""(F3) Claims about carries: which sums of one length are hard, and which training sums help with them."""

from collections.abc import Mapping, Sequence

from orchestrator.studies.arithmetic.measures import (
    EVALUATIONS,
    Values,
    arms,
    at_both,
    by_kind,
    change,
    over_kinds,
    possible,
    smaller,
    trained,
)
from orchestrator.studies.claims import Claim, Part, Table, within
from orchestrator.studies.measures import Sweep, effect_of_seeds
from orchestrator.wording import spans

CASCADE, RUN = "exact_match_cascade", "exact_match_run"
MEASURED = {CASCADE: "task.measured_cascades", RUN: "task.measured_runs"}
SHORT, LONG = 1, 3  # at most, and at least
FLAT = 0.1  # a change in exact match that still counts as nearly none; chosen here
UNIFORM = "uniform"


def cascades(sweep: Sweep) -> Claim:
    """Accuracy falls with cascade length."""
    chosen, numbers = arms(sweep), kinds_of(sweep, CASCADE)

    def lower(arm: str) -> Part:
        return at_both(
            f"with {arm} training sums, is exact match lower with cascades of {LONG} and more than of 0 and {SHORT}?",
            lambda at: effect_of_seeds(rise(sweep, chosen[arm], CASCADE, at, numbers)),
            smaller,
        )

    return Claim(
        letter="F3a",
        says="Accuracy falls with the length of carry cascades.",
        sweep=sweep,
        measured=measured(sweep),
        parts=[lower(arm) for arm in chosen],
        tables=[table(sweep, {UNIFORM: chosen[UNIFORM]}, CASCADE, [s]) for s in sweep.test],
    )


def runs(sweep: Sweep) -> Claim:
    """Accuracy hardly changes with runs of carries."""
    chosen = arms(sweep)
    both = [n for n in kinds_of(sweep, RUN) if n in kinds_of(sweep, CASCADE)]
    less = at_both(
        f"does exact match fall less from runs of {both[0]} to {LONG} and more than with cascades as long?",
        lambda at: change(*(rise(sweep, chosen[UNIFORM], stem, at, both) for stem in (RUN, CASCADE))),
    )
    flat = at_both(
        f"does exact match change by less than {FLAT} from runs of {both[0]} to {LONG} and more?",
        lambda at: effect_of_seeds(rise(sweep, chosen[UNIFORM], RUN, at, kinds_of(sweep, RUN))),
        lambda effect: within(effect, -FLAT, FLAT),
    )
    return Claim(
        letter="F3b",
        says="Accuracy is nearly flat in the number of consecutive carries.",
        sweep=sweep,
        measured=f"{measured(sweep)}; uniform training sums. What counts as nearly flat was chosen here",
        parts=[less, flat],
        tables=[table(sweep, chosen, RUN, sweep.test)],
        shown=2,
    )


def training_sums(sweep: Sweep) -> Claim:
    """Training on hard short sums helps with hard long ones."""
    chosen, longest = arms(sweep), max(sweep.trained)
    numbers = kinds_of(sweep, CASCADE)
    groups = {
        f"of {longest + 1} and more (longer than trained)": [c for c in numbers if c > longest],
        f"of {LONG} to {longest}": [c for c in numbers if LONG <= c <= longest],
    }

    def help_with(kind: str, arm: str) -> Part:
        return at_both(
            f"are {arm} training sums better than uniform ones on cascades {kind}?",
            lambda at: change(*(over_kinds(sweep, chosen[one], CASCADE, groups[kind], at) for one in (arm, UNIFORM))),
        )

    return Claim(
        letter="F3c",
        says="Training on more short sums with long cascades improves long sums with long cascades.",
        sweep=sweep,
        measured=f"{measured(sweep)}. Training sums: uniform, uniform over cascade lengths (complexity), or half each "
        "(mixed)",
        parts=[help_with(kind, arm) for kind in groups for arm in ("mixed", "complexity")],
        tables=[table(sweep, chosen, CASCADE, sweep.test)],
        shown=4,
    )


def measured(sweep: Sweep) -> str:
    """What these claims measure."""
    return (
        f"exact match on sums of {spans(sweep.test)} digits with a prescribed cascade length or run of carries, the "
        f"mean over lengths; {trained(sweep)}, relative positions"
    )


def kinds_of(sweep: Sweep, stem: str) -> list[int]:
    """The cascade lengths, or runs, that are measured and that some test length can have."""
    found = sweep.resolved(next(iter(sweep.state.configurations)), MEASURED[stem])
    return [n for n in found if possible(sweep, n)]


def rise(sweep: Sweep, name: str, stem: str, at: str, numbers: Sequence[int]) -> Values:
    """Of these numbers, accuracy at LONG and above minus that at SHORT and below, by seed."""
    groups = [n for n in numbers if n >= LONG], [n for n in numbers if n <= SHORT]
    long, short = (over_kinds(sweep, name, stem, group, at) for group in groups)
    return long - short


def table(sweep: Sweep, chosen: Mapping[str, str], stem: str, lengths: Sequence[int]) -> Table:
    """Medians over seeds of each training distribution by cascade length or run."""
    numbers = [n for n in kinds_of(sweep, stem) if n <= max(lengths)]
    rows = [
        (arm, words, *by_kind(sweep, name, stem, numbers, at, lengths).median(axis=1))
        for arm, name in chosen.items()
        for at, words in EVALUATIONS.items()
    ]
    what = "cascade length" if stem == CASCADE else "run of consecutive carries"
    title = f"exact match by {what} of sums of {spans(lengths)} digits, median over seeds"
    return Table(title=title, head=("training sums", "evaluation", *map(str, numbers)), rows=rows)
