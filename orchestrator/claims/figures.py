"""The figure of a claim: its arms against length, or a dot for each seed."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from orchestrator.claims.judgement import Judgement
from orchestrator.claims.members import Members
from orchestrator.claims.values import ArmValues, by_seed
from orchestrator.claims.words import axis_words
from orchestrator.figures.bands import consecutive_runs
from orchestrator.figures.drawing import PALETTE, frame_axes
from orchestrator.redaction import remove_controls
from orchestrator.wording import NOT_REACHED

WIDE = 8  # a logarithmic axis for at most this many lengths, if the last is at least this many times the first
COLOURS = 64  # of a PNG: a third of the bytes of one with all colours


def draw_claim(judgement: Judgement) -> Figure | None:
    """Return the figure of a claim, None if it has none or its sweep is missing."""
    members, claim = judgement.members, judgement.claim
    if members is None or judgement.arms is None or claim.figure == "none":
        return None
    arms = [judgement.arms[name] for name in claim.compare]
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.subplots()
    frame_axes(axes)
    by_length = claim.figure == "curves" and not any(
        claim.arms[name].minus or claim.arms[name].over for name in claim.compare
    )
    if by_length:
        _draw_curves(axes, judgement, members, arms)
    else:
        _draw_seeds(axes, judgement, arms)
    axes.set_ylabel(axis_words(claim, claim.compare))
    words = "every seed thin" if by_length else "every seed a dot"
    several = max(len(arm.config_ids) for arm in arms)
    pooled = f", each the median of {several} configurations" if several > 1 else ""
    title = remove_controls(f"{claim.id} ({members.name})\nmedian over seeds, {words}{pooled}")
    figure.suptitle(title, fontsize=9)
    return figure


def write_small_png(figure: Figure, path: Path) -> None:
    """Write a figure as a small PNG."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(drawn) as image:
        small = image.convert("RGB").quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.save(path, optimize=True)


def _draw_curves(axes: Axes, judgement: Judgement, members: Members, arms: Sequence[ArmValues]) -> None:
    """Draw the metric of each arm against length, with trained and selection lengths shaded."""
    claim, lengths = judgement.claim, []
    for arm, colour in zip(arms, PALETTE, strict=False):
        metrics = claim.arms[arm.name].metric or claim.metric
        lengths = members.resolve_lengths("all", metrics, arm.config_ids)
        table = members.table(metrics, arm.average, claim.evaluation)
        rows = table.loc[table.index.get_level_values("config_id").isin(arm.config_ids), lengths]
        curves = rows.groupby(level="seed").agg(np.median).T
        axes.plot(curves.index, curves, color=colour, linewidth=0.6, alpha=0.3)
        axes.plot(curves.index, curves.median(axis=1), color=colour, linewidth=2, label=arm.name)
    trained, selection = members.groups["trained"], members.groups["selection"]
    inside = ", selection among them" if set(selection) <= set(trained) else ""
    for name, shaded, colour in (
        (f"trained{inside}", trained, "#E6E9ED"),
        ("selection", () if inside else selection, "#F4F1E4"),
    ):
        for first, last in consecutive_runs(shaded, members.groups["all"]):
            axes.axvspan(first - 0.5, last + 0.5, zorder=0, linewidth=0, label=name, facecolor=colour)
            name = ""  # in the legend once
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if lengths[-1] >= WIDE * lengths[0] and len(lengths) <= WIDE:
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.set_xlabel("length")
    axes.legend(frameon=False, fontsize=8)


def _draw_seeds(axes: Axes, judgement: Judgement, arms: Sequence[ArmValues]) -> None:
    """Draw one column of dots for each arm, its median as a line, and infinite values as crosses above all else.

    A dashed line is the bound, or the threshold of success.
    """
    claim, success = judgement.claim, judgement.claim.success
    limit = claim.bound if success is None else success.least if success.least is not None else success.most
    if limit is not None and claim.question in ("share", "fisher", "bound"):
        axes.axhline(limit, color="#555555", linewidth=0.9, linestyle="--")
    columns = [by_seed(arm.values) for arm in arms]
    every = np.concatenate(columns)
    least_top = [] if success is None or limit is None else [limit]
    highest = max([*every[np.isfinite(every)], *least_top], default=1.0)
    top = 1.15 * highest
    for place, (values, colour) in enumerate(zip(columns, PALETTE, strict=False)):
        across = place + 0.5 * ((np.arange(len(values)) + 0.5) / max(len(values), 1) - 0.5)
        reached = np.isfinite(values)
        axes.plot(across[reached], values[reached], ".", color=colour, alpha=0.6)
        axes.plot(across[~reached], np.full((~reached).sum(), top), "x", color=colour)
        middle = float(np.median(values)) if len(values) else np.nan
        if np.isfinite(middle):
            axes.plot([place - 0.25, place + 0.25], [middle, middle], color=colour, linewidth=2)
    if not np.isfinite(every).all():
        axes.axhspan(1.07 * highest, 1.23 * highest, color="#EEEEEE", zorder=0, linewidth=0)
        axes.text(-0.68, top, NOT_REACHED, va="center", fontsize=8)
    axes.set_xticks(range(len(arms)), [arm.name for arm in arms])
    axes.set_xlim(-0.7, len(arms) - 0.3)
