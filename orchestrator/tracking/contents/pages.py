"""The MLflow pages of a sweep: links to its charts, the charts themselves, and the note of its run.

MLflow opens an experiment on an empty GenAI page, folds child runs under their parent (where they draw nothing) and
makes one chart per metric, in alphabetical order. Two things correct that. Links contain the workflow, the view and a
filter; filtering or sorting unfolds the children, and the ten best are drawn. And MLflow stores "shared views" as
experiment tags: `chart_view` writes one per sweep, with large median curves first. This was tested with MLflow 3.17;
versions without this tag show their usual charts.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from itertools import starmap
from typing import Any

from orchestrator.results.confirmed import Confirmed
from orchestrator.results.summary import Summary
from orchestrator.wording import lengths_in_words

VIEW_TAG = "mlflow.sharedViewState."
NOTE_TAG, COLOR_TAG = "mlflow.note.content", "mlflow.runColor"
COLORS = (  # of the curves ranked first; MLflow's own follow from run ids, and repeat among ten
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd"),
    *("#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"),
)
TRAINING_WORKFLOW = "machine_learning"


def children_filter(parent_run_id: str) -> str:
    """Return the filter for the configurations of one sweep."""
    return f"tags.mlflow.parentRunId = '{parent_run_id}'"


def sweep_links(server: str, experiment_id: str, view_key: str, parent_id: str) -> tuple[tuple[str, str], ...]:
    """Return (title, link) of each page of a sweep, its report first."""
    runs, training = f"{server.rstrip('/')}/#/experiments/{experiment_id}/runs", f"workflowType={TRAINING_WORKFLOW}"
    view = f"{runs}?viewStateShareKey={view_key}"
    return (
        ("report", f"{runs}/{parent_id}/artifacts/report.html?{training}"),
        ("curves of the configurations ranked first", f"{view}&compareRunsMode=CHART&{training}"),
        ("table of configurations", f"{view}&{training}"),
    )


def chart_view(
    parent_run_id: str,
    *,
    curves: Sequence[tuple[str, str, bool]],
    progress: Sequence[tuple[str, str, bool]],
    params: Sequence[str],
    ascending: bool,
) -> str:
    """Return the value of the shared-view tag: MLflow's page state as compressed JSON, deterministic.

    `curves` and `progress` are metric keys in reading order, with their titles and whether the axis of values is
    logarithmic; `params` are the searched parameters.
    """
    sections = (
        ("curves", "Median against length", list(starmap(_line, curves)), 2, 480),
        ("score", "Score and hyperparameters", _score_charts(params), 2, 480),
        ("progress", "Training", list(starmap(_line, progress)), 2, 360),
    )
    state = {
        "searchFilter": children_filter(parent_run_id),
        "orderByKey": "metrics.`score`",
        "orderByAsc": ascending,
        "selectedColumns": [
            *(f"metrics.`{key}`" for key in TABLE_METRICS),
            *(f"params.`{key}`" for key in params),
        ],
        "isAccordionReordered": True,
        "compareRunSections": [
            {
                "uuid": uuid,
                "name": name,
                "display": True,
                "isReordered": True,
                "deleted": False,
                "isGenerated": False,
                "columns": columns,
                "cardHeight": height,
            }
            for uuid, name, cards, columns, height in sections
            if cards
        ],
        "compareRunCharts": [{**card, "metricSectionId": uuid} for uuid, _, cards, _, _ in sections for card in cards],
    }
    packed = zlib.compress(json.dumps(state, ensure_ascii=False, sort_keys=True).encode(), 9)
    return "deflate;" + base64.b64encode(packed).decode()


TABLE_METRICS = (*("score", "rank", "generalization_length", "area_beyond", "seeds_run", "seeds_failed"),)


def _card(kind: str, uuid: str, title: str, runs: int) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"lengthwise-{uuid}",
        "displayName": title,
        "runsCountToCompare": runs,
        "isGenerated": False,
        "deleted": False,
    }


def _line(metric_key: str, title: str, is_log: bool) -> dict[str, Any]:
    return {
        **_card("LINE", metric_key, title, runs=10),
        "metricKey": metric_key,
        "selectedMetricKeys": [metric_key],
        "lineSmoothness": 0,
        "xAxisScaleType": "linear",
        "scaleType": "log" if is_log else "linear",
        "range": {},
        "xAxisKey": "step",
        "selectedXAxisMetricKey": "",
        "displayPoints": True,
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "ignoreOutliers": False,
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
    }


def _score_charts(params: Sequence[str]) -> list[dict[str, Any]]:
    if not params:
        return []
    parallel = {
        **_card("PARALLEL", "parallel", "Searched values and score", runs=100),
        "selectedParams": list(params),
        "selectedMetrics": ["score"],
        "showAllRuns": True,
    }
    scatters = [
        {
            **_card("SCATTER", f"score-{key}", f"score against {key}", runs=100),
            "xaxis": {"key": key, "type": "PARAM"},
            "yaxis": {"key": "score", "type": "METRIC"},
        }
        for key in params
    ]
    return [parallel, *scatters]


def description(summary: Summary, sentences: Sequence[str] = (), confirmed: Sequence[Confirmed] = ()) -> str:
    """Return the note on the page of the sweep's run (Markdown), with the report's `sentences` about its results."""
    state = "finished" if summary.finished else f"**{summary.status}**"
    lines = [
        f"Sweep `{summary.name}`, {state}: {summary.configurations_finished} of {summary.planned} configurations, "
        f"{summary.seeds_run} seeds run, {summary.seeds_failed} failed.",
        f"Ranked by the median over seeds of {summary.judged_name} at {lengths_in_words(summary.objective.lengths)}; "
        "lengths beyond these were not used for selection.",
        "In `<metric>/<average>/...` the step is the **length**; under `progress/` it is the training step.",
        "Runs are named by the label of the configuration, `#` and its number in drawn order; `rank` is a metric.",
        "The report (`report.html`) and every curve (`curves.parquet`) are among the artifacts.",
    ]
    lines[1:1] = [*sentences, *(f"{one.sentence}." for one in confirmed)]
    return "\n\n".join(lines)


def is_note(text: str) -> bool:
    """Return whether a note begins as `description` does."""
    return text.startswith("Sweep `")
