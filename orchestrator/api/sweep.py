"""Represent a sweep as a Python object: results as tables, figures on matplotlib axes."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from orchestrator.api.plain import to_json
from orchestrator.code.trust import trust_sweep
from orchestrator.errors import UserError
from orchestrator.mirror.fetch import find_sweep
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import REPORT_HTML
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.consoles import make_console

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from rich.console import Console

    from trainers.evaluation.attention_weights import InputAttention

FIGURE_SIZE = (8.0, 4.6)  # inches


def open_sweep(path: str | Path, *, trust: bool = False) -> Sweep:
    """Return the sweep in a folder, or with a name in the storage folder, finished or not; writes nothing into it.

    With `trust`, code in a sweep of another user may run, now and later.

    Raises NotASweep for a folder without a ledger, DamagedLedger for a ledger that cannot be read.
    """
    sweep = Sweep(find_sweep(path))
    if trust:
        trust_sweep(sweep.state)
    return sweep


class Sweep:
    """A sweep as its ledger was when this object was made; `refresh` reads the ledger again.

    Tables are computed at first use, from `state` and `summary`. They raise DamagedCurves for a file of curves that is
    missing or differs from its checksum.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = SweepState.load(folder)

    def refresh(self) -> Self:
        """Read the ledger of a running sweep again; return this sweep."""
        # Cached results are attributes of the object, so all attributes are dropped.
        state = SweepState.load(self.folder)
        self.__dict__ = {"folder": self.folder, "state": state}
        return self

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.state.name

    @property
    def status(self) -> str:
        """The status: running, or how the sweep ended: complete, failed, interrupted, or stopped by its budget."""
        return self.summary.status

    @cached_property
    def summary(self) -> Summary:
        """The results that reports and figures show."""
        return summarize(self.state)

    @cached_property
    def configurations(self) -> pd.DataFrame:
        """A row for every configuration, best first, with the columns of report.csv.

        rank, config_id, number, searched values; score, score_q25, score_q75; median and quartiles over seeds at
        trained, selection and test lengths, such as test_median; generalization_length, area_beyond; seeds_planned,
        seeds_run, seeds_failed, seeds_crashed; rounds in a race; complete, failed, form.
        """
        from orchestrator.report.tables.configuration_tables import make_configuration_records

        return _make_table(make_configuration_records(self.summary))

    @cached_property
    def curves(self) -> pd.DataFrame:
        """A row for every value of every curve, as in curves.parquet.

        config_id, number, searched values by dotted key, seed, average, metric, length, step, value. The value of a
        failed seed is NaN.
        """
        return read_curves(self.state)

    @cached_property
    def effects(self) -> pd.DataFrame:
        """A row for every outcome and searched key, with the columns of effects.csv; empty if nothing was compared.

        outcome (selection or test), lengths, hyperparameter, kind, unit, n, configurations, dropped, correlation, low,
        high, test, p, importance, value, difference, difference_low, difference_high, difference_n, partial,
        partial_low, partial_high, partial_p, partial_n, missing.
        """
        from orchestrator.report.csv_tables import make_effect_records

        return _make_table(make_effect_records(self.summary))

    @cached_property
    def race(self) -> pd.DataFrame:
        """A row for every configuration of every round of a race, with the columns of race.csv; empty without a race.

        round, config_id, new_seeds, decided_by (median or rank sum), value, p, stays.
        """
        from orchestrator.report.tables.race_tables import make_race_records

        return _make_table(make_race_records(self.summary))

    @property
    def best(self) -> ConfigurationResult:
        """The configuration ranked first by the selection lengths: number, values, score, quartiles, failed seeds.

        Raises UserError if no configuration has a score yet.
        """
        if (best := self.summary.first) is None:
            raise UserError(f"{self.folder}: no configuration has a score yet")
        return best

    def plot_curves(self, ax: Axes | None = None, *, metric: str | None = None, average: str | None = None) -> Axes:
        """Draw the median curves against length on `ax`, by default on new axes; return the axes.

        `metric` and `average` default to the objective's. Raises UserError for unknown names, and if no
        configuration has ended.
        """
        from orchestrator.figures.on_axes import plot_curves

        return plot_curves(self.summary, _choose_axes(ax), metric=metric, average=average)

    def plot_effect(self, key: str, ax: Axes | None = None) -> Axes:
        """Draw the score of every configuration against a searched key such as "model.dropout"; return the axes.

        Raises UserError for a key that was not searched, and if no configuration has a score yet.
        """
        from orchestrator.figures.on_axes import plot_effect

        return plot_effect(self.summary, key, _choose_axes(ax))

    def compare(
        self,
        a: int | str,
        b: int | str,
        *,
        metric: str | None = None,
        average: str | None = None,
        lengths: int | str | Iterable[int] | None = None,
    ) -> pd.DataFrame:
        """Compare two configurations over their seeds: a row for each group of lengths, as in seed_comparisons.csv.

        Configurations are given by number or config_id, in another sweep as "FOLDER/NUMBER". `metric`, `average`
        and `lengths`, such as [5, 8], are as in `compare_named`. The columns `difference`, `low`, `high`, `level`
        and `p` are the result, `n` is the number of pairs or seeds, `first_failed` and `second_failed` are the numbers
        of failed seeds. Raises UserError for a configuration that does not exist or has not ended.
        """
        from orchestrator.report.tables.seed_comparison_table import make_comparison_records
        from orchestrator.results.comparing.named_comparison import compare_named

        compared = compare_named(
            self.folder, str(a), str(b), metric=metric, average=average, lengths=_join_lengths(lengths)
        )
        return _make_table(make_comparison_records(compared.comparisons))

    def compare_with(
        self,
        other: Sweep | str | Path,
        *,
        metric: str | None = None,
        average: str | None = None,
        lengths: int | str | Iterable[int] | None = None,
    ) -> pd.DataFrame:
        """Compare this sweep with another one over their common configurations; differences are this - other.

        `family` is the kind of a row: a matched configuration at a group of lengths, all of these together, or a
        single length. Other columns are the names of both sweeps and the columns of `compare`. Intervals of the
        family "each length" form a simultaneous 95 % band. `metric`, `average` and `lengths` are as in
        `compare_sweeps`. Raises UserError for sweeps without a common configuration, NotASweep for a folder without a
        ledger.
        """
        from orchestrator.report.comparisons import make_sweep_comparison_records
        from orchestrator.results.comparing.sweep_comparison import compare_sweeps

        sweep = other if isinstance(other, Sweep) else open_sweep(other)
        compared = compare_sweeps(
            self.summary, sweep.summary, metric=metric, average=average, lengths=_join_lengths(lengths)
        )
        return _make_table(make_sweep_comparison_records([compared]))

    def evaluate(
        self,
        *configurations: int | str,
        lengths: Sequence[int] | None = None,
        samples: int | None = None,
        **task: Any,
    ) -> pd.DataFrame:
        """Evaluate kept weights at other lengths, samples or settings of the task, and record the curves.

        Returns a row for every metric, average and length, with the columns of later_evaluations.csv: config_id,
        number, task, samples, step, metric, average, length, median, q25, q75, seeds, failed. Raises what
        `evaluate_later` raises.
        """
        from orchestrator.report.tables.later_evaluation_table import make_later_records
        from orchestrator.upkeep.later_evaluation import evaluate_later

        # Numpy values are allowed, so everything passes as JSON.
        settings = [f"{key}={to_json(key, value)}" for key, value in task.items()]
        sizes = json.loads(to_json("lengths and samples", {"lengths": lengths, "samples": samples}))
        keys = evaluate_later(self.folder, configurations, **sizes, task=settings)

        # The summary also has earlier evaluations, which the caller did not ask for.
        self.refresh()
        return _make_table(make_later_records(later for later in self.summary.later_evaluations if later.key in keys))

    def attention(
        self,
        configuration: int | str,
        seed: int,
        *,
        length: int,
        distribution: str | None = None,
        row: int = 0,
        average: str | None = None,
    ) -> InputAttention:
        """Return the attention weights of one evaluated input, from kept weights; trains nothing.

        The input is row `row` of those evaluated at `length` in `distribution`, by default the trained one; `average`
        defaults to the judged one. The result has `tokens`, T texts, and `layers`, an array (heads, T, T) for each
        layer, queries by keys; the weights of a query sum to one, or are all zero if it attends to nothing. Raises
        UserError for unknown names, weights that were not kept, and a model without attention weights.
        """
        from orchestrator.results.read_attention import read_attention

        average = self.summary.objective.average if average is None else average
        return read_attention(
            self.state, configuration, seed, length=length, distribution=distribution, row=row, average=average
        )

    def report(self) -> Path:
        """Write report.html and its tables; return the path of the page."""
        from orchestrator.report.write_report import present_report, refuse_read_only

        refuse_read_only(self.folder)
        present_report(self.folder, make_console(), quiet=True)
        return self.folder / REPORT_HTML

    def resume(
        self, *, retry_failed: bool = False, accept_code_change: bool = False, console: Console | None = None
    ) -> Self:
        """Train the missing members; return this sweep with the new results. Raises what `resume_sweep` raises."""
        from orchestrator.sweep.run_and_resume import resume_sweep

        console = console or make_console()
        resume_sweep(self.folder, console, retry_failed=retry_failed, accept_code_change=accept_code_change)
        return self.refresh()

    def __repr__(self) -> str:
        return f"{self.name}, in {self.folder}: {self._describe_status()}"

    def _describe_status(self) -> str:
        """Return the status of the sweep and its numbers of configurations and seeds as text."""
        summary = self.summary
        return (
            f"{summary.status}, {summary.complete_configurations} of {summary.planned_configurations} configurations "
            f"done, {summary.seeds_run} seeds ran, {summary.seeds_failed} failed"
        )

    def _repr_html_(self) -> str:
        """Return the sweep as HTML for a notebook: its status, and its median curves if there are any."""
        from orchestrator.report.page.render import escape

        # A sweep that has just begun has no curve yet.
        text = f"<p><b>{escape(self.name)}</b>: {escape(self._describe_status())}</p>"
        has_curves = any(key[1:] == self.summary.objective_curve for key in self.summary.bands)
        return text + (_draw_image(self.summary) if has_curves else "")


def _join_lengths(lengths: int | str | Iterable[int] | None) -> str | None:
    """Return lengths as text: "5,8" for [5, 8]."""
    if lengths is None or isinstance(lengths, str):
        return lengths
    return ",".join(map(str, lengths if isinstance(lengths, Iterable) else [lengths]))


def _make_table(lines: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the lines of a CSV table as a data frame; empty cells are None, or NaN in columns of numbers."""
    import pandas as pd

    # CSV tables write an empty text for a missing value.
    return pd.DataFrame([{name: None if value == "" else value for name, value in line.items()} for line in lines])


def _draw_image(summary: Summary) -> str:
    """Return the median curves as an HTML image."""
    from matplotlib.figure import Figure

    from orchestrator.figures.on_axes import plot_curves

    # A figure without pyplot leaves the caller's figures alone.
    figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
    content = io.BytesIO()
    plot_curves(summary, figure.subplots())
    figure.savefig(content, format="png", dpi=100)
    return f'<img alt="median curves" src="data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}">'


def _choose_axes(axes: Axes | None) -> Axes:
    """Return the axes of the caller, or new axes, which a notebook shows automatically."""
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.subplots(figsize=FIGURE_SIZE, layout="constrained")[1]
