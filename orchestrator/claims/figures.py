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

from orchestrator.claims.answers import choose_null
from orchestrator.claims.arm_values import (
    ArmValues,
    compute_seed_medians,
    divide_values,
    pair_arms,
    read_arm_table,
    replace_failed_by_worst,
    subtract_values,
)
from orchestrator.claims.claim_descriptions import label_axis
from orchestrator.claims.judgement import Judgement
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.figures.bands import find_consecutive_runs
from orchestrator.figures.drawing import BLUE, frame_axes
from orchestrator.statistics.intervals import estimate_median
from orchestrator.text.redaction import remove_controls
from orchestrator.text.wording import NOT_REACHED, format_ranges
from search_spaces.grammar.claims import Claim

# The axis of lengths is logarithmic if they are few and the last is many times the first.
MAX_LOG_LENGTHS = 8
MIN_LOG_RATIO = 8
COLORS = 64  # of a PNG; a full-color PNG has three times the bytes
DRAWN_QUESTIONS = ("difference", "equivalence", "ratio", "bound")  # others are about shares or searches


def is_drawable(judgement: Judgement) -> bool:
    """Return whether a claim can have a figure: its sweep was read, and its question compares values."""
    has_values = judgement.sweep is not None and judgement.arms is not None
    return has_values and judgement.claim.figure != "none" and judgement.claim.question in DRAWN_QUESTIONS


def draw_claim(judgement: Judgement) -> Figure:
    """Return the figure of a claim that `is_drawable`."""
    sweep, claim = judgement.sweep, judgement.claim
    assert sweep is not None and judgement.arms is not None, "only drawable claims are drawn"

    # Every figure has the same frame, in which curves or dots are drawn below.
    arms = [judgement.arms[name] for name in claim.compare]
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.subplots()
    frame_axes(axes)

    # The sweep has no curves of arms relative to other arms, so these get a dot per seed.
    is_by_length = claim.figure == "curves" and not any(
        claim.arms[name].minus or claim.arms[name].over for name in claim.compare
    )
    if is_by_length:
        count = _draw_lengths(axes, claim, sweep, arms)
        drawn = f"{count} seeds as measured, with its 95 % interval; every seed thin"
    else:
        _draw_seeds(axes, judgement, arms)
        drawn = "seeds, with its 95 % interval; every seed a dot"
    _draw_reference(axes, claim)

    # The title is the comparison with the side that the claim expects; the file is named after the claim.
    arm_names = f" {'over' if claim.question == 'ratio' else 'minus'} ".join(claim.compare)
    side = {"smaller": "below", "larger": "above"}.get(claim.expect or "")
    claimed = f" (claimed: {side} {choose_null(claim):g})" if side else ""
    configurations = max(len(arm.config_ids) for arm in arms)
    pooled = f" in {configurations} configurations each" if configurations > 1 else ""
    statistic = "median" if is_by_length else claim.statistic or "median"
    figure.suptitle(remove_controls(f"{arm_names}{claimed}"), fontsize=11)
    axes.set_title(f"{statistic} over {drawn}{pooled}", fontsize=8)
    relation = "ratio of " if claim.question == "ratio" else "difference in " if len(arms) > 1 else ""
    axes.set_ylabel(f"{relation}{label_axis(claim, claim.compare)}")
    return figure


