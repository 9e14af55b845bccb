"""The figures of arithmetic: one for each claim."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.studies.arithmetic.carries import CASCADE, RUN, UNIFORM, kinds_of
from orchestrator.studies.arithmetic.claims import SHIFTED, digits_of
from orchestrator.studies.arithmetic.measures import EVALUATIONS, EXACT, arms, by_kind, by_seed
from orchestrator.studies.arithmetic.ring import SETTINGS, Ring, at_positions
from orchestrator.studies.measures import Sweep
from orchestrator.studies.pictures import COLOURS, bundle, panels_of, save_all, shade, shade_lengths
from orchestrator.wording import spans

SEEDS = "median over seeds, single seeds thin"


def draw_all(sweeps: Mapping[str, Sweep], folder: Path) -> dict[str, Path]:
    """Draw the figure of each claim into `folder`; its letter to its path."""
    by_length = {
        "control": "fig10_nocarry",
        "F1a": "fig2_addition",
        "F1b": "fig4_mul1",
        "F1c": "fig5_mul3",
        "F1d": "fig7a_text_addition",
        "F1e": "fig7b_text_multiplication",
    }
    drawings: dict[str, tuple[str, Callable[[], Figure]]] = {
        letter: (name, partial(encodings, sweeps[f"{name}_cpu"])) for letter, name in by_length.items()
    }
    drawings |= {
        "F2a": ("zeros", lambda: zeros(sweeps["fig2_addition_cpu"])),
        "F2b": ("digits", lambda: digits(sweeps["table1_augmented_cpu"])),
        "F3a": ("cascades", lambda: cascades(sweeps["fig8_complexity_cpu"])),
        "F3b": ("runs", lambda: runs(sweeps["fig8_complexity_cpu"])),
        "F3c": ("training_sums", lambda: training_sums(sweeps["fig8_complexity_cpu"])),
        "R1": ("ring", lambda: ring(sweeps["fig9_ring"])),
        "R5": ("ring_m5", lambda: ring(sweeps["fig15_ring_m5"])),
    }
    return save_all(drawings, folder, "arithmetic", colours=128)


def encodings(sweep: Sweep) -> Figure:
    """(F1) Exact match against length, an arm in each colour."""
    figure, panels = at_evaluations(sweep)
    for axes, at in zip(panels, EVALUATIONS, strict=True):
        for colour, (arm, name) in zip(COLOURS, arms(sweep).items(), strict=False):
            bundle(axes, sweep.curve(EXACT, sweep.objective.average, [name], at), colour, arm)
        shade_lengths(axes, sweep, "digits")
    return named(figure, panels, sweep, "exact match")


def zeros(sweep: Sweep) -> Figure:
    """(F2) What appended zeros do for trained sums that are shifted, and for all sums."""
    figure, panels = at_evaluations(sweep)
    chosen = arms(sweep)
    lines = {
        **{arm: (arm, EXACT) for arm in chosen},
        "APE + zeros, shifted trained sums": ("APE + zeros", SHIFTED),
    }
    for axes, at in zip(panels, EVALUATIONS, strict=True):
        for colour, (label, (arm, metric)) in zip(COLOURS, lines.items(), strict=False):
            style = "-" if metric == EXACT else "--"
            bundle(axes, sweep.curve(metric, sweep.objective.average, [chosen[arm]], at), colour, label, style)
        shade_lengths(axes, sweep, "digits")
    return named(figure, panels, sweep, "exact match")


def digits(sweep: Sweep) -> Figure:
    """(F2) Accuracy of each digit of the answer."""
    figure, panels = at_evaluations(sweep)
    numbers, length = digits_of(sweep)
    ((arm, name),) = arms(sweep).items()
    for axes, at in zip(panels, EVALUATIONS, strict=True):
        found = {k: by_seed(sweep, name, f"accuracy_digit_{k}", at, (length,)) for k in numbers}
        bundle(axes, pd.DataFrame(found).T, COLOURS[0], arm)
        axes.set_xlabel("digit of the answer, units first")
    return named(figure, panels, sweep, f"accuracy at {length} digits")


def cascades(sweep: Sweep) -> Figure:
    """(F3) Exact match against cascade length, a test length in each colour."""
    figure, panels = at_evaluations(sweep)
    for axes, at in zip(panels, EVALUATIONS, strict=True):
        for colour, length in zip(COLOURS, sweep.test, strict=False):
            numbers = [c for c in kinds_of(sweep, CASCADE) if c <= length]
            found = by_kind(sweep, arms(sweep)[UNIFORM], CASCADE, numbers, at, [length])
            bundle(axes, found, colour, f"{length} digits, {UNIFORM} training sums")
        axes.set_xlabel("cascade length")
    return named(figure, panels, sweep, "exact match")


def runs(sweep: Sweep) -> Figure:
    """(F3) Exact match against run of carries, beside cascade length."""
    figure, panels = at_evaluations(sweep)
    words = {RUN: "run of consecutive carries", CASCADE: "cascade length"}
    for axes, at in zip(panels, EVALUATIONS, strict=True):
        for colour, (stem, label) in zip(COLOURS, words.items(), strict=False):
            found = by_kind(sweep, arms(sweep)[UNIFORM], stem, kinds_of(sweep, stem), at, sweep.test)
            bundle(axes, found, colour, label)
        axes.set_xlabel("length of the chain of carries")
    return named(figure, panels, sweep, f"exact match at {spans(sweep.test)} digits")


def training_sums(sweep: Sweep) -> Figure:
    """(F3) Exact match against cascade length, a training distribution in each colour."""
    figure, panels = at_evaluations(sweep)
    for axes, at in zip(panels, EVALUATIONS, strict=True):
        for colour, (arm, name) in zip(COLOURS, arms(sweep).items(), strict=False):
            bundle(axes, by_kind(sweep, name, CASCADE, kinds_of(sweep, CASCADE), at, sweep.test), colour, arm)
        axes.axvspan(-0.5, max(sweep.trained) + 0.5, zorder=0, linewidth=0, facecolor="#E6E9ED")
        axes.set_xlabel("cascade length (shaded: possible in training)")
    return named(figure, panels, sweep, f"exact match at {spans(sweep.test)} digits")


def ring(sweep: Sweep) -> Figure:
    """Test loss against position, one panel for each weight decay."""
    here = Ring(sweep)
    figure, panels = panels_of(len(here.decays), sharey=True, height=3.2)
    for axes, decay in zip(panels, here.decays, strict=True):
        for colour, setting in zip(COLOURS, SETTINGS, strict=False):
            bundle(axes, at_positions(here, setting, decay), colour, setting)
        axes.axhline(here.limit, color="#555555", linewidth=0.9, linestyle="--", label="limit of APE")
        shade(axes, sweep.trained, facecolor="#E6E9ED")
        axes.set_xlabel("position (shaded: trained)")
        axes.set_title(here.in_words(decay).replace(" (", "\n("), fontsize=9)
    panels[0].set_ylabel("expected squared error")
    panels[-1].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: {SEEDS}", fontsize=10)
    return figure


def at_evaluations(sweep: Sweep) -> tuple[Figure, list[Axes]]:
    """A panel for each evaluation."""
    figure, panels = panels_of(len(EVALUATIONS), sharey=True)
    for axes, words in zip(panels, EVALUATIONS.values(), strict=True):
        axes.set_title(words, fontsize=9)
    return figure, panels


def named(figure: Figure, panels: list[Axes], sweep: Sweep, label: str) -> Figure:
    """The figure with the legend, the name of its sweep and the label of its values."""
    panels[0].set_ylim(-0.03, 1.03)
    panels[0].set_ylabel(label)
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: {SEEDS}", fontsize=10)
    return figure
