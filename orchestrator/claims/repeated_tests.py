"""Group the tests of a claim, which another claim may repeat (`asked_again`), and pool their seeds.

All tests of a claim have the verdict of the last one that was run, over the seeds of all tests with the same question.
So a claim that is tested until it holds is judged by all of its data, and each test counts in Holm's correction.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd

from orchestrator.claims.arm_values import ArmValues
from orchestrator.claims.judgement import Judgement
from orchestrator.claims.registration import read_deciding_values
from orchestrator.plan.recorded_configurations import rebuild_member
from orchestrator.text.wording import list_differing_keys
from search_spaces.grammar.sections import list_dotted_keys, read_key


def group_tests(judgements: Sequence[Judgement]) -> list[list[Judgement]]:
    """Return a list for each claim, in the order of the page: its first test, then the repeats in order."""
    by_id = {judgement.claim.id: judgement for judgement in judgements}

    # `asked_again` names the next test of a claim, so begin with the tests that no other names.
    repeat_ids = {judgement.claim.asked_again for judgement in judgements}
    groups = [[judgement] for judgement in judgements if judgement.claim.id not in repeat_ids]
    for tests in groups:
        while (repeat := by_id.get(tests[-1].claim.asked_again or "")) is not None:
            tests.append(repeat)
    return groups


def find_judged_test(tests: Sequence[Judgement]) -> Judgement:
    """Return the test that decides a claim: the last that was run, or the last if none was."""
    return next((test for test in reversed(tests) if test.sweep is not None), tests[-1])


def name_judged_tests(judged: Judgement) -> str:
    """Return the id of the judged test, or the ids of the tests whose seeds it pools, as text."""
    return f"the seeds of {' and '.join(judged.pooled)} together" if judged.pooled else judged.claim.id


def name_tests(tests: Sequence[Judgement]) -> list[str]:
    """Return the id of each test of a claim, with the keys that it changed from the test before."""
    names = [tests[0].claim.id]
    for earlier, later in pairwise(tests):
        changed_keys = list_changed_keys(earlier, later)
        names.append(f"{later.claim.id} (other {', '.join(changed_keys)})" if changed_keys else later.claim.id)
    return names


def list_changed_keys(earlier: Judgement, later: Judgement) -> list[str]:
    """Return the keys of a claim and of its arms that differ between two tests, except seeds.

    Keys of settings are cut to two parts, such as training.schedule. Technical settings do not change results and older
    versions have fewer of them, so they are ignored. So are the searched keys of an arm with several configurations.
    """
    # These four keys of a claim always differ or do not change what is measured.
    first, second = (read_deciding_values(judgement.claim) for judgement in (earlier, later))
    changed_keys = [key for key in list_differing_keys(first, second) if key not in ("id", "says", "sweep", "control")]

    # Two sweeps may train an arm of the same name with other settings.
    technical = _list_technical_keys(earlier) | _list_technical_keys(later)
    for arms in zip(_read_arm_settings(earlier), _read_arm_settings(later), strict=False):
        changed_keys += [".".join(key.split(".")[:2]) for key in list_differing_keys(*arms) if key not in technical]
    return list(dict.fromkeys(changed_keys))


def _list_technical_keys(judgement: Judgement) -> set[str]:
    """Return the technical settings of a sweep, which do not change results."""
    all_measurements = judgement.sweep.measurements.values() if judgement.sweep is not None else ()
    return {key for measurements in all_measurements for key in measurements.technical}


def _read_arm_settings(judgement: Judgement) -> list[dict[str, Any]]:
    """Return the settings of each compared arm, of its first configuration, by dotted key."""
    if judgement.sweep is None or judgement.arms is None:
        return []
    arm_settings = []
    for arm in judgement.arms.values():
        # The configurations of an arm differ in searched keys alone, so the first represents all.
        first = judgement.sweep.state.configurations[arm.config_ids[0]]
        searched = set(first.values) if len(arm.config_ids) > 1 else set()
        settings = rebuild_member(first).to_dict()  # with the newer fields that an older record lacks
        values = {key: read_key(settings, key) for key in list_dotted_keys(settings) if key not in searched}
        arm_settings.append({key: value for key, value in values.items() if not isinstance(value, dict)})
    return arm_settings


def find_poolable_tests(tests: Sequence[Judgement]) -> list[Judgement]:
    """Return the last test and earlier ones that differ from it only in their seeds, in order."""
    # Trends and comparisons over configurations have no values by seed that could be joined.
    last = tests[-1]
    if last.sweep is None or last.claim.question == "trend" or last.claim.unit is not None:
        return [last]
    return [test for test in tests if test is last or (test.sweep is not None and not list_changed_keys(test, last))]


def pool_arms(tests: Sequence[Judgement]) -> dict[str, ArmValues]:
    """Return the arms of the last test over the seeds of all tests; a repeated seed counts once."""
    arms: dict[str, ArmValues] = {}
    for name in tests[-1].claim.compare:
        samples = [test.arms[name] for test in tests if test.arms is not None]
        arms[name] = replace(
            samples[-1],
            lengths=_join_rows([sample.lengths for sample in samples]),
            values=_join_rows([sample.values for sample in samples]),
            is_learned=_join_rows([sample.is_learned for sample in samples]),
            is_at_floor=_join_rows([sample.is_at_floor for sample in samples]),
            is_at_ceiling=_join_rows([sample.is_at_ceiling for sample in samples]),
        )
    return arms


def _join_rows(tables: Sequence[Any]) -> Any:
    """Return the rows of all tables; of rows with the same index the first."""
    joined = pd.concat(tables)
    return joined[~joined.index.duplicated()]
