"""Store the measurements of a configuration in the ledger, so that reading it needs no task or model class.

The record of a configuration names its measurements by digest, under `measured`. The first record with a new digest
also has them in full, under `measured_in_full`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from orchestrator.text.wording import format_ranges
from trainers.tasks.metric_descriptions import RecordedMetric


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """The measurements of a configuration. Its first metric has the trained distribution."""

    lengths: tuple[int, ...]  # evaluated lengths
    averages: tuple[str, ...]  # names of weight averages
    metrics: Mapping[str, RecordedMetric]  # by name
    longest_trained: Mapping[str, int]  # the longest trained length of each distribution
    headline: tuple[str, ...]  # base names of the metrics worth a chart
    trained: Mapping[str, tuple[int, ...]]  # trained lengths of each distribution; empty in ledgers of 1.0.0
    technical: tuple[str, ...]  # dotted keys whose values do not change results
    axis: str = "length"  # the unit of lengths, such as depth or digits
    # For each average that is still mostly its initial weights: their share, and a remedy.
    start_shares: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    task_module: str = ""  # top-level module of the task's class; "" if it is not recorded

    def replace_trained_lengths(self, recorded: Self) -> Self:
        """Return these measurements with the trained lengths of `recorded`."""
        # Ledgers of 1.0.0 have trained lengths at the metrics alone.
        trained = {name: {*lengths} for name, lengths in recorded.trained.items()}
        for metric in recorded.metrics.values():
            trained.setdefault(metric.distribution, set()).update(metric.trained_lengths)

        # Keep the trained lengths at which a metric is evaluated.
        metrics = {
            name: replace(
                metric,
                trained_lengths=tuple(sorted(trained.get(metric.distribution, set()).intersection(metric.lengths))),
            )
            for name, metric in self.metrics.items()
        }
        return replace(self, metrics=metrics, longest_trained=recorded.longest_trained, trained=recorded.trained)

    def get_trained_lengths(self, metric: str) -> tuple[int, ...]:
        """Return the trained lengths of a metric, evaluated or not; empty without any, and in ledgers of 1.0.0."""
        return self.trained.get(self.metrics[metric].distribution, ())

    def list_further_distributions(self) -> tuple[str, ...]:
        """Return the names of the distributions besides the trained one, which prefix the names of their metrics."""
        return tuple(self._list_lengths())[1:]

    def describe_lengths(self) -> str:
        """Return the evaluated lengths as text, further distributions by name: "1-5; hard: 3-5; long: 6-9"."""
        (_, first_lengths), *others = self._list_lengths().items()
        parts = [f"{name}: {format_ranges(lengths)}" for name, lengths in others]
        return "; ".join([format_ranges(first_lengths), *parts])

    def _list_lengths(self) -> dict[str, tuple[int, ...]]:
        """Return the evaluated lengths by distribution, the trained distribution first."""
        return {metric.distribution: metric.lengths for metric in self.metrics.values()}

    def to_fields(self) -> dict[str, Any]:
        """Return the measurements as ledger fields; metrics with the same distribution and lengths are grouped."""
        # Only neighbours are grouped, so that metrics keep their order.
        test_sets = []
        for (distribution, lengths, trained), group in itertools.groupby(self.metrics.items(), _get_test_set_key):
            test_set = {"distribution": distribution, "lengths": list(lengths), "trained_lengths": list(trained)}
            test_sets.append({**test_set, "metrics": {name: [metric.base, metric.direction] for name, metric in group}})

        # Newer fields are left out at their defaults, so that digests of older versions stay valid.
        return {
            "lengths": list(self.lengths),
            "averages": list(self.averages),
            "sets": test_sets,
            "longest_trained": dict(self.longest_trained),
            "headline": list(self.headline),
            "trained": {name: list(lengths) for name, lengths in self.trained.items()},
            "technical": list(self.technical),
            **({} if self.axis == "length" else {"axis": self.axis}),
            **({"start_shares": {k: list(v) for k, v in self.start_shares.items()}} if self.start_shares else {}),
            **({"task_module": self.task_module} if self.task_module else {}),
        }

    @classmethod
    def from_recorded(cls, fields: Mapping[str, Any]) -> Self:
        """Return the measurements from the fields that `to_fields` returned, also by an older version."""
        return cls(
            lengths=tuple(fields["lengths"]),
            averages=tuple(fields["averages"]),
            metrics={
                name: RecordedMetric(
                    base,
                    test_set["distribution"],
                    direction,
                    tuple(test_set["lengths"]),
                    tuple(test_set["trained_lengths"]),
                )
                for test_set in fields["sets"]
                for name, (base, direction) in test_set["metrics"].items()
            },
            longest_trained=dict(fields["longest_trained"]),
            headline=tuple(fields["headline"]),
            # Older versions did not record these fields.
            trained={name: tuple(lengths) for name, lengths in fields.get("trained", {}).items()},
            technical=tuple(fields.get("technical", ())),
            axis=fields.get("axis", "length"),
            start_shares={label: (share, remedy) for label, (share, remedy) in fields.get("start_shares", {}).items()},
            task_module=fields.get("task_module", ""),
        )


def _get_test_set_key(item: tuple[str, RecordedMetric]) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return the distribution, lengths and trained lengths that metrics of a test set share."""
    metric = item[1]
    return metric.distribution, metric.lengths, metric.trained_lengths


def make_measurement_fields(measurements: Measurements, recorded_digests: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a configuration's record with its measurements, in full if their digest is new."""
    # Most configurations of a sweep have equal measurements, so each digest is recorded in full once.
    fields = measurements.to_fields()
    digest = hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]
    return {"measured": digest} | ({} if digest in recorded_digests else {"measured_in_full": {digest: fields}})


def read_measurements(in_full: Mapping[str, Mapping[str, Any]], digests: Mapping[str, str]) -> dict[str, Measurements]:
    """Return the measurements of each configuration by config_id; `digests` maps config_ids to keys of `in_full`."""
    by_digest = {digest: Measurements.from_recorded(fields) for digest, fields in in_full.items()}
    return {config_id: by_digest[digest] for config_id, digest in digests.items()}


def find_partial_metric_lengths(recorded: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    """Return the lengths of each recorded metric that is measured only at some of the evaluated lengths."""
    lengths: dict[str, set[int]] = {}
    for fields in recorded:
        for test_set in fields["sets"]:
            # The lengths of a metric are a subset of the evaluated lengths, so a smaller number means that some are
            # missing.
            if len(test_set["lengths"]) < len(fields["lengths"]):
                lengths |= {name: set(test_set["lengths"]) for name in test_set["metrics"]}
    return lengths
