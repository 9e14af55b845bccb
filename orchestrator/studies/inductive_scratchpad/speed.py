"""How many steps it takes with a scratchpad: half-parity (I7) and cycles (I2), Figs. 10 and 4 of arXiv:2406.06467."""

from orchestrator.studies.claims import Claim, Part, plain, within
from orchestrator.studies.inductive_scratchpad.measures import FULL, INDUCTIVE, NONE
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

HALF_PARITY, CYCLES = "fig10_half_parity_cpu", "fig4_cycles_scratchpad_cpu"


def half_parity(sweep: Sweep) -> Claim:
    """(I7) Learnable with all prefix parities before the answer; steps grow mildly."""
    small, *_, large = _by_size(sweep, FULL)
    times = large.size / small.size
    parts = [
        _solved(sweep, large),
        _grown(sweep, small, large, times**2, "the square of n"),
        _grown(sweep, small, large, times, "n"),
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


def cycles(sweep: Sweep) -> Claim:
    """(I2) Learned with either scratchpad, and sooner than without."""
    kinds = (FULL, INDUCTIVE)
    solved = [_solved(sweep, arm) for kind in kinds for arm in _by_size(sweep, kind)]
    return Claim(
        letter="I2",
        says="With a full or an inductive scratchpad the cycle task is learned easily.",
        sweep=sweep,
        measured=f"{SOLVED}. The graph is one cycle of 2 n nodes or two of n, and there are as many names as "
        "nodes. A training row shows the whole way of a full scratchpad, and one step of an inductive one",
        parts=[*(_sooner(sweep, kind) for kind in kinds), *solved],
        tables=[steps_table(sweep)],
        shown=2,
    )


def _by_size(sweep: Sweep, kind: str) -> list[Arm]:
    """The arms with a scratchpad, the smallest first."""
    return sorted((arm for arm in arms_by_size(sweep) if arm.kind == kind), key=lambda arm: arm.size)


def _solved(sweep: Sweep, arm: Arm) -> Part:
    """Whether most seeds get there."""
    counts = reached(sweep, arm)
    found = share(*counts)
    return Part(
        asked=f"n = {arm.size}: do most seeds get there with the scratchpad ({arm.kind})?",
        effect=f"{told(counts)} seeds; share {plain(found)}",
        answer=within(found, least=0.5),
    )


def _grown(sweep: Sweep, small: Arm, large: Arm, times: float, words: str) -> Part:
    """Whether the steps grow by less than so many times from one size to another."""
    found = ratio(sweep, steps(sweep, large), steps(sweep, small))
    return Part(
        asked=f"from n = {small.size} to {large.size}, do the steps grow by less than {words}, {times:g} times?",
        effect=str(found),
        answer=found.below(times),
    )


def _sooner(sweep: Sweep, kind: str) -> Part:
    """Whether there are fewer steps with a scratchpad than without."""
    (arm,), (other,) = _by_size(sweep, kind), _by_size(sweep, NONE)
    found = ratio(sweep, steps(sweep, arm), steps(sweep, other))
    got = f"got there: with {told(reached(sweep, arm))}, without {told(reached(sweep, other))}"
    return Part(
        asked=f"n = {arm.size}: are there fewer steps with the scratchpad ({kind}) than without one?",
        effect=f"{found}; {got}",
        answer=found.below(1),
    )
