"""The table of kept weights that were evaluated after training: medians at every length."""

import json
from collections.abc import Iterable, Sequence
from functools import partial

from orchestrator.report.tables.columns import Column, Records, Section, make_cells
from orchestrator.results.later_evaluations import LaterEvaluation
from orchestrator.results.summary import Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.text.wording import format_label

HEADING = "Kept weights evaluated later"

Line = tuple[LaterEvaluation, str, int]  # an evaluation, a metric and a length


def make_later_section(summary: Summary, evaluations: Sequence[LaterEvaluation] = ()) -> Section:
    """Return the section with the judged metric of later evaluations (default: all) at every length, by average."""
    # Evaluations differ in metrics and lengths, so these are lines; averages are columns, for comparison.
    evaluations = evaluations or summary.later_evaluations
    lines = [
        (evaluation, metric, length)
        for evaluation in evaluations
        for metric in evaluation.list_metrics_like(summary.metrics[summary.objective.metric].base)
        for length in evaluation.measurements.metrics[metric].lengths
    ]
    columns = [
        Column("label", lambda line: format_label(line[0].number)),
        Column("task", lambda line: line[0].setting),
        Column("trained on", lambda line: line[0].format_trained_lengths(line[1])),
        Column("samples", lambda line: line[0].samples),
        Column("seeds", lambda line: _describe_seeds(line[0])),
        Column("metric", lambda line: line[1]),
        Column("length", lambda line: line[2]),
    ]
    averages = dict.fromkeys(average for evaluation in evaluations for average in evaluation.measurements.averages)
    columns += [Column(average, partial(_read_quartiles, average)) for average in averages]
    cells = make_cells(lines, columns, summary.infinity_text)
    if len(set(cells["metric"])) == 1:
        del cells["metric"]

    # A reader must not take these for scores of the sweep, nor for values on the same inputs.
    metrics = ", ".join(dict.fromkeys(line[1] for line in lines))
    notes = [
        f"{metrics}: medians over seeds with quartiles, of the weights after the last step. Scores and ranks do not "
        "depend on these evaluations. If the samples or the task differ from the sweep's, so do the test inputs."
    ]
    return Section(heading=HEADING, cells=cells, notes=notes)


def make_later_records(evaluations: Iterable[LaterEvaluation]) -> Records:
    """Return a line of later_evaluations.csv for every metric, average and length; `task` has the replaced settings."""
    return [
        {
            "config_id": evaluation.config_id,
            "number": evaluation.number,
            "task": json.dumps(evaluation.task, ensure_ascii=False),
            "trained": evaluation.format_trained_lengths(metric),
            "samples": evaluation.samples,
            "step": evaluation.step,
            "metric": metric,
            "average": average,
            "length": length,
            **dict(zip(("median", "q25", "q75"), quartiles, strict=True)),
            "seeds": len(evaluation.seeds),
            "failed": evaluation.failed,
        }
        for evaluation in evaluations
        for (metric, average), band in evaluation.bands.items()
        for length, *quartiles in zip(band.lengths, band.median, band.q25, band.q75, strict=True)
    ]


def _read_quartiles(average: str, line: Line) -> Quartiles | None:
    """Return the quartiles of an average at the metric and length of a line; None if it was not evaluated."""
    # Later evaluations may have different averages and lengths.
    evaluation, metric, length = line
    band = evaluation.bands.get((metric, average))
    if band is None or length not in band.lengths:
        return None
    column = band.lengths.index(length)
    return Quartiles(band.q25[column], band.median[column], band.q75[column])


def _describe_seeds(evaluation: LaterEvaluation) -> str:
    """Return the number of seeds, with those without weights."""
    return f"{len(evaluation.seeds)}" + (f" ({evaluation.failed} failed)" if evaluation.failed else "")
