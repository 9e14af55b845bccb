"""Link to the MLflow pages of a sweep, and write the note of its run.

MLflow opens an experiment on an empty GenAI page and folds child runs under their parent, where no chart shows them. So
the links contain the workflow and a filter, which unfolds the children, and charts show the ten best.
"""

import json
from urllib.parse import quote

from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.report.judging_notes import describe_order
from orchestrator.report.sentences import make_answers
from orchestrator.results.race_rounds import describe_race
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_lengths
from orchestrator.tracking.mlflow_names import choose_name_form

WORKFLOW = "workflowType=machine_learning"  # keeps MLflow from opening its GenAI page
NOTE_TAG, COLOR_TAG = "mlflow.note.content", "mlflow.runColor"
COLORS = (  # by rank, the first two as in report.html; MLflow derives its colors from run ids, and they may repeat
    *("#ff7f0e", "#17becf", "#1f77b4", "#2ca02c", "#d62728"),
    *("#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"),
)


def make_children_filter(parent_run_id: str) -> str:
    """Return MLflow's search filter for the configurations of a sweep."""
    return f"tags.mlflow.parentRunId = '{parent_run_id}'"


def make_study_link(server: str, experiment_id: str) -> str:
    """Return the link to the table of a study, which has a line for each sweep."""
    return f"{_make_runs_address(server, experiment_id)}?{WORKFLOW}"


def _make_runs_address(server: str, experiment_id: str) -> str:
    """Return the address of the runs of an experiment, without parameters."""
    return f"{server.rstrip('/')}/#/experiments/{experiment_id}/runs"


def make_sweep_links(client: MlflowClient, server: str, parent: Run) -> tuple[tuple[str, str], ...]:
    """Return (title, link) of each page of a sweep, its report first."""
    # The filter by parent unfolds the child runs.
    experiment_id, parent_id = parent.info.experiment_id, parent.info.run_id
    runs = _make_runs_address(server, experiment_id)
    order = f"orderByKey={quote('metrics.`rank`')}&orderByAsc=true"
    table = f"{runs}?searchFilter={quote(make_children_filter(parent_id))}&{order}&{WORKFLOW}"

    # The page of all charts orders them by name, so the curves of the objective have a page of their own. MLflow cannot
    # show two such pages one after the other in a tab, unless `?` before the fragment makes the browser load it anew.
    first = client.search_runs(
        [experiment_id], make_children_filter(parent_id), order_by=["metrics.`rank`"], max_results=len(COLORS)
    )
    params = parent.data.params
    metric = f"{params.get('objective.metric')}/{params.get('objective.average')}/median"
    values = {
        "runs": [run.info.run_id for run in first],
        "metric": metric,
        "experiments": [experiment_id],
        "plot_metric_keys": [metric],
    }

    # The report first, because MLflow itself opens on an empty page.
    chart = "&".join(f"{name}={quote(json.dumps(value))}" for name, value in values.items())
    return (
        ("report", f"{runs}/{parent_id}/artifacts/report.html?{WORKFLOW}"),
        (
            f"{metric} of the configurations ranked first (MLflow's step is the length)",
            f"{server.rstrip('/')}/?run={parent_id}#/metric?{chart}&x_axis=step&{WORKFLOW}",
        ),
        ("charts of all metrics", f"{table}&compareRunsMode=CHART"),
        ("table of configurations", table),
    )


def make_note(summary: Summary) -> str:
    """Return the Markdown note of the sweep's run: results in sentences, and how to read the pages of MLflow."""
    # The note is all that many readers see, so it also says how the pages of MLflow are to be read.
    race = [f"{describe_race(summary.race)}."] if summary.race else []
    confirmed = read_confirmations(summary) if summary.has_ended else ()
    lines = [
        f"Sweep `{summary.name}`.",
        *make_answers(summary, with_lead=True),
        *describe_order(summary),
        *race,
        *(f"{confirmation.sentence}." for confirmation in confirmed),
        f"Ranked by the median over seeds of {summary.judged_name} at {format_lengths(summary.objective.lengths)}; "
        "lengths beyond these were not used for selection.",
        "In `<metric>/<average>/...` the step is the **length**; under `progress/` it is the training step.",
        f"Runs are named by {choose_name_form(summary)}; a label is `#` and the number in drawn order, in a "
        "confirmation that of the search. Searched values are parameters, and `rank` is a metric.",
        "The report (`report.html`), a picture (`curves.png`) and every curve (`curves.parquet`) are artifacts.",
    ]
    return "\n\n".join(lines)
