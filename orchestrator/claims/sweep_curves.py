"""Read tables of the members of a sweep: a value for each configuration and seed, from its curves."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.claims.registration import read_registered_values
from orchestrator.errors import UserError
from orchestrator.interface.measurements import read_measurements
from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.configuration_scores import (
    choose_evaluations,
    read_objective,
    reduce_rows,
    score_configuration,
)
from orchestrator.results.scoring.evaluation_choice import BEST, LAST, select_steps
from orchestrator.statistics.failed_seeds import score_seeds
from orchestrator.text.wording import format_ranges
from search_spaces import ABSENT, find_nearest_name
from search_spaces.grammar.sections import list_dotted_keys, read_key


class SweepCurves:
    """The curves of a sweep's members by metric, weight average, length and evaluation.

    `curves` and `registered` are read from the sweep's folder unless they are given. Raises what `read_curves` raises.
    """

    def __init__(
        self,
        folder: Path,
        state: SweepState,
        curves: pd.DataFrame | None = None,
        registered: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.folder = folder
        self.state = state
        if curves is not None:
            self.curves = curves
        if registered is not None:
            self.registered = registered
        self.name = self.state.name
        self.objective = read_objective(self.state.spec)

        digests = {
            config_id: configuration.measurements_digest for config_id, configuration in state.configurations.items()
        }
        self.measurements = read_measurements(state.measurements_by_digest, digests)
        self.groups = self._group_lengths((self.objective.metric,))
        self._tables: dict[tuple[str, str, str], pd.DataFrame] = {}

    @cached_property
    def curves(self) -> pd.DataFrame:
        """All curves as a tidy table."""
        return read_curves(self.state)

    @cached_property
    def registered(self) -> dict[str, dict[str, Any]]:
        """The deciding values (`read_deciding_values`) of each registered claim, by id."""
        return read_registered_values(self.folder)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the sweep, sorted."""
        return tuple(sorted({member.seed for member in self.state.members}))

    @property
    def failed_count(self) -> int:
        """The number of failed members: diverged ones, and all members of packs that died."""
        return sum(member.status == "failed" for member in self.state.members)

    @property
    def steps(self) -> dict[str, int]:
        """The training steps of every configuration, by config_id."""
        configurations = self.state.configurations.items()
        return {
            config_id: int(configuration.resolved["training"]["steps"]) for config_id, configuration in configurations
        }

    def read_evaluation_interval(self, config_id: str) -> int:
        """Return the number of steps between evaluations of a configuration, all its steps if there is only one."""
        interval = self.read_setting(config_id, "evaluation.every")
        return self.steps[config_id] if interval is ABSENT or interval is None else int(interval)

    def compute_median(self, values: Iterable[float], metrics: Sequence[str]) -> float:
        """Return the median of `values` over seeds, NaN for a failed configuration or without values.

        Failed seeds count as the objective says. Without metrics (as for a difference of arms), or without a common
        direction of them, no value is the worst; then a failed seed makes the median NaN.
        """
        seed_values = list(values)
        direction = self.choose_direction(metrics)
        if not seed_values or direction == "none":
            return float(np.median(seed_values)) if seed_values else math.nan
        score = score_seeds(seed_values, self.objective.failed_seeds, direction)
        return math.nan if score.is_failed else score.median

    def choose_direction(self, metrics: Sequence[str]) -> str:
        """Return the common better direction of metrics, minimize or maximize; "none" without a common one."""
        recorded_metrics = next(iter(self.measurements.values())).metrics
        directions = {recorded_metrics[name].direction for name in metrics if name in recorded_metrics}
        return directions.pop() if len(directions) == 1 else "none"

    def read_setting(self, config_id: str, key: str) -> Any:
        """Return the value of a dotted key in a configuration; ABSENT if it is missing."""
        return read_key(self.state.configurations[config_id].resolved, key)

    def find_configurations(self, where: Mapping[str, Any]) -> list[str]:
        """Return the config_ids with all values of `where`, by dotted key. Raises UserError if there are none.

        A named part, such as `model.position`, matches by its name or by all given values.
        """
        config_ids = [
            config_id
            for config_id in self.state.configurations
            if all(_matches(self.read_setting(config_id, key), value) for key, value in where.items())
        ]
        if config_ids:
            return config_ids

        for key, value in where.items():
            recorded = [self.read_setting(config_id, key) for config_id in self.state.configurations]
            values = dict.fromkeys(str(setting) for setting in recorded if setting is not ABSENT)
            if not values:
                raise UserError(f"sweep {self.name}: no configuration has the key {key}{self._suggest_key(key)}")
            if not any(_matches(setting, value) for setting in recorded):
                raise UserError(f"sweep {self.name}: no configuration has {key}: {value}; allowed: {', '.join(values)}")
        raise UserError(f"sweep {self.name}: no configuration has all of {dict(where)}")

    def _suggest_key(self, key: str) -> str:
        """Return a hint for an unknown key: the nearest known key, or else the searched keys."""
        configurations = self.state.configurations.values()
        known_keys = {
            known_key for configuration in configurations for known_key in list_dotted_keys(configuration.resolved)
        }
        if nearest := find_nearest_name(key, known_keys):
            return f"; did you mean {nearest}?"
        searched = dict.fromkeys(known_key for configuration in configurations for known_key in configuration.values)
        return f"; searched keys: {', '.join(searched)}" if searched else ""

    def choose_configuration(self, config_ids: Sequence[str], average: str) -> str:
        """Return the best configuration by the objective, at the selection lengths."""
        return self._choose_best({config_id: self._compute_score([config_id], average) for config_id in config_ids})

    def choose_average(self, averages: Sequence[str], config_ids: Sequence[str]) -> str:
        """Return the weight average with the best score over the seeds of all these configurations."""
        return self._choose_best({average: self._compute_score(config_ids, average) for average in averages})

    def _compute_score(self, config_ids: Sequence[str], average: str) -> float:
        """Return the score over all seeds of these configurations; NaN if a seed failed under `fail`."""
        objective = self.objective
        table = self.make_table((objective.metric,), average, objective.evaluation)[sorted(objective.lengths)]
        values = table[table.index.get_level_values("config_id").isin(config_ids)].to_numpy()
        return score_configuration(reduce_rows(values, objective.reduce), objective).score

    def _choose_best(self, scores: Mapping[str, float]) -> str:
        """Return the key with the best score; the first key if all scores are NaN."""
        defined_scores = {key: score for key, score in scores.items() if not math.isnan(score)}
        best = min if self.objective.direction == "minimize" else max
        return best(defined_scores, key=defined_scores.__getitem__) if defined_scores else next(iter(scores))

    def _group_lengths(self, metrics: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Return the groups of lengths of these metrics, for all configurations of the sweep.

        "trained" are the lengths on which every configuration trains, for at least one of the metrics; "unseen" and
        "test" are lengths on which none does. A metric on a distribution without trained lengths gets
        the judged metric's trained lengths.
        """
        all_metrics = [
            metric for measurements in self.measurements.values() for metric in measurements.metrics.values()
        ]
        all_lengths = sorted({length for metric in all_metrics for length in metric.lengths})
        trained = list[set[int]]()
        for measurements in self.measurements.values():
            judged_lengths = measurements.metrics[self.objective.metric].trained_lengths
            if measured_metrics := [measurements.metrics[name] for name in metrics if name in measurements.metrics]:
                trained.append(
                    {length for metric in measured_metrics for length in metric.trained_lengths or judged_lengths}
                )

        # Lengths that only some configurations train on are neither trained nor unseen.
        trained_by_all = set.intersection(*trained)
        trained_by_any = set.union(*trained)
        selection = self.objective.lengths
        return {
            "all": tuple(all_lengths),
            "trained": tuple(length for length in all_lengths if length in trained_by_all),
            "selection": selection,
            "unseen": tuple(length for length in all_lengths if length not in trained_by_any),
            "test": tuple(length for length in all_lengths if length not in {*trained_by_any, *selection}),
        }

    def resolve_lengths(
        self, lengths: str | Sequence[int], metrics: Sequence[str], config_ids: Sequence[str]
    ) -> list[int]:
        """Return the lengths of a group or list at which these configurations measure all these metrics.

        Raises UserError for an unknown metric, a listed length that is not measured, or a group without a measured
        length.
        """
        # A claim compares the configurations at the same lengths, so only lengths that all measure count.
        measured_lengths = {length for config_id in config_ids for length in self.measurements[config_id].lengths}
        for config_id in config_ids:
            measured_metrics = self.measurements[config_id].metrics
            for metric in metrics:
                if metric not in measured_metrics:
                    raise self._make_unknown_error("metric", metric, list(measured_metrics))
                measured_lengths &= set(measured_metrics[metric].lengths)

        # Resolve the group or list; a group may have lengths that are not measured, a list may not.
        candidates = self._group_lengths(metrics)[lengths] if isinstance(lengths, str) else lengths
        resolved_lengths = [length for length in candidates if length in measured_lengths]
        metric_names = " and ".join(metrics)
        if isinstance(lengths, str):
            if not resolved_lengths:
                raise UserError(f"sweep {self.name}: {metric_names} is measured at no length of the group {lengths}")
        elif missing := sorted(set(lengths) - measured_lengths):
            raise UserError(
                f"sweep {self.name}: {metric_names} is not measured at length {format_ranges(missing)}; "
                f"allowed: {format_ranges(sorted(measured_lengths))}"
            )
        return resolved_lengths

    def make_table(self, metrics: Sequence[str], average: str, evaluation: str) -> pd.DataFrame:
        """Return a table (config_id, seed) by length of the mean of `metrics`, NaN where a value is missing.

        `evaluation` is "last", or "best", by the objective at the selection lengths. Raises UserError for an unknown
        metric or average.
        """
        tables = [self._make_table(metric, average, evaluation) for metric in metrics]
        return sum(tables[1:], start=tables[0]) / len(tables)

    def _make_table(self, metric: str, average: str, evaluation: str) -> pd.DataFrame:
        """Return the table of one metric, cached."""
        key = (metric, average, evaluation)
        if key not in self._tables:
            rows = self.curves
            for column, name in (("metric", metric), ("average", average)):
                allowed = [str(value) for value in rows[column].unique()]
                if name not in allowed:
                    raise self._make_unknown_error(column, name, allowed)
                rows = rows[rows[column] == name]
            rows = rows[select_steps(rows, self.best_steps if evaluation == BEST else self.last_steps)]

            # Failed members have no curves; reindexing gives them a row of NaN.
            rows = rows[["config_id", "seed", "length", "value"]].astype({"config_id": str})
            wide = rows.pivot(index=["config_id", "seed"], columns="length", values="value")
            configurations = self.state.configurations.items()
            pairs = [(config_id, seed) for config_id, configuration in configurations for seed in configuration.members]
            index = pd.MultiIndex.from_tuples(pairs, names=["config_id", "seed"])
            self._tables[key] = wide.reindex(index).astype(np.float64)
        return self._tables[key]

    def _make_unknown_error(self, kind: str, name: str, allowed: Sequence[str]) -> UserError:
        """Return the error for a metric or average that the sweep lacks."""
        hint = f"; did you mean {nearest}?" if (nearest := find_nearest_name(name, allowed)) else ""
        return UserError(f"sweep {self.name}: {name} is not a known {kind}; allowed: {', '.join(allowed)}{hint}")

    @cached_property
    def best_steps(self) -> pd.DataFrame:
        """The step of each member's best evaluation by the objective, at the selection lengths."""
        return choose_evaluations(self.curves, self.objective.model_copy(update={"evaluation": BEST}))

    @cached_property
    def last_steps(self) -> pd.DataFrame:
        """The step of each member's last evaluation."""
        return choose_evaluations(self.curves, self.objective.model_copy(update={"evaluation": LAST}))


def _matches(recorded: Any, required: Any) -> bool:
    """Return whether a recorded value matches the wanted one; named parts match by name or by the given values."""
    # `where` may give a part by its name alone, whatever its settings are.
    if isinstance(recorded, Mapping):
        if isinstance(required, Mapping):
            return all(key in recorded and _matches(recorded[key], value) for key, value in required.items())
        return bool(recorded.get("name") == required)

    # Lists match by their elements; apart from these, 1 and True do not match.
    if isinstance(recorded, list | tuple) and isinstance(required, list | tuple):
        return list(recorded) == list(required)
    if isinstance(recorded, bool) != isinstance(required, bool):
        return False
    return bool(recorded == required)
