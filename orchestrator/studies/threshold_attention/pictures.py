"""The figures of threshold relative attention: errors, rows right and perplexity by length."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from orchestrator.studies.measures import Sweep
from orchestrator.studies.pictures import COLOURS, bundle, panels_of, save_all, shade
from orchestrator.studies.threshold_attention.measures import SETS, arms, metric_of
from orchestrator.studies.threshold_attention.perplexity import PERPLEXITY, TEXT
from orchestrator.studies.threshold_attention.strings import RIGHT, STRINGS

LEAST = 1e-4  # below this the axis is linear: an error of 0 has a place


def draw_all(sweeps: dict[str, Sweep], folder: Path) -> dict[str, Path]:
    """Draw the figure of each claim into `folder`; its letter to its path."""
    drawings: dict[str, tuple[str, Callable[[], Figure]]] = {
        "T1": ("ffl", lambda: read_errors(sweeps["table1_ffl_cpu"])),
        "T2": ("fox", lambda: read_errors(sweeps["many_seeds_ffl_cpu"])),
        "T3": ("perplexity", lambda: by_length(sweeps[TEXT], PERPLEXITY, "perplexity of a byte", "bytes of a window")),
        "A": ("ablations", lambda: read_errors(sweeps["ablations_ffl_cpu"])),
    }
    for letter, _, name in STRINGS:
        if name in sweeps:
            drawn = partial(by_length, sweeps[name], RIGHT, "rows right", "symbols, up to")
            drawings[letter] = (name.removesuffix("_cpu"), drawn)
    return save_all(drawings, folder, "threshold_attention")


def by_length(sweep: Sweep, metric: str, measured: str, label: str) -> Figure:
    """A metric of every arm against the length, of which the first one is trained on."""
    figure, (axes,) = panels_of(1)
    for colour, (name, config_id) in zip(COLOURS, arms(sweep).items(), strict=False):
        curves = sweep.curve(metric, "raw", [config_id]).dropna(how="all")
        bundle(axes, curves, colour, name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(curves.index, [str(length) for length in curves.index])
    axes.minorticks_off()
    shade(axes, [int(curves.index[0])], facecolor="#E6E9ED")
    axes.set_xlabel(label)
    axes.set_ylabel(measured)
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: median over seeds, every seed thin", fontsize=9)
    return figure


def read_errors(sweep: Sweep) -> Figure:
    """The read error of every arm against the number of pairs, a panel for each test set."""
    figure, panels = panels_of(len(SETS), sharey=True)
    for axes, one in zip(panels, SETS, strict=True):
        for colour, (name, config_id) in zip(COLOURS, arms(sweep).items(), strict=False):
            bundle(axes, sweep.curve(metric_of(one), "raw", [config_id]), colour, name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("symlog", linthresh=LEAST)
        axes.set_ylim(bottom=0)
        axes.set_xticks(sweep.lengths, [str(length) for length in sweep.lengths])
        if one == SETS[0]:
            shade(axes, sweep.trained, facecolor="#E6E9ED")
        axes.set_xlabel("pairs")
        axes.set_title(f"{one} rows", fontsize=9)
    panels[0].set_ylabel("read error")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: median over seeds, every seed thin", fontsize=10)
    return figure