def write_small_png(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG with COLORS colors."""
    full_color = io.BytesIO()
    figure.savefig(full_color, format="png", dpi=110, metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(full_color) as image:
        quantized = image.convert("RGB").quantize(COLORS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        quantized.save(path, optimize=True)


def _draw_lengths(axes: Axes, claim: Claim, sweep: SweepCurves, arms: list[ArmValues]) -> int:
    """Draw the paired values against length, with trained lengths shaded; return the number of seeds."""
    tables = [_read_lengths(claim, sweep, arm) for arm in arms]

    # Two arms may be measured at different lengths; only common ones have pairs.
    curves = tables[0]
    if len(tables) > 1:
        relate = divide_values if claim.question == "ratio" else subtract_values
        shared_lengths = [length for length in tables[0] if length in tables[1]]
        paired = [table.loc[tables[0].index.intersection(tables[1].index), shared_lengths] for table in tables]
        curves = pd.DataFrame({length: relate(paired[0][length], paired[1][length]) for length in shared_lengths})

    # Thin lines of the seeds show what the median hides.
    seed_curves = curves.groupby(level="seed").median()
    lengths = [int(length) for length in seed_curves.columns]
    axes.plot(lengths, seed_curves.T, color=BLUE, linewidth=0.6, alpha=0.3)
    medians = [estimate_median(seed_curves[length].dropna()) for length in lengths]
    axes.fill_between(lengths, [m.low for m in medians], [m.high for m in medians], color=BLUE, alpha=0.25, lw=0)
    axes.plot(lengths, [m.value for m in medians], color=BLUE, linewidth=2)

    # Shade the trained and the selection lengths; selection lengths among the trained ones have no own color.
    trained, selection = sweep.groups["trained"], sweep.groups["selection"]
    these = "these" if set(selection) == set(trained) else format_ranges(selection)
    note = f" (ranked by {these})" if set(selection) <= set(trained) else ""
    for label, shaded_lengths, color in (
        (f"trained{note}", trained, "#E6E9ED"),
        ("selection", () if note else selection, "#F4F1E4"),
    ):
        for first, last in find_consecutive_runs(shaded_lengths, sweep.groups["all"]):
            axes.axvspan(first - 0.5, last + 0.5, zorder=0, linewidth=0, label=label, facecolor=color)
            label = ""  # once in the legend

    # Lengths that double are spaced evenly on a logarithmic axis.
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if lengths[-1] >= MIN_LOG_RATIO * lengths[0] and len(lengths) <= MAX_LOG_LENGTHS:
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.set_xlabel("length")
    legend = axes.legend(frameon=False, fontsize=8)
    for patch in legend.get_patches():  # a shaded range may lie behind the legend
        patch.set(edgecolor="#6B7480", linewidth=0.7)
    return len(seed_curves)


def _read_lengths(claim: Claim, sweep: SweepCurves, arm: ArmValues) -> pd.DataFrame:
    """Return the metric of an arm at every measured length; rows as in `ArmValues.lengths`."""
    metrics = claim.arms[arm.name].metric or claim.metric
    return read_arm_table(sweep, arm.contexts, metrics, arm.average, "all", claim.evaluation)


def _draw_seeds(axes: Axes, judgement: Judgement, arms: list[ArmValues]) -> None:
    """Draw the sorted paired values of seeds and their interval; infinite values as crosses above or below."""
    # The arms have the seeds of this test alone, so the interval must not pool seeds of earlier tests.
    claim = judgement.claim
    answer = judgement.unpooled_answer or judgement.answer
    if not claim.metric[0].startswith("steps_to_"):
        arms = replace_failed_by_worst(arms)
    rows = arms[0].values
    if len(arms) > 1:
        rows = (divide_values if claim.question == "ratio" else subtract_values)(*pair_arms(arms))
    values = np.sort(compute_seed_medians(rows))

    # Draw every seed by rank, in front of the interval of the effect.
    ranks = np.arange(1, len(values) + 1)
    is_finite = np.isfinite(values)
    if answer is not None and math.isfinite(answer.low) and math.isfinite(answer.high):
        axes.axhspan(answer.low, answer.high, color=BLUE, alpha=0.2, linewidth=0)
        axes.axhline(answer.effect, color=BLUE, linewidth=2)
    axes.plot(ranks[is_finite], values[is_finite], ".", color=BLUE)
    axes.set_xlabel("seeds, in the order of their values")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    # Draw infinite values, such as of seeds that never reached a threshold, beyond the finite ones.
    scale = max(abs(values[is_finite]), default=1.0) or 1.0
    for sign, choose_end in ((1, max), (-1, min)):
        is_beyond = values == sign * math.inf
        if is_beyond.any():
            end = choose_end(values[is_finite], default=sign)
            near, center, far = (end + sign * share * scale for share in (0.07, 0.15, 0.23))
            axes.plot(ranks[is_beyond], np.full(is_beyond.sum(), center), "x", color=BLUE)
            axes.axhspan(near, far, color="#EEEEEE", zorder=0, linewidth=0)
            axes.text(1, center, NOT_REACHED, va="center", fontsize=8)


def _draw_reference(axes: Axes, claim: Claim) -> None:
    """Draw the reference of the values: 0 or 1, a bound, or the allowed range of an equivalence."""
    center = choose_null(claim)
    axes.axhline(center, color="#555555", linewidth=0.9, linestyle="--")

    # Values in the band count as equal.
    within = claim.within if claim.question == "equivalence" else claim.no_effect_bound
    if within is not None:
        axes.axhspan(center - within, center + within, color="#DDDDDD", alpha=0.5, zorder=0, linewidth=0)
