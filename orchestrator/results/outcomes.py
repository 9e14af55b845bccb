"""Collect the inputs of effects and comparisons: searched values of configurations, outcomes of their seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from orchestrator.results.scoring.median_curves import compute_quartiles_at
from orchestrator.results.summary import CACHED_SUMMARIES, ConfigurationResult, Summary
from orchestrator.statistics.quartiles import Quartiles
from search_spaces import ABSENT
from search_spaces.grammar.sections import read_key


def collect_searched_values(summary: Summary) -> dict[str, dict[str, Any]]:
    """Return the searched values of every complete configuration by config_id and dotted key."""
    rows = (row for row in summary.rows if row.is_complete)
    values_by_configuration = {
        row.config_id: {key: get_searched_value(summary, row, key) for key in summary.searched} for row in rows
    }

    # Statistics expect that a configuration lacks the conditional keys that it did not draw.
    return {
        config_id: {key: value for key, value in values.items() if value is not ABSENT}
        for config_id, values in values_by_configuration.items()
    }


def get_searched_value(summary: Summary, row: ConfigurationResult, key: str, missing: Any = ABSENT) -> Any:
    """Return the value of a searched key in a configuration, or `missing`.

    If a listed configuration leaves the key out, this is the fixed value of the key, or `missing` for a section.
    """
    value = row.values.get(key, ABSENT)
    if value is ABSENT and summary.searched[key] == "listed" and summary.design.kind == "fixed":
        value = read_key(summary.provenance[row.config_id].resolved, key)
        value = ABSENT if isinstance(value, Mapping) and missing is not ABSENT else value
    return missing if value is ABSENT else value


@lru_cache(CACHED_SUMMARIES)
def compute_test_outcomes(summary: Summary) -> dict[str, Quartiles]:
    """Return the quartiles over seeds of the mean over the test lengths, by config_id of complete configurations.

    A failed configuration has its score, infinite or NaN. Empty without test lengths.
    """
    quartiles: dict[str, Quartiles] = {}
    # Failed configurations count with their score, because effects over successful ones alone would mislead.
    for row in summary.rows if summary.test_lengths else ():
        band = summary.find_judged_band(row)
        outcome = (
            compute_quartiles_at(band, summary.test_lengths, summary.objective) if band and not row.has_failed else None
        )
        if row.is_complete and row.score_quartiles is not None:
            quartiles[row.config_id] = outcome or row.score_quartiles
    return quartiles


def collect_shared_seed_values(summary: Summary, lengths: Sequence[int], reduce: str) -> dict[str, dict[int, float]]:
    """Return the judged metric of the common seeds, reduced over `lengths`, by config_id; NaN for a failed seed."""
    values_by_config = {}
    for row in (row for row in summary.rows if row.is_complete):
        band = summary.find_judged_band(row)
        value_by_seed = band.reduce_seed_curves(lengths, reduce) if band else {}
        values_by_config[row.config_id] = {
            seed: value_by_seed.get(seed, math.nan) for seed in sorted(summary.shared_seeds)
        }
    return values_by_config
