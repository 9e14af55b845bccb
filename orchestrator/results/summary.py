"""The results of a sweep as plain data: ranked configurations and bands, for tables and figures."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.interface.measurements import Measurements
from orchestrator.record.state.race import Race
from orchestrator.record.state.state import SweepState
from orchestrator.results.later_evaluations import LaterEvaluation, read_later_evaluations
from orchestrator.results.pack_environments import ConfigurationProvenance
from orchestrator.results.scoring.evaluation_choice import BEST
from orchestrator.results.scoring.length_groups import LengthGroups, make_length_groups
from orchestrator.results.scoring.median_curves import Band, CurveKey
from orchestrator.results.scoring.search_design import count_planned
from orchestrator.results.scoring.validation_scores import has_early_stops
from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.text.wording import NOT_REACHED, format_count, format_lengths, format_metric
from search_spaces import Objective
from trainers.tasks.metric_descriptions import RecordedMetric

CACHED_SUMMARIES = 4  # with cached effects and comparisons, which a report reads several times


@dataclass(frozen=True, kw_only=True)
class ConfigurationResult:
    """The results of a configuration. Score, rank and quartiles are None until all its seeds have ended."""

    config_id: str
    number: int
    values: dict[str, Any]  # drawn values by dotted key
    groups: LengthGroups  # of the judged metric
    is_complete: bool  # never of a pruned configuration
    has_failed: bool = False
    rank: int | None = None
    score: float | None = None
    score_q25: float = math.nan
    score_q75: float = math.nan
    trained_quartiles: Quartiles | None = None
    selection_quartiles: Quartiles | None = None
    test_quartiles: Quartiles | None = None
    # The judged metric on other distributions, by metric and group (trained, test).
    other_distributions: Mapping[tuple[str, str], Quartiles] = field(default_factory=dict)
    generalization_length: int | None = None
    area_beyond: float | None = None
    seeds: tuple[int, ...] = ()  # planned seeds
    seeds_run: int = 0
    seeds_failed: int = 0  # seeds that crashed or diverged
    seeds_crashed: int = 0  # seeds lost with a pack that died
    stop_steps: tuple[int, ...] = ()  # the steps at which seeds stopped early
    rounds: int = 0  # rounds of a race that the configuration was in; 0 without a race
    pruned_at: int | None = None  # the step of the rung at which it was pruned
    form: str = ""  # how logits were computed; "" for the plain way
    failures: tuple[tuple[int, str], ...] = ()  # the seed and the reason of every failed seed

    # The names in version 2.0.0, which scripts of users may read from `Sweep.best`.
    trained = property(lambda self: self.trained_quartiles)
    selection = property(lambda self: self.selection_quartiles)
    test = property(lambda self: self.test_quartiles)

    @property
    def seeds_planned(self) -> int:
        """The number of planned seeds."""
        return len(self.seeds)

    @property
    def why_unranked(self) -> str:
        """Why the configuration has no rank: "failed", "pruned at step 300", or "..." while seeds are unfinished.

        "no score" if no seed failed, but the judged metric is NaN.
        """
        if self.has_failed:
            return "failed" if self.seeds_failed else "no score"
        return "..." if self.pruned_at is None else f"pruned at step {self.pruned_at}"

    @property
    def why_incomplete(self) -> str:
        """Why an incomplete configuration cannot be compared: "has not ended" or "was pruned at step 300"."""
        return "has not ended" if self.pruned_at is None else f"was {self.why_unranked}"

    @property
    def score_quartiles(self) -> Quartiles | None:
        """The score with its quartiles; None until all seeds have ended."""
        return None if self.score is None else Quartiles(self.score_q25, self.score, self.score_q75)


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary:
    """The results of a sweep."""

    state: SweepState  # of the ledger
    status: str  # the recorded status of a sweep that ended, else running or interrupted
    objective: Objective
    measurements: Mapping[str, Measurements]  # by config_id
    provenance: Mapping[str, ConfigurationProvenance]  # the rest of each configuration's record, by config_id
    searched: dict[str, str]  # the kind of domain of every searched key
    design: Design  # how configurations were drawn
    rows: tuple[ConfigurationResult, ...]  # by score, unfinished configurations last
    bands: dict[CurveKey, Band]  # at the judged evaluation of each seed
    notes: tuple[str, ...]  # sentences on limitations of these results
    warnings: tuple[str, ...] = ()  # sentences that make all results doubtful

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.state.name

    @property
    def folder(self) -> Path:
        """The folder of the sweep."""
        return self.state.folder

    @property
    def has_ended(self) -> bool:
        """Whether every planned configuration has ended."""
        return self.status in ("complete", "failed")

    @property
    def planned_configurations(self) -> int:
        """The number of configurations when all are drawn."""
        drawn_count = len(self.state.configurations)
        return drawn_count if self.has_ended else max(count_planned(self.state), drawn_count)

    @cached_property
    def race(self) -> Race | None:
        """The rounds of a race over seeds; None without a race."""
        return self.state.race if self.rows else None

    @cached_property
    def has_early_stops(self) -> bool:
        """Whether members may stop early."""
        return has_early_stops(self.state)

    @cached_property
    def later_evaluations(self) -> tuple[LaterEvaluation, ...]:
        """The evaluations of kept weights after training; raises what `read_later_evaluations` raises."""
        return read_later_evaluations(self.state, self.objective)

    @property
    def axis(self) -> str:
        """The unit of lengths: the name of the axis in figures."""
        return next((measurements.axis for measurements in self.measurements.values()), "length")

    @cached_property
    def by_config_id(self) -> dict[str, ConfigurationResult]:
        """The rows by config_id."""
        return {row.config_id: row for row in self.rows}

    @property
    def first(self) -> ConfigurationResult | None:
        """The configuration ranked first; None before one has a score."""
        return next((row for row in self.rows if row.rank == 1), None)

    @cached_property
    def metrics(self) -> dict[str, RecordedMetric]:
        """Every recorded metric by name, of the first configuration that has it."""
        # Configurations may have different tasks, so different metrics.
        metrics: dict[str, RecordedMetric] = {}
        for measurements in self.measurements.values():
            for name, metric in measurements.metrics.items():
                metrics.setdefault(name, metric)
        return metrics

    @cached_property
    def headline(self) -> tuple[str, ...]:
        """The metrics worth a chart: the judged one, then the tasks' headline metrics, each on all distributions."""
        # Tasks name headline metrics by their base, which every distribution has.
        bases = (base for measurements in self.measurements.values() for base in measurements.headline)
        names = (name for base in bases for name, metric in self.metrics.items() if base in (metric.base, name))
        return tuple(dict.fromkeys([self.objective.metric, *self.distributions, *names]))

    @cached_property
    def averages(self) -> tuple[str, ...]:
        """The weight averages, the judged one first."""
        averages = (average for measurements in self.measurements.values() for average in measurements.averages)
        return tuple(dict.fromkeys([self.objective.average, *averages]))

    @cached_property
    def distributions(self) -> tuple[str, ...]:
        """The names of the judged metric on every distribution, in the order of the task."""
        judged_metric = self.metrics.get(self.objective.metric)
        return tuple(
            name for name, metric in self.metrics.items() if judged_metric and metric.base == judged_metric.base
        )

    @cached_property
    def unreached_metrics(self) -> frozenset[str]:
        """The minimized metrics that are infinite for a seed because it never reached their threshold."""
        # The infinity of a maximized metric comes from failed seeds instead.
        minimized = {name for name, metric in self.metrics.items() if metric.direction == "minimize"}
        return frozenset(
            metric_name
            for (_, metric_name, _), band in self.bands.items()
            if metric_name in minimized and any(math.inf in values for values in band.curves_by_seed.values())
        )

    @property
    def infinity_text(self) -> str:
        """The text for an infinite value of the judged metric."""
        return NOT_REACHED if self.objective.metric in self.unreached_metrics else "inf"

    def find_length_groups(self, row: ConfigurationResult, metric: str) -> LengthGroups:
        """Return the length groups of a metric of a configuration."""
        return make_length_groups(self.measurements[row.config_id], self.objective, metric)

    def find_judged_band(self, row: ConfigurationResult) -> Band | None:
        """Return the band by which a configuration is ranked; None before one of its seeds has ended."""
        return self.bands.get((row.config_id, *self.objective_curve))

    def get_direction(self, metric: str) -> str:
        """Return the better direction of a metric; the objective sets the direction of its own metric."""
        return self.objective.direction if metric == self.objective.metric else self.metrics[metric].direction

    @property
    def objective_curve(self) -> tuple[str, str]:
        """The metric and average by which configurations are ranked."""
        return self.objective.metric, self.objective.average

    @property
    def judged_name(self) -> str:
        """The objective's metric and average as text, with the evaluation unless it is the last."""
        metric, average = self.objective_curve
        if self.objective.evaluation == BEST:
            return f"{metric} ({'' if average == 'raw' else f'{average}, '}chosen evaluation)"
        return format_metric(metric, average)

    @property
    def score_label(self) -> str:
        """The score as text: "score: mean loss (ema) at lengths 6-7"."""
        reduction = {"mean": "mean", "max": "largest", "last": "value at the last"}[self.objective.reduce]
        return f"score: {reduction} {self.judged_name} at {format_lengths(self.objective.lengths)}"

    @property
    def is_score_selection_median(self) -> bool:
        """Whether the score is the median at the selection lengths, which is a column of tables."""
        return self.objective.reduce == "mean" and self.objective.seeds == "median"

    @cached_property
    def common_groups(self) -> LengthGroups | None:
        """The length groups of all configurations; None if they differ."""
        groups = {row.groups for row in self.rows}
        return groups.pop() if len(groups) == 1 else None

    @cached_property
    def test_lengths(self) -> tuple[int, ...]:
        """The test lengths of every configuration: beyond training and without influence on selection."""
        return tuple(sorted(set.intersection(*(set(row.groups.test) for row in self.rows)))) if self.rows else ()

    @property
    def complete_configurations(self) -> int:
        """The number of configurations with all their seeds."""
        return sum(row.is_complete for row in self.rows)

    @property
    def seeds_in_words(self) -> str:
        """The number of seeds of complete configurations as text: "4 seeds", or "2 to 16 seeds" if they differ."""
        # Before any configuration is complete, the plan is all that is known.
        counts = [*map(len, self._seeds_of_complete)] or [max((row.seeds_planned for row in self.rows), default=0)]
        min_count, max_count = min(counts), max(counts)
        return format_count(max_count, "seed") if min_count == max_count else f"{min_count} to {max_count} seeds"

    @cached_property
    def shared_seeds(self) -> frozenset[int]:
        """The seeds that all complete configurations have; effects are computed from them."""
        return frozenset.intersection(*seeds) if (seeds := self._seeds_of_complete) else frozenset()

    @property
    def has_unequal_seeds(self) -> bool:
        """Whether complete configurations have different seeds."""
        return len(set(self._seeds_of_complete)) > 1

    @property
    def _seeds_of_complete(self) -> list[frozenset[int]]:
        """The seeds of each complete configuration."""
        return [frozenset(row.seeds) for row in self.rows if row.is_complete]

    @property
    def seeds_run(self) -> int:
        """The number of members that have ended."""
        return sum(row.seeds_run for row in self.rows)

    @property
    def seeds_failed(self) -> int:
        """The number of members that failed."""
        return sum(row.seeds_failed for row in self.rows)

    @property
    def have_all_failed(self) -> bool:
        """Whether members have ended, and all of these failed: then none counts as anything in a median."""
        return 0 < self.seeds_run == self.seeds_failed

    @property
    def stop_steps(self) -> tuple[int, ...]:
        """The steps at which members stopped early, ascending."""
        return tuple(sorted(step for row in self.rows for step in row.stop_steps))
