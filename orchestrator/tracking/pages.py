"""The MLflow pages of a sweep: links to them, and the note of its run.

MLflow opens an experiment on an empty GenAI page and folds child runs under their parent, where they draw nothing. So
the links contain the workflow and a filter, which unfolds the children: the ten best are drawn.
"""

from collections.abc import Sequence
from urllib.parse import quote

from orchestrator.results.confirmed import Confirmed
from orchestrator.results.summary import Summary
from orchestrator.wording import lengths_in_words

NOTE_TAG, COLOR_TAG = "mlflow.note.content", "mlflow.runColor"
COLORS = (  # of the curves ranked first; MLflow's own follow from run ids, and repeat among ten
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd"),
    *("#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"),
)


def children_filter(parent_run_id: str) -> str:
    """Return the filter for the configurations of one sweep."""
    return f"tags.mlflow.parentRunId = '{parent_run_id}'"


def sweep_links(server: str, experiment_id: str, parent_id: str) -> tuple[tuple[str, str], ...]:
    """Return (title, link) of each page of a sweep, its report first."""
    runs, training = f"{server.rstrip('/')}/#/experiments/{experiment_id}/runs", "workflowType=machine_learning"
    order = f"orderByKey={quote('metrics.`rank`')}&orderByAsc=true"
    table = f"{runs}?searchFilter={quote(children_filter(parent_id))}&{order}&{training}"
    return (
        ("report", f"{runs}/{parent_id}/artifacts/report.html?{training}"),
        ("curves of the configurations ranked first", f"{table}&compareRunsMode=CHART"),
        ("table of configurations", table),
    )


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
