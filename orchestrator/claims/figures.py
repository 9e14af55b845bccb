"""Draw the figure of a claim: paired differences or ratios of its arms, against length or as a dot per seed."""

import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from orchestrator.claims.judgement import Judgement
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.claims.values import UNIT, ArmValues, by_seed, count_as_worst, divide, pair, subtract
from orchestrator.claims.words import label_axis
from orchestrator.figures.bands import consecutive_runs
from orchestrator.figures.drawing import PALETTE, frame_axes
from orchestrator.statistics.intervals import median
from orchestrator.text.redaction import remove_controls
from orchestrator.text.wording import NOT_REACHED
from search_spaces.grammar.claims import Claim

WIDE = 8  # the axis is logarithmic for at most WIDE lengths, if the last is at least WIDE times the first
COLOURS = 64  # of a PNG, which has a third of the bytes of a full-colour one
DRAWN = ("difference", "equivalence", "ratio", "bound")  # other questions are about shares of seeds or a search


def is_drawable(judgement: Judgement) -> bool:
    """Return whether a claim has a figure: its sweep was read, and its question compares values."""
    has_values = judgement.sweep is not None and judgement.arms is not None
    return has_values and judgement.claim.figure != "none" and judgement.claim.question in DRAWN


def draw_claim(judgement: Judgement) -> Figure:
    """Return the figure of a claim that `is_drawable`."""
    sweep, claim = judgement.sweep, judgement.claim
    assert sweep is not None and judgement.arms is not None, "only drawable claims are drawn"

    # Against length, or a dot per seed.
    arms = [judgement.arms[name] for name in claim.compare]
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.subplots()
    frame_axes(axes)
    by_length = claim.figure == "curves" and not any(
        claim.arms[name].minus or claim.arms[name].over for name in claim.compare
    )
    if by_length:
        count = _draw_lengths(axes, claim, sweep, arms)
        seeds = f"{count} seeds as measured and its 95 % interval, every seed thin"
    else:
        _draw_seeds(axes, judgement, arms)
        seeds = "seeds and its 95 % interval, every seed a dot"
    _draw_reference(axes, claim)

    # The title says what is shown.
    several = max(len(arm.config_ids) for arm in arms)
    pooled = f" in {several} configurations each" if several > 1 else ""
    joined = f" {'over' if claim.question == 'ratio' else 'minus'} ".join(claim.compare)
    statistic = "median" if by_length else claim.statistic or "median"
    title = f"{claim.id} ({sweep.name}): {joined}\n{statistic} over {seeds}{pooled}"
    axes.set_ylabel(label_axis(claim, claim.compare))
    figure.suptitle(remove_controls(title), fontsize=8)
    return figure


def write_small_png(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG with COLOURS colours."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(drawn) as image:
        small = image.convert("RGB").quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.save(path, optimize=True)


def _draw_lengths(axes: Axes, claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> int:
    """Draw the paired values against length, with trained lengths shaded; return the number of seeds."""
    tables = [_read_lengths(claim, sweep, arm) for arm in arms]

    # Pair the arms at common lengths.
    curves = tables[0]
    if len(tables) > 1:
        combine = divide if claim.question == "ratio" else subtract
        shared = [length for length in tables[0] if length in tables[1]]
        paired = [table.loc[tables[0].index.intersection(tables[1].index), shared] for table in tables]
        curves = pd.DataFrame({length: combine(paired[0][length], paired[1][length]) for length in shared})

    # A thin line for each seed, the median with its band.
    seeds = curves.groupby(level="seed").median()
    lengths = [int(length) for length in seeds.columns]
    axes.plot(lengths, seeds.T, color=PALETTE[0], linewidth=0.6, alpha=0.3)
    medians = [median(seeds[length].dropna()) for length in lengths]
    axes.fill_between(lengths, [m.low for m in medians], [m.high for m in medians], color=PALETTE[0], alpha=0.25, lw=0)
    axes.plot(lengths, [m.value for m in medians], color=PALETTE[0], linewidth=2)

    # Shade the trained and the selection lengths.
    trained, selection = sweep.groups["trained"], sweep.groups["selection"]
    inside = ", selection among them" if set(selection) <= set(trained) else ""
    for name, shaded, colour in (
        (f"trained{inside}", trained, "#E6E9ED"),
        ("selection", () if inside else selection, "#F4F1E4"),
    ):
        for first, last in consecutive_runs(shaded, sweep.groups["all"]):
            axes.axvspan(first - 0.5, last + 0.5, zorder=0, linewidth=0, label=name, facecolor=colour)
            name = ""  # only once in the legend
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if lengths[-1] >= WIDE * lengths[0] and len(lengths) <= WIDE:
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.set_xlabel("length")
    axes.legend(frameon=False, fontsize=8)
    return len(seeds)


def _read_lengths(claim: Claim, sweep: SweepCurves, arm: ArmValues) -> pd.DataFrame:
    """Return the metric of an arm at every measured length; rows as in `ArmValues.lengths`."""
    metrics = claim.arms[arm.name].metric or claim.metric
    lengths = sweep.resolve_lengths("all", metrics, arm.config_ids)
    rows = sweep.table(metrics, arm.average, claim.evaluation)[lengths]
    rows = rows[rows.index.get_level_values("config_id").isin(arm.config_ids)]
    names, seeds = (rows.index.get_level_values(level) for level in ("config_id", "seed"))
    contexts = [arm.contexts[str(name)] for name in names]
    return rows.set_axis(pd.MultiIndex.from_arrays([contexts, seeds], names=UNIT))


def _draw_seeds(axes: Axes, judgement: Judgement, arms: list[ArmValues]) -> None:
    """Draw the sorted paired values of seeds and their interval; infinite values as crosses at the top."""
    claim, answer = judgement.claim, judgement.own_answer or judgement.answer
    if not claim.metric[0].startswith("steps_to_"):
        arms = count_as_worst(arms)
    rows = arms[0].values
    if len(arms) > 1:
        rows = (divide if claim.question == "ratio" else subtract)(*pair(arms))
    values = np.sort(by_seed(rows))
    ranks, reached = np.arange(1, len(values) + 1), np.isfinite(values)
    if answer is not None and math.isfinite(answer.low) and math.isfinite(answer.high):
        axes.axhspan(answer.low, answer.high, color=PALETTE[0], alpha=0.2, linewidth=0)
        axes.axhline(answer.effect, color=PALETTE[0], linewidth=2)
    axes.plot(ranks[reached], values[reached], ".", color=PALETTE[0])
    axes.set_xlabel("seeds, in the order of their values")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not reached.all():
        highest = max(values[reached], default=1.0)
        axes.plot(ranks[~reached], np.full((~reached).sum(), 1.15 * highest), "x", color=PALETTE[0])
        axes.axhspan(1.07 * highest, 1.23 * highest, color="#EEEEEE", zorder=0, linewidth=0)
        axes.text(1, 1.15 * highest, NOT_REACHED, va="center", fontsize=8)


def _draw_reference(axes: Axes, claim: Claim) -> None:
    """Draw the reference of the values: 0 or 1, a bound, or the allowed range of an equivalence."""
    middle = 1.0 if claim.question == "ratio" else claim.around or 0.0
    middle = middle if claim.bound is None else claim.bound
    axes.axhline(middle, color="#555555", linewidth=0.9, linestyle="--")
    within = claim.within if claim.question == "equivalence" else claim.no_effect_bound
    if within is not None:
        axes.axhspan(middle - within, middle + within, color="#DDDDDD", alpha=0.5, zorder=0, linewidth=0)
