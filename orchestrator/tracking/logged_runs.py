"""Read the runs of any MLflow experiment: parameters and histories of metrics."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from orchestrator.errors import UserError
from orchestrator.tracking.address import get_sqlite_path
from orchestrator.tracking.store import iterate_pages, open_client
from orchestrator.tracking.tracking_errors import convert_tracking_errors
from trainers.errors import suggest_nearest


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """A run: its parameters, the names of all its metrics, and (name, step, value) of the wanted metrics."""

    run_id: str
    params: dict[str, str]
    names: set[str]
    points: list[tuple[str, int, float]]


def read_runs(uri: str, experiment: str, is_wanted: Callable[[str], bool]) -> Iterator[LoggedRun]:
    """Yield the runs of an experiment that are not deleted, with the points of metrics whose names `is_wanted` accepts.

    Raises UserError for an unknown store or experiment, TrackingError if the store cannot be reached.
    """
    database = get_sqlite_path(uri)
    if database is not None and not database.is_file():
        raise UserError(f"{uri}: there is no such file")  # MLflow would create it
    with convert_tracking_errors(uri):
        # A misspelt name gets a hint, which needs all names.
        client = open_client(uri)
        experiment_ids = {item.name: item.experiment_id for item in iterate_pages(client.search_experiments)}
        if experiment not in experiment_ids:
            text = f"--experiment {experiment}: not in {uri}; allowed: {', '.join(experiment_ids) or 'none'}"
            raise UserError(text + suggest_nearest(experiment, experiment_ids))

        # Histories cost a request each, so only wanted metrics are read.
        search = partial(client.search_runs, [experiment_ids[experiment]], order_by=["attributes.start_time ASC"])
        for run in iterate_pages(search):
            names = set(run.data.metrics)
            points = [
                (name, point.step, point.value)
                for name in sorted(names)
                if is_wanted(name)
                for point in client.get_metric_history(run.info.run_id, name)
            ]
            yield LoggedRun(run_id=run.info.run_id, params=run.data.params, names=names, points=points)
