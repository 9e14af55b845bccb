"""The askings of a claim: which claims they are, what they changed, and the seeds of several as one sample.

All askings have one verdict, of the last one that was run, over the seeds of all that ask the same. So a claim that is
asked until it comes out is judged by everything that was asked, and each asking counts in Holm's correction.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from orchestrator.claims.judgement import Judgement
from orchestrator.claims.registration import deciding_values
from orchestrator.claims.values import ArmValues
from orchestrator.wording import differing_keys
from search_spaces.grammar.problems.findings import dotted_keys, lookup


def group_askings(judgements: Sequence[Judgement]) -> list[list[Judgement]]:
    """Return the claims in the order of the page, each as the list of its askings, the last one last."""
    by_id = {one.claim.id: one for one in judgements}
    again = {one.claim.asked_again for one in judgements}
    askings = [[one] for one in judgements if one.claim.id not in again]
    for asking in askings:
        while (following := by_id.get(asking[-1].claim.asked_again or "")) is not None:
            asking.append(following)
    return askings


def changed_keys(before: Judgement, one: Judgement) -> list[str]:
    """Return what differs between two askings of a claim, other than the seeds: keys of the claim and of its arms."""
    first, second = (deciding_values(asked.claim) for asked in (before, one))
    changed = [key for key in differing_keys(first, second) if key not in ("id", "says", "sweep", "control")]
    for arms in zip(_trained_values(before), _trained_values(one), strict=False):
        changed += [key for key in differing_keys(*arms) if key not in changed]
    return changed


def _trained_values(one: Judgement) -> list[dict[str, Any]]:
    """Return the settings by dotted key of the first configuration of each compared arm."""
    if one.members is None or one.arms is None:
        return []
    resolved = [one.members.state.configurations[arm.config_ids[0]].resolved for arm in one.arms.values()]
    return [
        {key: lookup(values, key) for key in dotted_keys(values) if not isinstance(lookup(values, key), dict)}
        for values in resolved
    ]


def find_poolable(askings: Sequence[Judgement]) -> list[Judgement]:
    """Return the askings that ask the same as the last one of other seeds, in order, the last one included.

    Trends and comparisons of configurations, whose values are not seeds, are not pooled.
    """
    last = askings[-1]
    if last.members is None or last.claim.question == "trend" or last.claim.unit is not None:
        return [last]
    return [one for one in askings if one is last or (one.members is not None and not changed_keys(one, last))]


def pool_arms(askings: Sequence[Judgement]) -> dict[str, ArmValues]:
    """Return the arms of the last asking over the seeds of all askings; a seed that was trained twice counts once."""
    arms: dict[str, ArmValues] = {}
    for name in askings[-1].claim.compare:
        samples = [one.arms[name] for one in askings if one.arms is not None]
        arms[name] = replace(
            samples[-1],
            lengths=_join([one.lengths for one in samples]),
            values=_join([one.values for one in samples]),
            learned=_join([one.learned for one in samples]),
            floor=_join([one.floor for one in samples]),
            ceiling=_join([one.ceiling for one in samples]),
        )
    return arms


def _join(rows: Sequence[Any]) -> Any:
    joined = pd.concat(rows)
    return joined[~joined.index.duplicated()]
