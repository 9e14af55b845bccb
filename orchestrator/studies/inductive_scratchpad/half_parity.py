"""Half-parity (I7, Fig. 10 of arXiv:2406.06467): is it learned with a scratchpad, and in how many steps?"""

from orchestrator.studies.claims import Claim, Part, plain, within
from orchestrator.studies.inductive_scratchpad.measures import FULL, NONE
from orchestrator.studies.inductive_scratchpad.steps import (
    SOLVED,
    Arm,
    arms_by_size,
    ratio,
    reached,
    steps,
    steps_table,
    told,
)
from orchestrator.studies.measures import Sweep, share

HALF_PARITY = "fig10_half_parity_cpu"


def half_parity(sweep: Sweep) -> Claim:
    """(I7) Learnable with all prefix parities before the answer; steps grow mildly."""
    arms = arms_by_size(sweep)
    one, other = ({arm.size: arm for arm in arms if arm.kind == kind} for kind in (FULL, NONE))
    small, large = one[min(one)], one[max(one)]
    times = large.size / small.size
    grown = ratio(sweep, steps(sweep, large), steps(sweep, small))
    learnable = share(*reached(sweep, large))
    asked = f"from n = {small.size} to {large.size}, do the steps grow by less than"
    parts = [
        Part(
            asked=f"do most seeds solve n = {large.size} with the scratchpad?",
            effect=f"{told(reached(sweep, large))} seeds; share {plain(learnable)}",
            answer=within(learnable, least=0.5),
        ),
        Part(asked=f"{asked} the square of n, {times**2:g} times?", effect=str(grown), answer=grown.below(times**2)),
        Part(asked=f"{asked} n, {times:g} times?", effect=str(grown), answer=grown.below(times)),
        *(_sooner(sweep, one[size], other[size]) for size in sorted(one.keys() & other.keys())),
    ]
    return Claim(
        letter="I7",
        says="Half-parity is learned with a scratchpad of prefix parities, and the steps grow mildly with n.",
        sweep=sweep,
        measured=f"{SOLVED}. What mildly means is ours: less than the square of n. n bits count, of 2 n",
        parts=parts,
        tables=[steps_table(sweep)],
        shown=2,
    )


def _sooner(sweep: Sweep, with_it: Arm, without: Arm) -> Part:
    """Fewer steps with the scratchpad than without, at one size."""
    found = ratio(sweep, steps(sweep, with_it), steps(sweep, without))
    return Part(
        asked=f"n = {with_it.size}: are there fewer steps with the scratchpad than without one?",
        effect=f"{found}; got there: with {told(reached(sweep, with_it))}, without {told(reached(sweep, without))}",
        answer=found.below(1),
    )
