"""The figures of the inductive scratchpad: every seed drawn (Figs. 4, 5, 7 and 10 of the paper)."""

from pathlib import Path

from matplotlib.figure import Figure

from orchestrator.studies.inductive_scratchpad.graphs import RANDOM_GRAPHS, shortcut_figure
from orchestrator.studies.inductive_scratchpad.measures import EXACT, LABEL, SUM, arms, by_change
from orchestrator.studies.inductive_scratchpad.speed import CYCLES, HALF_PARITY
from orchestrator.studies.inductive_scratchpad.steps import steps_figure
from orchestrator.studies.measures import Sweep
from orchestrator.studies.pictures import COLOURS, bundle, panels_of, save_all, shade

_TITLES = {
    EXACT: "rows whose whole output is right",
    "state_accuracy": "states right behind true ones",
    SUM: "rows whose sum is right",
    LABEL: "rows whose label is right",
}


def draw_all(sweeps: dict[str, Sweep], folder: Path) -> dict[str, Path]:
    """Draw the figure of each claim into `folder`; its letter to its path."""
    drawings = {
        "I4": ("parity", lambda: by_length(sweeps["fig5a_parity_cpu"], "bits", (EXACT, "state_accuracy"))),
        "I4, addition": (
            "addition",
            lambda: by_length(sweeps["fig5b_addition_shift_cpu"], "digits", (SUM, "state_accuracy")),
        ),
        "C.1.1": ("regularization", lambda: by_changes(sweeps["regularization_cpu"], "bits")),
        "I2": ("cycles", lambda: steps_figure(sweeps[CYCLES])),
        "I3": ("cycles_ood", lambda: by_length(sweeps["fig4_cycles_ood_cpu"], "steps", (EXACT, LABEL))),
        "I5": ("random_graphs", lambda: shortcut_figure(sweeps[RANDOM_GRAPHS])),
        "I7": ("half_parity", lambda: steps_figure(sweeps[HALF_PARITY])),
    }
    return save_all(drawings, folder, "inductive_scratchpad")


def by_length(sweep: Sweep, what: str, metrics: tuple[str, ...]) -> Figure:
    """Shares that are right against length, a panel for each metric, a line for each scratchpad."""
    return _panels(sweep, what, metrics, arms(sweep))


def by_changes(sweep: Sweep, what: str) -> Figure:
    """Shares of rows that are right against length, a line for each configuration."""
    return _panels(sweep, what, (EXACT,), by_change(sweep))


def _panels(sweep: Sweep, what: str, metrics: tuple[str, ...], lines: dict[str, str]) -> Figure:
    """A panel for each metric, a line for each of the named configurations."""
    figure, panels = panels_of(len(metrics), sharey=True)
    for axes, metric in zip(panels, metrics, strict=True):
        for colour, (name, config_id) in zip(COLOURS, lines.items(), strict=False):
            bundle(axes, sweep.curve(metric, "raw", [config_id]), colour, name)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xticks(sweep.lengths)
        shade(axes, sweep.trained, facecolor="#E6E9ED")
        axes.set_xlabel(what)
        axes.set_title(_TITLES[metric], fontsize=9)
    panels[0].set_ylabel("share")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: median over seeds, every seed thin", fontsize=10)
    return figure
