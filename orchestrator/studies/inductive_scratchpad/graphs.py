"""Random graphs (I5, Fig. 7 of arXiv:2406.06467): is reachability learned, or a shortcut that cycles betray?"""

import pandas as pd
from matplotlib.figure import Figure

from orchestrator.studies.claims import NOT_TESTABLE, Claim, Part, Table, plain, within
from orchestrator.studies.inductive_scratchpad.measures import EXACT
from orchestrator.studies.measures import Sweep, effect_of_seeds
from orchestrator.studies.pictures import COLOURS, panels_of

RANDOM_GRAPHS = "fig7_er_cpu"
CHANCE = 0.5  # half of all pairs have a way
NEAR = 0.1  # of chance, so far at most, is chance
KINDS = (EXACT, "connected", "unconnected")


def shortcut(sweep: Sweep) -> Claim:
    """(I5) Good in distribution, chance where only the way itself tells."""
    inside, outside = _right(sweep, EXACT), _right(sweep, f"{EXACT}.cycles")
    better, drop, on_cycles = (effect_of_seeds(of) for of in (inside - CHANCE, inside - outside, outside))
    learned = better.verdict("larger")
    chance, falls = within(on_cycles, CHANCE - NEAR, CHANCE + NEAR), drop.verdict("larger")
    if learned != "held":
        chance = falls = NOT_TESTABLE
    parts = [
        Part(asked="are more than half of the answers right in random graphs?", effect=str(better), answer=learned),
        Part(
            asked=f"is the share that is right in graphs of cycles within {NEAR:g} of chance, {CHANCE:g}?",
            effect=plain(on_cycles),
            answer=chance,
        ),
        Part(asked="are more right in random graphs than in graphs of cycles?", effect=str(drop), answer=falls),
    ]
    return Claim(
        letter="I5",
        says="On random graphs a shortcut is learned: right in distribution, chance on graphs of cycles.",
        sweep=sweep,
        measured="the share of answers that are right, the mean over the distances that are asked for; half of the "
        "pairs have no way. All seeds. The effect on random graphs is what is above one half",
        parts=parts,
        tables=[_table(sweep)],
        shown=2,
    )


def shortcut_figure(sweep: Sweep) -> Figure:
    """Shares of answers that are right, every seed a dot, the median a line."""
    figure, (axes,) = panels_of(1)
    metrics = _metrics(sweep)
    for place, (metric, colour) in enumerate(zip(metrics, [*COLOURS, *COLOURS], strict=False)):
        values = _right(sweep, metric)
        axes.plot([place] * len(values), values, ".", color=colour, alpha=0.5)
        axes.plot([place - 0.2, place + 0.2], [values.median()] * 2, color=colour, linewidth=2)
    axes.axhline(CHANCE, color="#888888", linewidth=0.8, linestyle="--")
    axes.set_xticks(range(len(metrics)), [_label(metric).replace(", ", "\n") for metric in metrics], fontsize=7)
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("share that is right")
    figure.suptitle(f"{sweep.name}: median, every seed a dot; dashed: chance", fontsize=9)
    return figure


def _metrics(sweep: Sweep) -> list[str]:
    """Those of random graphs, then those of cycles."""
    return [*KINDS, *(f"{kind}.cycles" for kind in KINDS)]


def _right(sweep: Sweep, metric: str) -> "pd.Series[float]":
    """By seed of the one configuration, a share at the last evaluation, the mean over the metric's lengths."""
    (name,) = sweep.state.configurations
    lengths = sweep.measured[name].metrics[metric].lengths
    return sweep.members(metric, "raw", lengths).set_index("seed")["value"]


def _table(sweep: Sweep) -> Table:
    rows = []
    for metric in _metrics(sweep):
        values = 100 * _right(sweep, metric)
        rows.append((_label(metric), len(values), float(values.median()), float(values.min()), float(values.max())))
    return Table(
        title="right in %, over all seeds", head=("questions", "seeds", "median", "least", "greatest"), rows=rows
    )


def _label(metric: str) -> str:
    base, _, other = metric.partition(".")
    kind = {EXACT: "all pairs", "connected": "with a way", "unconnected": "without one"}[base]
    return f"{other or 'random graphs'}, {kind}"
