"""The figures of set complement: one for each claim."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from orchestrator.studies.claims import span
from orchestrator.studies.measures import Sweep
from orchestrator.studies.pictures import COLOURS, bundle, panels_of, save_all, shade_lengths
from orchestrator.studies.set_complement.measures import TV, best_average


def draw_all(sweeps: dict[str, Sweep], folder: Path) -> dict[str, Path]:
    """Draw the figure of each claim into `folder`; its letter to its path."""
    drawings: dict[str, tuple[str, Callable[[], Figure]]] = {
        "a": ("dims_cliff", lambda: dimensions(sweeps["dims_cliff_cpu"])),
        "b": ("two_lengths", lambda: two_lengths(sweeps["two_lengths_cpu"])),
        "c": ("dropout_sites", lambda: dropout(sweeps["dropout_sites_cpu"])),
        "d": ("averaging", lambda: averaging(sweeps["averaging_cpu"])),
        "e": ("othello", lambda: othello(sweeps["othello_cpu"])),
        "f": ("norm_placement", lambda: norms(sweeps["norm_placement_cpu"])),
    }
    return save_all(drawings, folder, "set_complement")


def dimensions(sweep: Sweep) -> Figure:
    """(a) Worst margin over all inputs against each width."""
    figure, panels = panels_of(2, sharey=True)
    keys = ("model.width", "model.value_width")
    worst = sweep.members("margin_min", "raw", sweep.lengths, settings=keys, reduce="min")
    bound = sweep.setting(sweep.where({})[0], "task.vocabulary") - 1
    for axes, key, other in zip(panels, keys, reversed(keys), strict=True):
        arm = worst[worst[other] == worst[other].max()]
        medians = arm.groupby(key)["value"].median()
        axes.plot(arm[key], arm["value"], "o", color=COLOURS[0], alpha=0.35, markersize=5, label="one seed")
        axes.plot(medians.index, medians, color=COLOURS[0], linewidth=2, label="median over seeds")
        axes.axvline(bound - 0.5, color=COLOURS[1], linestyle="--", linewidth=1.2, label=f"v - 1 = {bound} from here")
        axes.axhline(0, color="#555555", linewidth=0.8)
        axes.set_xlabel("embedding width d" if key == keys[0] else "value width d_v")
    panels[0].set_ylabel("smallest margin over every input")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: v = {bound + 1}, the other width v + 4", fontsize=10)
    return figure


def two_lengths(sweep: Sweep) -> Figure:
    """(b) Measured worst margin and its bound against length."""
    figure, panels = panels_of(4, columns=2, sharey=False, height=3.0)
    arms = [(a, t) for a in ("constant", "softmax") for t in ("soft", "sampled")]
    for axes, (attention, target) in zip(panels, arms, strict=True):
        names = sweep.where({"model.attention": attention, "task.target": target})
        bundle(axes, sweep.curve("margin_min", "raw", names), COLOURS[0], "measured, worst input")
        bundle(axes, sweep.curve("margin_bound", "raw", names), COLOURS[1], "(2/s) C", linestyle="--")
        axes.axhline(0, color="#555555", linewidth=0.8)
        axes.set_title(f"{attention} attention, {target} targets", fontsize=9)
        shade_lengths(axes, sweep, "length s")
        axes.set_ylabel("margin")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: trained on lengths 1 and 2", fontsize=10)
    return figure


def dropout(sweep: Sweep) -> Figure:
    """(c) Total variation against length for every rate, by site."""
    (none,) = sweep.where({"model.dropout": 0.0})
    sites = dict.fromkeys(sweep.setting(n, "model.dropout_sites") for n in sweep.state.configurations if n != none)
    figure, panels = panels_of(len(sites) + 1)
    for axes, site in zip(panels, sites, strict=False):
        names = [none, *(n for n in sweep.where({"model.dropout_sites": site}) if n != none)]
        for place, name in enumerate(names):
            bundle(axes, sweep.curve(TV, "raw", [name]), COLOURS[place], f"rate {sweep.setting(name, 'model.dropout')}")
        axes.set_title(f"{site} dropout, {sweep.steps:,} steps", fontsize=9)
        axes.legend(frameon=False, fontsize=8)
        shade_lengths(axes, sweep, "length s")
    panels[0].set_ylabel("total variation, raw weights")
    axes = panels[-1]
    for site, style in zip(sites, ("-", "--", ":", "-."), strict=False):
        for shade, name in enumerate(n for n in sweep.where({"model.dropout_sites": site}) if n != none):
            line = _over_steps(sweep, name) - _over_steps(sweep, none)
            label = f"{site}, rate {sweep.setting(name, 'model.dropout')}"
            axes.plot(line.index, line, style, marker="o", markersize=3, color=COLOURS[shade + 1], label=label)
    axes.axhline(0, color="#555555", linewidth=0.8)
    axes.set_xlabel("steps")
    axes.set_title(f"change against no dropout, lengths {span(sweep.test)}", fontsize=9)
    axes.margins(y=0.3)
    axes.legend(frameon=False, fontsize=7, ncols=2, loc="upper center")
    figure.suptitle(sweep.name, fontsize=10)
    return figure


def averaging(sweep: Sweep) -> Figure:
    """(d) What each average gains over the raw weights of the same member, against length."""
    figure, panels = panels_of(2, sharey=True)
    labels = [label for label in sweep.averages if label not in ("raw", "ema_0_9999")]
    for axes, target in zip(panels, ("sampled", "soft"), strict=True):
        names = sweep.where({"task.target": target})
        raw = sweep.curve(TV, "raw", names)
        for place, label in enumerate(labels):
            difference = sweep.curve(TV, label, names) - raw
            axes.plot(difference.index, difference.median(axis=1), color=COLOURS[place], linewidth=1.8, label=label)
            if label == "ema_0_99":
                low, high = difference.quantile(0.25, axis=1), difference.quantile(0.75, axis=1)
                axes.fill_between(difference.index, low, high, color=COLOURS[place], alpha=0.18, linewidth=0)
        axes.axhline(0, color="#555555", linewidth=0.8)
        axes.set_title(f"{target} targets", fontsize=9)
        shade_lengths(axes, sweep, "length s")
    panels[0].set_ylabel("total variation minus that of the raw weights")
    panels[1].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: median over members (band: quartiles of ema_0_99)", fontsize=10)
    return figure


def othello(sweep: Sweep) -> Figure:
    """(e) Total variation against the number of moves seen, by positions; the gain of the averages below."""
    names = list(sweep.state.configurations)
    figure, panels = panels_of(2 * len(names), columns=len(names), sharey="row", height=2.8)
    emas = [label for label in sweep.averages if label.startswith("ema_0")]
    chosen = best_average(sweep, emas, names)
    for place, name in enumerate(names):
        above, below = panels[place], panels[place + len(names)]
        shown = ("raw", chosen, "bema")
        for colour, label in zip(COLOURS, shown, strict=False):
            bundle(above, sweep.curve(TV, label, [name]), colour, label)
        raw = sweep.curve(TV, "raw", [name])
        for colour, label in zip(COLOURS[1:], (chosen, "bema", "norm_matched"), strict=False):
            bundle(below, sweep.curve(TV, label, [name]) - raw, colour, label)
        below.axhline(0, color="#555555", linewidth=0.8)
        above.set_title(f"positions: {sweep.setting(name, 'model.position')}", fontsize=9)
        shade_lengths(above, sweep, "")
        shade_lengths(below, sweep, "moves seen")
    panels[0].set_ylabel("total variation")
    panels[len(names)].set_ylabel("minus raw")
    panels[0].legend(frameon=False, fontsize=8)
    panels[len(names)].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: trained on moves {span(sweep.trained)}", fontsize=10)
    return figure


def norms(sweep: Sweep) -> Figure:
    """(f) Error, displacement and sharpness of attention against length, by norm."""
    figure, panels = panels_of(3)
    metrics = {
        TV: "total variation",
        "displacement": "logit displacement",
        "attention_uniformity": "s x largest attention",
    }
    for axes, (metric, words) in zip(panels, metrics.items(), strict=True):
        for place, norm in enumerate(("none", "pre", "post")):
            name = sweep.selected(sweep.where({"model.norm": norm, "model.dropout": 0.0}))
            label = f"{norm}, learning rate {sweep.setting(name, 'training.learning_rate')}"
            bundle(axes, sweep.curve(metric, "raw", [name]), COLOURS[place], label)
        axes.set_title(words, fontsize=9)
        shade_lengths(axes, sweep, "length s")
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{sweep.name}: no dropout, raw weights, learning rate chosen at lengths 6 and 7", fontsize=10)
    return figure


def _over_steps(sweep: Sweep, name: str) -> "pd.Series[float]":
    """Median over seeds of the mean test error at each evaluation."""
    steps = sorted(sweep.curves["step"].unique())
    medians = [sweep.members(TV, "raw", sweep.test, at=step).groupby("config_id")["value"].median() for step in steps]
    return pd.Series([median[name] for median in medians], index=steps)
