"""Decide which configurations of a race get further seeds after a round, by the scores of their seeds so far.

Failed configurations leave. With `keep` the share with the best scores stays, rounded up to at least one, and so do all
configurations that tie with the last of them. With `test` every configuration stays that the test does not rule out. At
least two configurations stay, so that the best one always has a rival with as many seeds. Without `keep` and `test` all
stay.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.record.state.race import RoundOutcome
from orchestrator.results.scoring.configuration_scores import score_configuration
from orchestrator.statistics.failed_seeds import get_sign, get_worst_value
from search_spaces import Objective, Racing

MEDIAN, RANK_SUM = "median", "rank sum"
MIN_AFTER_TEST = 2  # configurations that stay after a test, if as many have not failed


def decide_round(scores: Mapping[str, Sequence[float]], racing: Racing, objective: Objective) -> RoundOutcome:
    """Return the outcome of a round from the scores of seeds, NaN for a failed one, by config_id.

    All configurations have the same seeds in the same order. Failed seeds count as `objective.failed_seeds` says.
    """
    # The ledger has None for a failed configuration.
    medians: dict[str, float | None] = {}
    for config_id, seed_scores in scores.items():
        score = score_configuration(seed_scores, objective)
        medians[config_id] = None if score.is_failed else score.score
    alive_ids = [config_id for config_id, median in medians.items() if median is not None]

    # Losses are small for good configurations in both directions.
    sign = get_sign(objective.direction)
    if racing.test is None:
        losses = {config_id: sign * median for config_id, median in medians.items() if median is not None}
        survivors = keep_best(losses, racing.count_kept(len(scores)))
        return RoundOutcome(survivors=survivors, by=MEDIAN, values=medians)

    # A test compares at least two configurations.
    if len(alive_ids) < MIN_AFTER_TEST:
        return RoundOutcome(survivors=tuple(alive_ids), by=RANK_SUM, values=dict.fromkeys(scores))
    from orchestrator.statistics.friedman import rule_out_treatments  # scipy is slow to import

    # A failed seed has the worst value whatever the policy, because a test needs a value of every seed.
    worst = get_worst_value(objective.direction)
    values_KB = [[worst if math.isnan(value) else value for value in scores[config_id]] for config_id in alive_ids]
    values_BK = sign * np.array(values_KB).T
    stays, rank_sums, p = rule_out_treatments(values_BK, float(racing.resolved()["level"]))
    sums = dict(zip(alive_ids, rank_sums.tolist(), strict=True))
    survivors = tuple(config_id for config_id, stay in zip(alive_ids, stays, strict=True) if stay)
    if len(survivors) < MIN_AFTER_TEST:
        survivors = keep_best(sums, MIN_AFTER_TEST)
    return RoundOutcome(survivors=survivors, by=RANK_SUM, values=dict.fromkeys(scores) | sums, p=p)


def keep_best(losses: Mapping[str, float], count: int) -> tuple[str, ...]:
    """Return the `count` config_ids with the smallest losses and all that tie with the last of them, in their order."""
    if not losses:
        return ()
    largest_kept = sorted(losses.values())[min(count, len(losses)) - 1]
    return tuple(config_id for config_id, loss in losses.items() if loss <= largest_kept)
