"""What of stopping and curricula does not fit the rest of a member, and how they name a configuration."""

import numpy as np
import pytest

from tests.trainers.own_tasks import Echo, Last
from trainers.config.member import MemberConfig
from trainers.config.recorded_members import build_recorded_member, describe_revisions
from trainers.errors import ConfigError
from trainers.optimization.criterion import is_reached
from trainers.settings.fields_by_key import check_single_values, find_field

STOP = {"metric": "accuracy", "threshold": 0.9}
RISING = {"name": "threshold", **STOP}


class Single(Echo):
    """A task with one stage."""

    stages = (4,)


@pytest.fixture(autouse=True)
def _tasks(registered) -> None:
    for name, cls in {"echo": Echo, "last": Last, "single": Single}.items():
        registered("task", name, cls)


def built(sections, **changes) -> MemberConfig:
    plain = {"task": {"name": "echo"}, "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2}}
    return MemberConfig.from_dict(sections(**{"evaluation__every": 10, **plain, **changes}))


def test_a_member_with_both(sections) -> None:
    member = built(sections, training__stop=STOP, training__curriculum=RISING)
    assert member.training.stop.samples == 500 and member.training.curriculum.average == "raw"
    assert MemberConfig.from_dict(member.to_dict()) == member
    resolved = {key: value for key, value in member.to_dict().items() if key != "seed"}
    assert build_recorded_member(resolved, member.seed) == member and describe_revisions(resolved) == []
    del resolved["training"]["stop"]["samples"], resolved["training"]["curriculum"]["average"]
    assert build_recorded_member(resolved, member.seed) == member, "absent values are filled in"


def test_null_names_no_configuration_and_a_value_does(sections) -> None:
    plain = built(sections)
    assert built(sections, training__stop=None, training__curriculum=None) == plain
    assert "stop" not in plain.to_dict()["training"] and "curriculum" not in plain.to_dict()["training"]
    others = [
        built(sections, training__stop=STOP),
        built(sections, training__stop={**STOP, "threshold": 0.8}),
        built(sections, training__curriculum=RISING),
    ]
    for names in (
        [member.config_id for member in (plain, *others)],
        [member.structural_key for member in (plain, *others)],
    ):
        assert len(set(names)) == 4
    explicit = built(sections, training__stop={**STOP, "average": "raw", "samples": 500})
    assert explicit.config_id == others[0].config_id, "absent values name nothing"


@pytest.mark.parametrize(
    ("changes", "key", "nearest"),
    [
        ({"training__stop": {**STOP, "metric": "acuracy"}}, "training.stop.metric", "accuracy"),
        ({"training__stop": {**STOP, "metric": "steps_to_accuracy"}}, "training.stop.metric", "accuracy"),
        ({"training__curriculum": {**RISING, "metric": "accuracyy"}}, "training.curriculum.metric", "accuracy"),
        ({"training__stop": {**STOP, "average": "emaa"}}, "training.stop.average", "ema"),
        ({"training__stop": STOP, "evaluation__every": None}, "evaluation.every", None),
        ({"training__curriculum": RISING, "evaluation__every": None}, "evaluation.every", None),
        ({"training__stop": STOP, "evaluation__every": 50}, "evaluation.every", None),
        ({"training__curriculum": RISING, "evaluation__every": 60}, "evaluation.every", None),
        ({"training__curriculum": RISING, "task": {"name": "last"}}, "training.curriculum", None),
        (
            {"training__stop": STOP, "training__curriculum": {**RISING, "samples": 9}},
            "training.curriculum.samples",
            None,
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_its_key(sections, changes, key, nearest) -> None:
    with pytest.raises(ConfigError) as caught:
        built(sections, **changes)
    (problem,) = caught.value.problems
    assert (problem.key, problem.nearest) == (key, nearest)
    assert str(problem).startswith(key) and problem.allowed


def test_a_task_without_stages_is_told_those_that_have_some(sections) -> None:
    with pytest.raises(ConfigError, match=r"the task last has no stages.*a task with stages:.* echo"):
        built(sections, training__curriculum=RISING, task={"name": "last"})


CYCLES = {"name": "cycles", "names": 16, "size": 3, "smallest": 2, "slices": 2}
DOES_NOTHING = {
    "one stage": (
        {"name": "single"},
        r"training\.curriculum: threshold has no effect: the task single has a single stage, of length 4; "
        r"allowed: null, or task settings with two or more stages",
    ),
    "slices": (CYCLES, r"task\.slices: 2 slices have no effect: .*; allowed: 1, or no training\.curriculum"),
}


@pytest.mark.parametrize("case", DOES_NOTHING)
def test_a_curriculum_that_does_nothing_or_ignores_a_setting_is_refused_and_read_where_it_was_trained(
    sections, case: str
) -> None:
    task, message = DOES_NOTHING[case]
    rising = {**RISING, "metric": "exact_match"} if task is CYCLES else RISING
    with pytest.raises(ConfigError, match=message) as caught:
        built(sections, training__curriculum=rising, task=task)
    assert len(caught.value.problems) == 1
    plain = built(sections, task=task).to_dict()
    plain["training"]["curriculum"] = rising
    before = build_recorded_member({key: value for key, value in plain.items() if key != "seed"}, 3)
    assert before.training.curriculum is not None and before.training.curriculum.metric == rising["metric"]


def test_a_criterion_that_was_recorded_with_no_evaluation_in_time_is_read(sections) -> None:
    plain = built(sections, training__stop=STOP, evaluation__every=49).to_dict()
    plain["evaluation"]["every"] = 50
    before = build_recorded_member({key: value for key, value in plain.items() if key != "seed"}, 3)
    assert before.training.stop is not None and before.evaluation.every == 50


def test_a_threshold_that_cannot_be_is_allowed(sections) -> None:
    """What is possible is the task's to know."""
    assert built(sections, training__stop={**STOP, "threshold": 7.0}).training.stop.threshold == 7.0


def test_their_fields_are_places_for_values(sections) -> None:
    plain = built(sections, training__stop=STOP, training__curriculum=RISING).to_dict()
    assert find_field(plain, "training.stop.threshold", MemberConfig).accepts(0.5)
    assert not find_field(plain, "training.curriculum.samples", MemberConfig).accepts(0.5)
    assert find_field(plain, "training.stop.thresholds", MemberConfig) is None
    assert check_single_values(plain, MemberConfig) == []
    plain["training"]["stop"]["samples"] = 0
    plain["training"]["curriculum"] = {"name": "treshold"}
    assert [problem.key for problem in check_single_values(plain, MemberConfig)] == [
        "training.stop.samples",
        "training.curriculum.name",
    ]


@pytest.mark.parametrize(
    ("direction", "there"), [("maximize", [False, True, True, False]), ("minimize", [True, True, False, False])]
)
def test_at_the_threshold_is_good_enough(direction, there) -> None:
    values = np.array([0.9499999, 0.95, 0.96, np.nan], np.float32)
    assert is_reached(values, 0.95, direction).tolist() == there
