"""A sweep as an object: its numbers as tables, its figures on axes of matplotlib. Reads the ledger, decides nothing."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from orchestrator.api.plain import to_json
from orchestrator.code.trust import trust_sweep
from orchestrator.errors import UserError
from orchestrator.mirror.fetch import find_sweep
from orchestrator.record.kept.curves import read_curves
from orchestrator.record.ledger.folders import REPORT_HTML
from orchestrator.record.state.state import SweepState
from orchestrator.results.summarise import summarise
from orchestrator.results.summary import Row, Summary
from orchestrator.text.consoles import make_console

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from rich.console import Console

    from trainers.evaluation.attention_weights import InputAttention

SIZE = (8.0, 4.6)  # inches


def open_sweep(path: str | Path, *, trust: bool = False) -> Sweep:
    """Return the sweep in a folder, or of a name in the storage folder, finished or not; writes nothing into it.

    trust: remember that its code may run, if somebody else has begun it.

    Raises NotASweep for a folder without a ledger, DamagedLedger for a ledger that cannot be read.
    """
    sweep = Sweep(find_sweep(path))
    if trust:
        trust_sweep(sweep.state)
    return sweep


class Sweep:
    """One sweep, as its ledger was when this object was made; `refresh` reads it again.

    Tables are computed at their first use. Reading them raises DamagedCurves naming a file of curves that is missing or
    not what was written. `state` and `summary` are what all of this is made from.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = SweepState.load(folder)

    def refresh(self) -> Self:
        """Read the ledger again, for a sweep that is being run or was resumed; return this sweep."""
        state = SweepState.load(self.folder)
        self.__dict__ = {"folder": self.folder, "state": state}  # without cached results
        return self

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.state.name

    @property
    def status(self) -> str:
        """How it ended: complete, failed, interrupted, stopped by its budget; running while a driver trains it."""
        return self.summary.status

    @cached_property
    def summary(self) -> Summary:
        """Everything that reports and figures show."""
        return summarise(self.state)

    @cached_property
    def configurations(self) -> pd.DataFrame:
        """A row for every configuration, the best first, with the columns of report.csv.

        rank, config_id, number, the searched values; score, score_q25, score_q75; median and quartiles over seeds at
        the lengths `trained_`, `selection_` and `test_`, such as test_median; generalization_length, area_beyond;
        seeds_planned, seeds_run, seeds_failed, seeds_crashed; rounds, in a race; complete, failed, form.
        """
        from orchestrator.report.tables.configurations import configuration_lines

        return _table(configuration_lines(self.summary))

    @cached_property
    def curves(self) -> pd.DataFrame:
        """A row for every value of every curve, as in curves.parquet.

        config_id, number, the searched values by their dotted keys, seed, average, metric, length, step, value. NaN is
        a seed that failed.
        """
        return read_curves(self.state)

    @cached_property
    def effects(self) -> pd.DataFrame:
        """A row for every outcome and searched key, with the columns of effects.csv; none where nothing was compared.

        outcome (selection or test), lengths, hyperparameter, kind, unit, n, configurations, dropped, correlation, low,
        high, test, p, importance, value, difference, difference_low, difference_high, difference_n, partial,
        partial_low, partial_high, partial_p, partial_n, missing.
        """
        from orchestrator.report.csv_tables import effect_lines

        return _table(effect_lines(self.summary))

    @cached_property
    def race(self) -> pd.DataFrame:
        """A row for every configuration of every round of a race, with the columns of race.csv; none without a race.

        round, config_id, new_seeds, decided_by (median or rank sum), value, p, stays.
        """
        from orchestrator.report.tables.race import race_lines

        return _table(race_lines(self.summary))

    @property
    def best(self) -> Row:
        """The configuration ranked first, by the selection lengths: number, values, score, quartiles, failed seeds.

        Raises UserError while none has a score.
        """
        best = next((row for row in self.summary.rows if row.rank == 1), None)
        if best is None:
            raise UserError(f"{self.folder}: no configuration has a score yet")
        return best

    def plot_curves(self, ax: Axes | None = None, *, metric: str | None = None, average: str | None = None) -> Axes:
        """Draw the median curves against length, on new axes by default, and return the axes.

        `metric` and `average` are by default what the sweep is judged by. Raises UserError for a name that is not
        among those of the sweep, and where no configuration has ended.
        """
        from orchestrator.figures.on_axes import plot_curves

        return plot_curves(self.summary, _axes(ax), metric=metric, average=average)

    def plot_effect(self, key: str, ax: Axes | None = None) -> Axes:
        """Draw the score of every configuration against a searched key such as "model.dropout"; return the axes.

        Raises UserError for a key that was not searched, and while no configuration has a score.
        """
        from orchestrator.figures.on_axes import plot_effect

        return plot_effect(self.summary, key, _axes(ax))

    def compare(self, a: int | str, b: int | str, **asked: Any) -> pd.DataFrame:
        """Compare two configurations over their seeds: a row for each group of lengths, as in seed_comparisons.csv.

        They are called by number or config_id, one of another sweep by "FOLDER/NUMBER". `metric`, `average` and
        `lengths`, such as [5, 8], are those of `compare_named`. The columns `difference`, `low`, `high`, `level` and
        `p` say what came out, `n` over how many seeds, `first_failed` and `second_failed` how many failed. Raises
        UserError for a configuration that is not there or has not ended.
        """
        from orchestrator.report.tables.seed_comparisons import comparison_lines
        from orchestrator.results.comparing.named_comparison import compare_named

        return _table(comparison_lines(compare_named(self.folder, str(a), str(b), **_with_lengths(asked)).comparisons))

    def compare_with(self, other: Sweep | str | Path, **asked: Any) -> pd.DataFrame:
        """Compare this sweep with another one over the configurations that both have; differences are this - other.

        A row for every group of lengths and matched configuration, for all of these together, and for every length, as
        `family` says; the columns are those of `compare`, after the names of both sweeps. Intervals of the rows "each
        length" are those of a simultaneous 95 % band. `metric`, `average` and `lengths` are those of `compare_sweeps`.
        Raises UserError for sweeps without a common configuration, NotASweep for a folder without a ledger.
        """
        from orchestrator.report.comparisons import sweep_comparison_lines
        from orchestrator.results.comparing.sweep_comparison import compare_sweeps

        sweep = other if isinstance(other, Sweep) else open_sweep(other)
        return _table(sweep_comparison_lines([compare_sweeps(self.summary, sweep.summary, **_with_lengths(asked))]))

    def evaluate(
        self,
        *configurations: int | str,
        lengths: Sequence[int] | None = None,
        samples: int | None = None,
        **task: Any,
    ) -> pd.DataFrame:
        """Evaluate kept weights at other lengths, samples or settings of the task, and record the curves.

        A row for every metric, average and length, with the columns of later_evaluations.csv: config_id, number, task,
        samples, step, metric, average, length, median, q25, q75, seeds, failed. Raises what `evaluate_later` does.
        """
        from orchestrator.report.tables.later_evaluations import later_lines
        from orchestrator.upkeep.later_evaluation import evaluate_later

        settings = [f"{key}={to_json(key, value)}" for key, value in task.items()]
        asked = json.loads(to_json("lengths and samples", {"lengths": lengths, "samples": samples}))
        keys = evaluate_later(self.folder, configurations, **asked, task=settings)
        self.refresh()
        return _table(later_lines(later for later in self.summary.later_evaluations if later.key in keys))

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
        is by default the judged one. The result has `tokens`, T texts, and `layers`, an array (heads, T, T) for each
        layer, queries by keys; a query's weights sum to one, or are all zero if it attends to nothing. Raises UserError
        for what the sweep does not have or has not kept, and for a model without attention weights.
        """
        from orchestrator.results.attention import read_attention

        average = self.summary.objective.average if average is None else average
        asked: dict[str, Any] = {"length": length, "distribution": distribution, "row": row, "average": average}
        return read_attention(self.state, configuration, seed, **asked)

    def report(self) -> Path:
        """Write report.html and its tables; return the path of the page."""
        from orchestrator.report.files import present_report, refuse_read_only

        refuse_read_only(self.folder)
        present_report(self.folder, make_console(), quiet=True)
        return self.folder / REPORT_HTML

    def resume(
        self, *, retry_failed: bool = False, accept_code_change: bool = False, console: Console | None = None
    ) -> Self:
        """Train the missing members; return the sweep with the new results. Raises what `resume_sweep` does."""
        from orchestrator.sweep.sweep import resume_sweep

        shown_on = console or make_console()
        resume_sweep(self.folder, shown_on, retry_failed=retry_failed, accept_code_change=accept_code_change)
        return self.refresh()

    def __repr__(self) -> str:
        return f"{self.name}, in {self.folder}: {self._standing()}"

    def _standing(self) -> str:
        result = self.summary
        return (
            f"{result.status}, {result.configurations_finished} of {result.planned} configurations done, "
            f"{result.seeds_run} seeds ran, {result.seeds_failed} failed"
        )

    def _repr_html_(self) -> str:
        """Return the sweep as HTML for a notebook: its state, and its median curves if there are any."""
        from orchestrator.report.page.render import escape

        text = f"<p><b>{escape(self.name)}</b>: {escape(self._standing())}</p>"
        has_curves = any(key[1:] == self.summary.objective_curve for key in self.summary.bands)
        return text + (_image(self.summary) if has_curves else "")


def _with_lengths(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a comparison with lengths as text: "5,8" for [5, 8]."""
    lengths = asked.get("lengths")
    return asked if lengths is None or isinstance(lengths, str) else {**asked, "lengths": ",".join(map(str, lengths))}


def _table(lines: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return lines of a CSV table as a table; empty cells are None, or NaN in columns of numbers."""
    import pandas as pd

    return pd.DataFrame([{name: None if value == "" else value for name, value in line.items()} for line in lines])


def _image(result: Summary) -> str:
    from matplotlib.figure import Figure

    from orchestrator.figures.on_axes import plot_curves

    figure, content = Figure(figsize=SIZE, layout="constrained"), io.BytesIO()
    plot_curves(result, figure.subplots())
    figure.savefig(content, format="png", dpi=100)
    return f'<img alt="median curves" src="data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}">'


def _axes(axes: Axes | None) -> Axes:
    """Return the axes of the caller, or new ones that a notebook shows by itself."""
    if axes is not None:
        return axes
    from matplotlib import pyplot

    return pyplot.subplots(figsize=SIZE, layout="constrained")[1]
