"""Read evaluations of kept weights after training: at other lengths, samples or task settings."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.errors import LedgerError
from orchestrator.interface.measurements import Measurements
from orchestrator.record.files.curves import read_part
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.median_curves import Band, make_bands
from orchestrator.text.wording import compact_value, format_ranges
from search_spaces import Objective

Key = tuple[str, str, int, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class LaterEvaluation:
    """A later evaluation of the kept weights of a configuration, without influence on scores and ranks."""

    key: Key  # the `make_evaluation_key` of its record
    config_id: str
    number: int
    task: Mapping[str, Any]  # the replaced settings of the task by dotted key
    samples: int
    step: int
    seeds: tuple[int, ...]  # all seeds of the configuration
    failed: int  # how many of `seeds` have no weights
    measurements: Measurements  # with the trained lengths of the configuration
    bands: Mapping[tuple[str, str], Band]  # by metric and average, over `seeds`
    sha256: str  # the checksum of the curves

    @property
    def setting(self) -> str:
        """The replaced task settings as text, "as trained" without any."""
        return ", ".join(f"{key} {compact_value(value)}" for key, value in self.task.items()) or "as trained"

    def format_trained_lengths(self, metric: str) -> str:
        """Return the trained lengths of a metric as text; for ledgers of 1.0.0 the longest one."""
        if lengths := self.measurements.get_trained_lengths(metric):
            return format_ranges(lengths)
        longest = self.measurements.longest_trained.get(self.measurements.metrics[metric].distribution)
        return "none" if longest is None else f"up to {longest}"

    def list_metrics_like(self, base: str) -> list[str]:
        """Return the names of the metrics with this base name, one for each distribution, or else the first metric."""
        names = [name for name, metric in self.measurements.metrics.items() if metric.base == base]
        return names or list(self.measurements.metrics)[:1]


def make_evaluation_key(fields: Mapping[str, Any]) -> Key:
    """Return the key of a recorded evaluation: config_id, task settings, samples and lengths.

    If several records have the same key, the last one counts.
    """
    task = json.dumps(fields["task"], sort_keys=True)
    return fields["config_id"], task, fields["samples"], tuple(fields["measured"]["lengths"])


def read_later_evaluations(state: SweepState, objective: Objective) -> tuple[LaterEvaluation, ...]:
    """Return the later evaluations of a sweep, sorted by configuration number.

    Raises DamagedCurves for a missing or damaged file of curves, LedgerError for a record of an unknown configuration.
    """
    # An evaluation of an unknown configuration means that the ledger was edited or mixed up.
    if unknown := {fields["config_id"] for fields in state.later_evaluations} - state.configurations.keys():
        path = state.folder / LEDGER_FILE
        raise LedgerError(f"{path}: later evaluation of an unknown configuration {unknown.pop()}")

    # A repeated evaluation replaces the earlier one.
    latest_records = {make_evaluation_key(fields): fields for fields in state.later_evaluations}
    evaluations = [_read_evaluation(state, fields, objective) for fields in latest_records.values()]
    return tuple(sorted(evaluations, key=lambda evaluation: evaluation.number))


def _read_evaluation(state: SweepState, fields: Mapping[str, Any], objective: Objective) -> LaterEvaluation:
    """Return the later evaluation that a record describes, with the bands of its curves."""
    # A later evaluation may use another task, but the trained lengths stay as in training.
    trained_measurements = Measurements.from_recorded(
        state.measurements_by_digest[state.configurations[fields["config_id"]].measurements_digest]
    )
    measurements = Measurements.from_recorded(fields["measured"]).replace_trained_lengths(trained_measurements)

    # The table has every metric at all lengths; a metric counts only at the lengths that its record names.
    curves = read_part(state.folder, fields["file"], fields["sha256"]).to_pandas()
    directions = {name: metric.direction for name, metric in measurements.metrics.items()}
    for name, metric in measurements.metrics.items():
        curves = curves[(curves["metric"] != name) | curves["length"].isin(metric.lengths)]
    bands = make_bands(curves, objective, directions)
    return LaterEvaluation(
        key=make_evaluation_key(fields),
        config_id=fields["config_id"],
        number=state.configurations[fields["config_id"]].number,
        task=fields["task"],
        samples=fields["samples"],
        step=fields["step"],
        seeds=tuple(fields["seeds"]),
        failed=sum(digest is None for digest in fields["weights"]),
        measurements=measurements,
        bands={(metric, average): band for (_, metric, average), band in bands.items()},
        sha256=fields["sha256"],
    )
