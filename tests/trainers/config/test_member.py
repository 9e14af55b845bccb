"""MemberConfig: round trip, identity, structural key, and every fault reported at its key."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError


@pytest.mark.parametrize(
    ("changes", "key", "nearest"),
    [
        ({"task__name": "set_complment"}, "task.name", "set_complement"),
        ({"task__vocabulary": 2}, "task.vocabulary", None),
        ({"task__vocabulary": 8.0}, "task.vocabulary", "8"),
        ({"task__vocabulary": True}, "task.vocabulary", None),
        ({"task__train_length": 8}, "task.train_length", None),
        ({"task__target": "sample"}, "task.target", "sampled"),
        ({"task__vocab": 9}, "task.vocab", "vocabulary"),
        ({"model__name": None}, "model.name", None),
        ({"model__norm": "prenorm"}, "model.norm", "pre"),
        ({"model__dropout": 1.0}, "model.dropout", None),
        ({"model__dropout": "0.1"}, "model.dropout", "0.1 without quotes"),
        ({"model__dropout_sites": ["attention", "attention"]}, "model.dropout_sites", None),
        ({"model__dropout": 0.1, "model__dropout_sites": []}, "model.dropout_sites", None),
        ({"model__dropout_sites": "attention"}, "model.dropout_sites", "[attention]"),
        ({"model__form": "table", "model__norm": "post"}, "model.form", None),
        ({"training__learning_rate": -1}, "training.learning_rate", None),
        ({"training__learning_rate": float("nan")}, "training.learning_rate", None),
        ({"training__learning_rate": float("inf")}, "training.learning_rate", None),
        ({"training__learning_rate": 10**400}, "training.learning_rate", None),
        ({"training__learning_rate": "1" + 400 * "0"}, "training.learning_rate", None),
        ({"training__learning_rat": 0.1}, "training.learning_rat", "learning_rate"),
        ({"training__shedule": {}}, "training.shedule", "schedule"),
        ({"training__betas": [0.9]}, "training.betas", None),
        ({"training__betas": [0.9, 1.0]}, "training.betas", None),
        ({"training__clip": 0}, "training.clip", None),
        ({"training__schedule": {"name": "cosin"}}, "training.schedule.name", "cosine"),
        ({"training__schedule": {"name": "constant", "warmup": 51}}, "training.schedule.warmup", None),
        ({"training__averages": {}}, "training.averages", None),
        ({"training__averages": {"slow": {"decay": 0.9}}}, "training.averages.slow", None),
        ({"training__averages": {"ema": {}}}, "training.averages.ema.decay", None),
        ({"training__averages": {"ema": {"decay": 1.5}}}, "training.averages.ema.decay", None),
        ({"training__stop": {"metric": "kl"}}, "training.stop.threshold", None),
        ({"training__stop": {"metric": "kl", "threshold": 1, "sample": 9}}, "training.stop.sample", "samples"),
        ({"training__stop": []}, "training.stop", None),
        ({"training__curriculum": "treshold"}, "training.curriculum.name", "threshold"),
        ({"training__curriculum": {"name": "threshold", "metric": "kl"}}, "training.curriculum.threshold", None),
        ({"training__curiculum": None}, "training.curiculum", "curriculum"),
        ({"evaluation__lengths": [1, 1]}, "evaluation.lengths", None),
        ({"evaluation__lengths": "al"}, "evaluation.lengths", None),
        ({"evaluation__lengths": [8]}, "evaluation.lengths", None),
        ({"evaluation__every": 0}, "evaluation.every", None),
        ({"seed": -1}, "seed", None),
        ({"seeds": 1}, "seeds", "seed"),
    ],
)
def test_a_fault_is_reported_at_its_key(sections, changes, key, nearest) -> None:
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict(sections(**changes))
    problems = {problem.key: problem for problem in caught.value.problems}
    assert list(problems) == [key]
    assert problems[key].nearest == nearest
    assert str(problems[key]).startswith(key)


def test_a_length_that_the_task_lacks_is_refused_with_the_lengths_that_it_has(sections) -> None:
    task = {"name": "induction", "train_length": 50}
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict({**sections(evaluation__lengths=[50, 70]), "task": task})
    (problem,) = (problem for problem in caught.value.problems if problem.key == "evaluation.lengths")
    assert problem.given == 70 and problem.allowed == "50, 100, 150, 200, 250, 300"


def test_a_dropout_without_sites_goes_on_where_it_was_recorded(sections) -> None:
    given = sections(model__dropout=0.1, model__dropout_sites=[])
    assert MemberConfig.from_dict(given, recorded=True).model.dropout == 0.1
    assert MemberConfig.from_dict(sections(model__dropout_sites=[])).model.dropout == 0.0


def test_all_faults_are_reported_at_once(sections) -> None:
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict(sections(task__target="x", model__norm="y", training__steps=0, seed="z"))
    assert {problem.key for problem in caught.value.problems} == {"task.target", "model.norm", "training.steps", "seed"}


def test_the_training_weights_alone_are_called_raw(sections, member) -> None:
    """Stopping, curricula and kept weights mean the training weights by it."""
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict(sections(training__averages={"raw": {"kind": "ema", "decay": 0.9}}))
    assert "raw is reserved for the training weights" in str(caught.value)
    assert [problem.key for problem in caught.value.problems] == ["training.averages.raw.kind"]
    assert member(training__averages={"raw": {"kind": "raw"}, "also": {"kind": "raw"}})


@settings(max_examples=50)
@given(
    st.integers(0, 2**63 - 1),
    st.floats(0, 0.99),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1),
    st.sampled_from(["none", "pre", "post"]),
)
def test_round_trip_through_json(sections, seed, dropout, decay, rate, norm) -> None:
    changes = {
        "model__dropout": dropout,
        "model__norm": norm,
        "training__learning_rate": rate,
        "training__averages": {"a": {"kind": "ema", "decay": decay}},
    }
    member = MemberConfig.from_dict(sections(seed, **changes))
    again = MemberConfig.from_dict(json.loads(json.dumps(member.to_dict())))
    assert again == member and again.config_id == member.config_id and again.structural_key == member.structural_key


def test_config_id_ignores_the_seed_and_defaults_written_out(member) -> None:
    assert member(1).config_id == member(2).config_id
    assert member(model__norm="none").config_id == member().config_id
    assert member(training__learning_rate=0.1).config_id != member().config_id


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"training__learning_rate": 0.1}, True),
        ({"training__weight_decay": 0.5}, True),
        ({"training__betas": [0.5, 0.5]}, True),
        ({"training__averages": {"raw": {}, "ema": {"decay": 0.5}}}, True),
        ({"training__averages": {"raw": {}, "ema2": {"kind": "ema", "decay": 0.5}}}, False),
        ({"training__clip": 1.0}, False),
        ({"model__dropout": 0.1}, False),
        ({"training__batch_size": 8}, False),
        ({"training__steps": 51}, False),
        ({"model__width": 9}, False),
        ({"evaluation__samples": 9}, False),
        ({"task__target": "soft"}, False),
    ],
)
def test_structural_key_leaves_out_member_hyperparameters(member, changes, same) -> None:
    assert (member(3, **changes).structural_key == member(4).structural_key) is same


def test_two_rates_above_zero_share_a_pack(member) -> None:
    assert member(model__dropout=0.1).structural_key == member(model__dropout=0.4).structural_key
    assert member(training__clip=0.1).structural_key == member(training__clip=4.0).structural_key
