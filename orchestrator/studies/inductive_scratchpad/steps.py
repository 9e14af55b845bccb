"""Steps until a task is solved, against its size: the ratio of two such numbers, seed by seed, and how they are shown.

A seed that was solved at one evaluation and not at the one before was so somewhere between them; one that never was
needs more steps than were trained, and nothing else is known. So a ratio has a least and a greatest value that it can
have, and an interval of ratios reaches from the least to the greatest ones.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orchestrator.statistics.intervals import median
from orchestrator.studies.claims import Table
from orchestrator.studies.inductive_scratchpad.measures import EXACT, matches, scratchpad, seeds
from orchestrator.studies.measures import Sweep
from orchestrator.studies.pictures import COLOURS, panels_of

STEPS = f"steps_to_{EXACT}"
SOLVED = (
    "steps until the first evaluation at which 95 % of the test rows are right as a whole, in distribution. A ratio of "
    "steps is taken seed by seed. Its interval allows for the steps between evaluations; of a seed that never got "
    "there it is known that it needs more steps than were trained, and no more than that"
)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A configuration: its scratchpad, the size of its task, and its name in the sweep."""

    kind: str
    size: int
    config_id: str


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The median ratio of steps over `n` seeds, between `least` and `most`, and its 95 % interval; NaN: there is none.

    least and most differ where steps are not known exactly.
    """

    least: float
    most: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        interval = "no interval" if math.isnan(self.low) else f"[{self.low:.3g}, {self.high:.3g}]"
        return f"ratio {_between(self.least, self.most)} {interval}, n = {self.n} seeds"

    def below(self, bound: float) -> str:
        """Whether the ratio is below a bound: held, did not hold, or not decided where the interval has it inside."""
        if self.high < bound:
            return "held"
        return "did not hold" if self.low > bound else "not decided"


def arms_by_size(sweep: Sweep) -> list[Arm]:
    """The configurations with their scratchpads and sizes, in the order of the sweep."""
    return [
        Arm(kind=scratchpad(sweep, name), size=sweep.resolved(name, "task.size"), config_id=name)
        for name in sweep.state.configurations
    ]


def steps(sweep: Sweep, arm: Arm) -> "pd.Series[float]":
    """By seed, the steps until the size of an arm is solved; infinite where it never was, NaN where a seed failed."""
    trained = sweep.measured[arm.config_id].metrics[STEPS].trained_lengths
    return matches(sweep, arm.config_id, trained, STEPS).set_index("seed")["value"]


def ratio(sweep: Sweep, first: "pd.Series[float]", second: "pd.Series[float]") -> Ratio:
    """Steps of `first` by those of `second`, over the seeds that both have and that did not fail."""
    both = pd.concat([first, second], axis=1, join="inner").dropna().to_numpy(dtype=np.float64)
    (low_1, high_1), (low_2, high_2) = (_bounds(sweep, both[:, place]) for place in (0, 1))
    with np.errstate(divide="ignore"):
        least, most = low_1 / high_2, high_1 / low_2
    lows, highs = median(least), median(most)
    values = [math.nan if one.value is None else one.value for one in (lows, highs)]
    return Ratio(least=values[0], most=values[1], low=lows.ends[0], high=highs.ends[1], n=len(both))


def _bounds(sweep: Sweep, of_seeds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The fewest and the most steps that seeds may have needed."""
    never = np.isinf(of_seeds)
    return np.where(never, sweep.steps, of_seeds - _every(sweep)), of_seeds


def _every(sweep: Sweep) -> int:
    """Steps from one evaluation to the next."""
    every: int = sweep.state.spec["evaluation"]["every"]
    return every


def _between(least: float, most: float) -> str:
    if math.isinf(most):
        return f"above {least:.3g}" if least else "unknown"
    return f"below {most:.3g}" if not least else f"{least:.3g} to {most:.3g}"


def reached(sweep: Sweep, arm: Arm) -> tuple[int, int]:
    """How many seeds solved the size of an arm, and how many ran."""
    return int(np.isfinite(steps(sweep, arm)).sum()), len(seeds(sweep, arm.config_id))


def told(counts: tuple[int, int]) -> str:
    """(5, 6) is `5 of 6`."""
    return f"{counts[0]} of {counts[1]}"


def steps_table(sweep: Sweep) -> Table:
    """Steps of every arm: the median over all seeds, the least and the greatest, and how many got there."""
    rows = []
    for arm in arms_by_size(sweep):
        values = steps(sweep, arm)
        cells = [_steps(values.median()), _steps(values.min()), _steps(values.max())]
        rows.append((arm.kind, arm.size, told(reached(sweep, arm)), *cells))
    return Table(
        title=f"steps until 95 % are right, over all seeds, evaluated every {_every(sweep)} and up to {sweep.steps:,}",
        head=("scratchpad", "n", "got there", "median", "least", "greatest"),
        rows=rows,
    )


def _steps(value: float) -> str:
    return "not reached" if math.isinf(value) else f"{value:,.0f}"


def steps_figure(sweep: Sweep) -> Figure:
    """Steps against size: the median over seeds, every seed a dot; a cross at the top for each that never got there."""
    figure, (axes,) = panels_of(1)
    arms, top = arms_by_size(sweep), 1.3 * sweep.steps
    sizes, kinds = sorted({arm.size for arm in arms}), list(dict.fromkeys(arm.kind for arm in arms))
    for place, (colour, kind) in enumerate(zip(COLOURS, kinds, strict=False)):
        mine = sorted((arm for arm in arms if arm.kind == kind), key=lambda arm: arm.size)
        middles = [sizes.index(arm.size) + 0.3 * (place - (len(kinds) - 1) / 2) for arm in mine]
        medians = [steps(sweep, arm).median() for arm in mine]
        shown = [value if math.isfinite(value) else math.nan for value in medians]
        axes.plot(middles, shown, "o-", color=colour, linewidth=2, label=kind)
        for middle, arm in zip(middles, mine, strict=True):
            values = steps(sweep, arm).to_numpy()
            across = middle + 0.03 * (np.arange(len(values)) - (len(values) - 1) / 2)
            never = np.isinf(values)
            axes.plot(across[~never], values[~never], ".", color=colour, markersize=5, alpha=0.5)
            axes.plot(across[never], np.full(never.sum(), top), "x", color=colour, markersize=5)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.yaxis.set_minor_formatter(lambda y, _: f"{y:g}")
    axes.tick_params(axis="y", which="both", labelsize=7)
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_xlabel("n")
    axes.set_ylabel("steps until 95 % are right")
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: median, every seed a dot\n×: not reached", fontsize=9)
    return figure
