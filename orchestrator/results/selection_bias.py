"""Decide whether the compared seeds favour a configuration, because they also chose it as the first of its sweep.

The first of many is partly luck, so its lead on the same seeds is biased. Text calls it ahead instead of better. Of a
sweep of two configurations the pair is fixed before any score: which is first decides only the sign of the difference.
script/seed_comparisons.js decides the same for pairs that are chosen on the page, from the data that data.py writes.
"""

import math
from collections.abc import Sequence

from orchestrator.results.comparing.seed_comparisons import SeedComparison
from orchestrator.results.read_confirmations import has_fresh_seeds
from orchestrator.results.summary import ConfigurationResult, Summary


def find_chosen(summary: Summary, rows: Sequence[ConfigurationResult]) -> ConfigurationResult | None:
    """Return which of two configurations the sweep's seeds chose as the first; None if neither.

    None also for fresh seeds, and if the sweep has no other configuration.
    """
    first, second = rows
    if first.score == second.score or has_fresh_seeds(summary):  # of equal scores, the number decides
        return None
    if summary.planned_configurations <= 2:
        return None
    return next((row for row in rows if row.rank == 1), None)


def is_biased(summary: Summary, comparison: SeedComparison) -> bool:
    """Return whether a comparison is biased, because the compared seeds also chose one of its two configurations.

    It is not if the seeds have no interval, or have equal values.
    """
    rows = [summary.by_config_id[config_id] for config_id in (comparison.first, comparison.second)]
    has_interval = not math.isnan(comparison.outcome.low)
    return has_interval and comparison.verdict != "equal" and find_chosen(summary, rows) is not None
