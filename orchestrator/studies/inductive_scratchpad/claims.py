"""The claims of arXiv:2406.06467 that fit on two cores, and what the ledgers say of them."""

from collections.abc import Sequence

from orchestrator.studies.claims import NOT_TESTABLE, Claim, Part, Table, span
from orchestrator.studies.inductive_scratchpad.graphs import RANDOM_GRAPHS, shortcut
from orchestrator.studies.inductive_scratchpad.measures import (
    EXACT,
    FULL,
    INDUCTIVE,
    LABEL,
    LEARNED,
    OFFSETS,
    SUM,
    arms,
    beyond,
    by_change,
    changes,
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
_OTHERS = {
    OFFSETS: "a full one whose positions are all trained (random offsets)",
    FULL: "a plain full one, whose later positions are untrained",
}
_SHARES = {EXACT: "more right", SUM: "the sum right more often", LABEL: "the label right more often"}


def all_claims(sweeps: dict[str, Sweep]) -> list[Claim]:
    """Every claim, in the order of the page."""
    return [
        cycles(sweeps[CYCLES]),
        longer_ways(sweeps["fig4_cycles_ood_cpu"]),
        parity(sweeps["fig5a_parity_cpu"]),
        addition(sweeps["fig5b_addition_shift_cpu"]),
        shortcut(sweeps[RANDOM_GRAPHS]),
        half_parity(sweeps[HALF_PARITY]),
        regularization(sweeps["regularization_cpu"]),
    ]


def longer_ways(sweep: Sweep) -> Claim:
    """(I3) Longer ways than were trained on, in graphs of as many edges."""
    of, longer = arms(sweep), beyond(sweep)
    return Claim(
        letter="I3",
        says="On cycles the inductive scratchpad generalizes to longer ways, a full one does not.",
        sweep=sweep,
        measured=f"{_MEASURED}. Trained: ways of {span(trained(sweep))} steps; tested: of {span(longer)}, in graphs "
        "of as many edges. Label: the share whose label and end mark are right, as in the paper; by chance it is half",
        parts=[_against(sweep, other, longer, metric) for metric in (EXACT, LABEL) for other in (OFFSETS, FULL)],
        tables=[_by_length(sweep, of, metric) for metric in (EXACT, LABEL)],
        shown=2,
    )


def parity(sweep: Sweep) -> Claim:
    """(I4) More bits than were trained on, with an inductive scratchpad."""
    of, longer = arms(sweep), beyond(sweep)
    half = tuple(n for n in longer if n <= 1.5 * max(sweep.trained))
    parts = [_against(sweep, OFFSETS, lengths) for lengths in (longer, half)]
    parts += [_against(sweep, FULL, longer)]
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


def addition(sweep: Sweep) -> Claim:
    """(I4) More digits than were trained on, by shifts, with an inductive scratchpad."""
    of, longer = arms(sweep), beyond(sweep)
    return Claim(
        letter="I4, addition",
        says="With the inductive scratchpad addition by shifts generalizes to more digits than were trained on.",
        sweep=sweep,
        measured="the share of test rows whose sum is right and whose end mark stands in its place, written by the "
        f"model itself. A seed that is right in less than {LEARNED:.0%} of the rows at some trained length has not "
        "learned the task: it is counted, and left out of comparisons. Trained: up to "
        f"{max(sweep.trained)} digits. In favour of the inductive scratchpad its first transition is trained like the "
        f"others; the authors' code hides it. Length {span(sweep.selection)} is the objective's and in no comparison",
        parts=[_against(sweep, OFFSETS, longer, SUM, judged=SUM)],
        tables=[_by_length(sweep, of, metric, judged=SUM) for metric in (SUM, "state_accuracy")],
    )


def regularization(sweep: Sweep) -> Claim:
    """(C.1.1) Dropout, weight decay and batch size, each changed alone."""
    of, longer = by_change(sweep), beyond(sweep)
    unchanged, first = next(iter(of.items()))
    where, parts = f"at length {span(longer)}, is less right", []
    for config_id, (before, now) in changes(sweep).items():
        asked = f"{where} with {now} than with {before}?"
        effect = difference(sweep, config_id, first, longer, judged=None)
        parts += [
            Part(asked=f"all seeds: {asked}", effect=str(effect), answer=effect.verdict("smaller")),
            _compared(sweep, (config_id, first), longer, EXACT, EXACT, f"seeds that learned: {asked}", "smaller"),
        ]
    return Claim(
        letter="C.1.1",
        says="Too much regularization harms length generalization, too little does too, and so do small batches.",
        sweep=sweep,
        measured=f"{_MEASURED}. Each configuration differs from the first ({unchanged}) in one value. All have equally "
        f"many steps, so small batches see fewer rows, too; and what is less right over all seeds may only be "
        f"learned more slowly. Length {span(sweep.selection)} is the objective's and in no comparison",
        parts=parts,
        tables=[_by_length(sweep, of, EXACT, head="configuration")],
        shown=len(parts),
    )


def _against(sweep: Sweep, other: str, lengths: Sequence[int], metric: str = EXACT, *, judged: str = EXACT) -> Part:
    """Inductive against another scratchpad at some lengths, over the seeds that learned by the metric `judged`."""
    of, shares = arms(sweep), _SHARES[metric]
    asked = f"at length {span(tuple(lengths))}, is {shares} with an inductive scratchpad than with {_OTHERS[other]}?"
    return _compared(sweep, (of[INDUCTIVE], of[other]), lengths, metric, judged, asked, "larger")


def _compared(
    sweep: Sweep,
    pair: tuple[str, str],
    lengths: Sequence[int],
    metric: str,
    judged: str,
    asked: str,
    better: str,
) -> Part:
    """One configuration against another over the seeds that learned with both, and how many did with each."""
    effect = difference(sweep, *pair, lengths, metric, judged)
    one, two = (learned(sweep, name, judged) for name in pair)
    said = f"seeds that learned: with it {len(one)}, with the other {len(two)}, with both {len(one & two)} of "
    said += f"{len(seeds(sweep, pair[0]))}"
    if not one & two:
        return Part(asked=asked, effect=said, answer=NOT_TESTABLE)
    return Part(asked=asked, effect=f"{effect}; {said}", answer=effect.verdict(better))


def _fields_of(sweep: Sweep) -> tuple[str, ...]:
    """The metrics of single parts of a state."""
    return tuple(name for name in sorted(sweep.curves["metric"].unique()) if name.startswith("field_"))


def _by_length(sweep: Sweep, of: dict[str, str], *metrics: str, judged: str = EXACT, head: str = "scratchpad") -> Table:
    """Median over all seeds, with the least and the greatest, by length; learned: by the metric `judged`."""
    rows = []
    for name, config_id in of.items():
        good = learned(sweep, config_id, judged)
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
        head=(head, "learned", *map(str, sweep.lengths)),
        rows=rows,
    )
