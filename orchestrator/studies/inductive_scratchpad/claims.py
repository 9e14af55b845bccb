"""The claims of arXiv:2406.06467 that fit on two cores, and what the ledgers say of them."""

from collections.abc import Sequence

from orchestrator.studies.claims import Claim, Part, Table, plain, span, within
from orchestrator.studies.inductive_scratchpad.graphs import RANDOM_GRAPHS, shortcut
from orchestrator.studies.inductive_scratchpad.measures import (
    EXACT,
    FULL,
    INDUCTIVE,
    LABEL,
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
from orchestrator.studies.measures import Sweep, effect_of_seeds

_MEASURED = (
    "the share of test rows whose whole output is right, every state and the end mark, written by the model itself. A "
    f"seed that is right in less than {LEARNED:.0%} of the rows at some trained length has not learned the task: it is "
    "counted, and left out of comparisons"
)
_SHIFTED = "a full one whose positions are all trained (random offsets)"
_PLAIN = "a plain full one, whose later positions are untrained"
_SHARES = {EXACT: "more right", LABEL: "the label right more often"}


def all_claims(sweeps: dict[str, Sweep]) -> list[Claim]:
    """Every claim, in the order of the page."""
    parity_sweep, cycles_sweep = sweeps["fig5a_parity_cpu"], sweeps[CYCLES]
    return [
        cycles(cycles_sweep),
        longer_ways(cycles_sweep),
        parity(parity_sweep),
        shortcut(sweeps[RANDOM_GRAPHS]),
        half_parity(sweeps[HALF_PARITY]),
    ]


def parity(sweep: Sweep) -> Claim:
    """(I4) More bits than were trained on, with an inductive scratchpad."""
    of, longer = arms(sweep), beyond(sweep)
    half = tuple(n for n in longer if n <= 1.5 * max(sweep.trained))
    parts = [_against(sweep, OFFSETS, lengths, _SHIFTED) for lengths in (longer, half)]
    parts += [_against(sweep, FULL, longer, _PLAIN)]
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


def longer_ways(sweep: Sweep) -> Claim:
    """(I3) More steps than were trained on, in graphs of as many edges."""
    of, longer = arms(sweep), beyond(sweep)
    parts = [
        *(_against(sweep, OFFSETS, longer, _SHIFTED, metric) for metric in (EXACT, LABEL)),
        *(_against(sweep, FULL, longer, _PLAIN, metric) for metric in (EXACT, LABEL)),
        _right(sweep, INDUCTIVE, longer, "at least 90", least=0.9),
        *(_right(sweep, kind, longer, "at most 10", most=0.1) for kind in (FULL, OFFSETS)),
    ]
    return Claim(
        letter="I3",
        says="On cycles the inductive scratchpad generalizes to more steps, and that of a depth-first search does not.",
        sweep=sweep,
        measured=f"{_MEASURED}. Trained: ways of {span(trained(sweep))} steps; tested: of {span(longer)}, in graphs "
        "of as many edges. Label: the share whose label and end mark are right, as in the paper; by chance it is half",
        parts=parts,
        tables=[_by_length(sweep, of, EXACT), _by_length(sweep, of, LABEL)],
        shown=3,
    )


def _against(sweep: Sweep, other: str, lengths: Sequence[int], words: str, metric: str = EXACT) -> Part:
    """Inductive against another scratchpad at some lengths."""
    of = arms(sweep)
    effect = difference(sweep, of[INDUCTIVE], of[other], lengths, metric)
    one, two = (learned(sweep, of[name]) for name in (INDUCTIVE, other))
    said = f"seeds that learned: inductive {len(one)}, the other {len(two)}, both {len(one & two)} of "
    said += f"{len(seeds(sweep, of[INDUCTIVE]))}"
    return Part(
        asked=f"at length {span(tuple(lengths))}, is {_SHARES[metric]} with an inductive scratchpad than with {words}?",
        effect=f"{effect}; {said}" if one & two else said,
        answer=effect.verdict("larger"),
    )


def _right(
    sweep: Sweep, kind: str, lengths: Sequence[int], words: str, *, least: float = 0.0, most: float = 1.0
) -> Part:
    """Whether the share that is right at some lengths lies between two values, over the seeds that learned."""
    of = arms(sweep)[kind]
    good, rows = learned(sweep, of), matches(sweep, of, lengths)
    effect = effect_of_seeds(rows.loc[rows["seed"].isin(good), "value"])
    said = f"{len(good)} of {len(seeds(sweep, of))} seeds learned"
    return Part(
        asked=f"at length {span(tuple(lengths))}, are {words} % right with the scratchpad ({kind})?",
        effect=f"{plain(effect)}; {said}" if good else said,
        answer=within(effect, least, most),
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
