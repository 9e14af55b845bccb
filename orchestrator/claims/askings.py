"""Group the askings of a claim, which may ask another claim again, and pool their seeds.

All askings have the verdict of the last one that was run, over the seeds of all askings with the same question. So a
claim that is asked until it holds is judged by all of its data, and each asking counts in Holm's correction.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from orchestrator.claims.judgement import Judgement
from orchestrator.claims.registration import read_deciding_values
from orchestrator.claims.values import ArmValues
from orchestrator.plan.recorded import rebuild_member
from orchestrator.text.wording import differing_keys
from search_spaces.grammar.problems import dotted_keys, lookup


def group_askings(judgements: Sequence[Judgement]) -> list[list[Judgement]]:
    """Return the claims in the order of the page, each as the list of its askings in order."""
    by_id = {judgement.claim.id: judgement for judgement in judgements}

    # Begin with the claims that no other claim asks again, and add each later asking.
    repeats = {judgement.claim.asked_again for judgement in judgements}
    askings = [[judgement] for judgement in judgements if judgement.claim.id not in repeats]
    for asking in askings:
        while (later := by_id.get(asking[-1].claim.asked_again or "")) is not None:
            asking.append(later)
    return askings


def list_changed_keys(earlier: Judgement, later: Judgement) -> list[str]:
    """Return the keys of a claim and of its arms that differ between two askings, except seeds.

    Keys of settings are cut to two parts, such as training.schedule. Technical settings, which do not change results,
    are ignored, because older versions have fewer of them, and so are the searched keys of an arm with several
    configurations.
    """
    # Compare the deciding values, then the settings of each arm.
    first, second = (read_deciding_values(judgement.claim) for judgement in (earlier, later))
    changed = [key for key in differing_keys(first, second) if key not in ("id", "says", "sweep", "control")]
    technical = _list_technical_keys(earlier) | _list_technical_keys(later)
    for arms in zip(_read_arm_settings(earlier), _read_arm_settings(later), strict=False):
        changed += [".".join(key.split(".")[:2]) for key in differing_keys(*arms) if key not in technical]
    return list(dict.fromkeys(changed))


def _list_technical_keys(judgement: Judgement) -> set[str]:
    """Return the technical settings of a sweep, which do not change results."""
    measurements = judgement.sweep.measured.values() if judgement.sweep is not None else ()
    return {key for measured in measurements for key in measured.technical}


def _read_arm_settings(judgement: Judgement) -> list[dict[str, Any]]:
    """Return the settings of each compared arm, of its first configuration, by dotted key."""
    if judgement.sweep is None or judgement.arms is None:
        return []
    arm_settings = []
    for arm in judgement.arms.values():
        # The configurations of an arm differ in searched keys alone, so the first stands for all.
        first = judgement.sweep.state.configurations[arm.config_ids[0]]
        searched = set(first.values) if len(arm.config_ids) > 1 else set()
        settings = rebuild_member(first).to_dict()  # with the newer fields that an older record lacks
        values = {key: lookup(settings, key) for key in dotted_keys(settings) if key not in searched}
        arm_settings.append({key: value for key, value in values.items() if not isinstance(value, dict)})
    return arm_settings


def find_poolable(askings: Sequence[Judgement]) -> list[Judgement]:
    """Return the last asking and earlier ones that differ from it only in their seeds, in order.

    Trends and comparisons over configurations are not pooled.
    """
    # Trends and comparisons over configurations have no values by seed that could be joined.
    last = askings[-1]
    if last.sweep is None or last.claim.question == "trend" or last.claim.unit is not None:
        return [last]
    return [
        asking
        for asking in askings
        if asking is last or (asking.sweep is not None and not list_changed_keys(asking, last))
    ]


def pool_arms(askings: Sequence[Judgement]) -> dict[str, ArmValues]:
    """Return the arms of the last asking over the seeds of all askings; a repeated seed counts once."""
    arms: dict[str, ArmValues] = {}
    for name in askings[-1].claim.compare:
        # Everything else of an arm is that of the last asking.
        samples = [asking.arms[name] for asking in askings if asking.arms is not None]
        arms[name] = replace(
            samples[-1],
            lengths=_join_rows([sample.lengths for sample in samples]),
            values=_join_rows([sample.values for sample in samples]),
            learned=_join_rows([sample.learned for sample in samples]),
            floor=_join_rows([sample.floor for sample in samples]),
            ceiling=_join_rows([sample.ceiling for sample in samples]),
        )
    return arms


def _join_rows(rows: Sequence[Any]) -> Any:
    """Return all rows; of rows with the same index the first."""
    joined = pd.concat(rows)
    return joined[~joined.index.duplicated()]
