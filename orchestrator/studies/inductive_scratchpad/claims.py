"""The claims of arXiv:2406.06467 that fit on two cores, and what the ledgers say of them."""

from collections.abc import Sequence

from orchestrator.studies.claims import Claim, Part, Table, span
from orchestrator.studies.inductive_scratchpad.measures import (
    EXACT,
    FULL,
    INDUCTIVE,
    LEARNED,
    OFFSETS,
    arms,
    beyond,
    difference,
    learned,
    matches,
    seeds,
    trained,
)
from orchestrator.studies.inductive_scratchpad.speed import CYCLES, HALF_PARITY, cycles, half_parity
from orchestrator.studies.measures import Sweep

_MEASURED = (
    "the share of test rows whose whole output is right, every state and the end mark, written by the model itself. A "
    f"seed that is right in less than {LEARNED:.0%} of the rows at some trained length has not learned the task: it is "
    "counted, and left out of comparisons"
)


def all_claims(sweeps: dict[str, Sweep]) -> list[Claim]:
    """Every claim, in the order of the page."""
    return [cycles(sweeps[CYCLES]), parity(sweeps["fig5a_parity_cpu"]), half_parity(sweeps[HALF_PARITY])]


def parity(sweep: Sweep) -> Claim:
    """(I4) More bits than were trained on, with an inductive scratchpad."""
    of, longer = arms(sweep), beyond(sweep)
    half = tuple(n for n in longer if n <= 1.5 * max(sweep.trained))
    parts = [
        _against(sweep, OFFSETS, lengths, "a full one whose positions are all trained (random offsets)")
        for lengths in (longer, half)
    ]
    parts += [_against(sweep, FULL, longer, "a plain full one, whose later positions are untrained")]
    return Claim(
        letter="I4",
        says="With the inductive scratchpad parity generalizes to more bits than were trained on.",
        sweep=sweep,
        measured=f"{_MEASURED}. Trained: up to {max(sweep.trained)} bits on the canvas. Without a scratchpad the "
        "output is the answer alone, of which half is right by chance: no comparison is made with it. Length "
        f"{span(sweep.selection)} is the objective's and in no comparison",
        parts=parts,
        tables=[
            _by_length(sweep, of, EXACT),
            _by_length(sweep, {INDUCTIVE: of[INDUCTIVE]}, *_fields_of(sweep)),
        ],
        shown=2,
    )


def _against(sweep: Sweep, other: str, lengths: Sequence[int], words: str) -> Part:
    """Inductive against another scratchpad at some lengths."""
    of = arms(sweep)
    effect = difference(sweep, of[INDUCTIVE], of[other], lengths)
    one, two = (learned(sweep, of[name]) for name in (INDUCTIVE, other))
    said = f"seeds that learned: inductive {len(one)}, the other {len(two)}, both {len(one & two)} of "
    said += f"{len(seeds(sweep, of[INDUCTIVE]))}"
    return Part(
        asked=f"at length {span(tuple(lengths))}, is more right with an inductive scratchpad than with {words}?",
        effect=f"{effect}; {said}" if one & two else said,
        answer=effect.verdict("larger"),
    )


def _fields_of(sweep: Sweep) -> tuple[str, ...]:
    """The metrics of single parts of a state."""
    return tuple(name for name in sorted(sweep.curves["metric"].unique()) if name.startswith("field_"))


def _by_length(sweep: Sweep, of: dict[str, str], *metrics: str) -> Table:
    """Median over all seeds, with the least and the greatest, by length."""
    rows = []
    for name, config_id in of.items():
        good = learned(sweep, config_id)
        for metric in metrics:
            cells = []
            for length in sweep.lengths:
                values = 100 * matches(sweep, config_id, (length,), metric)["value"]
                cells.append(f"{values.median():.3g} ({values.min():.3g} to {values.max():.3g})")
            label = name if len(metrics) == 1 else f"{name}, {metric}"
            rows.append((label, f"{len(good)} of {len(seeds(sweep, config_id))}", *cells))
    what = metrics[0] if len(metrics) == 1 else "right with the true text before them"
    lengths = ", ".join(map(str, trained(sweep)))
    return Table(
        title=f"{what} in %, median over all seeds (least to greatest), by length; trained: {lengths}",
        head=("scratchpad", "learned", *map(str, sweep.lengths)),
        rows=rows,
    )
