"""Which random streams the same seed shares in two configurations, against what members really draw."""

import pytest
import torch

from orchestrator.engine.engine_streams import DATA, INPUTS, WEIGHTS
from orchestrator.results.comparing.shared_streams import compare_streams
from orchestrator.results.pack_environments import ConfigurationProvenance
from trainers.config.member import MemberConfig, TrainingConfig
from trainers.packs.batches import StepBatches
from trainers.packs.evaluation_inputs import draw_evaluation_inputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.settings import registry
from trainers.settings.fields import settings_fields
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch

BASE = {
    "task": {"name": "set_complement", "vocabulary": 12, "train_length": 5, "target": "sampled"},
    "model": {"name": "attention_only", "width": 8, "value_width": 8, "norm": "none", "dropout": 0.0},
    "training": {"steps": 10, "batch_size": 4, "learning_rate": 0.01, "averages": {"raw": {"kind": "raw"}}},
    "evaluation": {"samples": 20},
}

OTHER_TRAINING = {  # another value of each setting of training
    "steps": 20,
    "batch_size": 8,
    "optimizer": {"name": "sgd"},
    "loss": {"name": "r_drop"},
    "learning_rate": 0.1,
    "weight_decay": 0.1,
    "betas": [0.8, 0.9],
    "epsilon": 1e-6,
    "clip": 1.0,
    "label_smoothing": 0.1,
    "z_loss": 0.1,
    "accumulation": 2,
    "one_length_per_batch": True,
    "dtype": "float64",
    "compute_dtype": "bfloat16",
    "compile": False,
    "schedule": {"name": "cosine"},
    "averages": {"raw": {"kind": "raw"}, "ema": {"kind": "ema", "decay": 0.9}},
    "stop": {"metric": "accuracy", "threshold": 0.9},
    "curriculum": {"name": "threshold", "metric": "accuracy", "threshold": 0.9},
    "initial": {"file": "other.pt"},
}


class Rows(Task):
    """Random tokens in and out; of one length in the first stage, and where a step draws one."""

    inputs = property(lambda self: 7)
    trained_lengths = property(lambda self: (2, 3, 4))
    lengths = stages = trained_lengths

    def draw_rows(self, stream, rows, length):
        tokens = stream.integers(0, (rows, length), 7)
        return Batch(tokens, tokens)

    def sample_staged(self, stream, rows, stage_S):
        return self.draw_rows(stream, rows, self.stages[0])


def member_of(changes):
    tree = {name: dict(section) for name, section in BASE.items()}
    for key, value in changes.items():
        section, _, name = key.partition(".")
        if name:
            tree[section][name] = value
        else:
            tree[section] = value
    return MemberConfig.from_dict({**tree, "seed": 3})


def drawn_by(member):
    """What the member's seed really gives it: the batch of a step, the test inputs, the weights before the first."""
    pack = Pack([member], torch.device("cpu"))
    data = [batch.tokens for batch in StepBatches(pack).get_batches(2, 3)]
    inputs = [test.batch.tokens for test in draw_evaluation_inputs(pack)]
    return {DATA: data, INPUTS: inputs, WEIGHTS: [TrainingState.make_initial(pack, use_initial_files=True).theta]}


def compare_members(*members):
    """The streams that two members are said to share, and whether each of them really is the same to the bit."""
    resolved = [{key: value for key, value in member.to_dict().items() if key != "seed"} for member in members]
    recorded = [
        ConfigurationProvenance(resolved=tree, structural_keys=frozenset({member.structural_key}))
        for tree, member in zip(resolved, members, strict=True)
    ]
    streams = compare_streams(*recorded)
    swapped = compare_streams(*reversed(recorded))
    assert (swapped.common, dict(swapped.causes)) == (streams.common, dict(streams.causes))
    first, second = map(drawn_by, members)
    is_same = {
        what: len(first[what]) == len(second[what]) and all(map(torch.equal, first[what], second[what]))
        for what in (DATA, INPUTS, WEIGHTS)
    }
    return streams, is_same


@pytest.mark.parametrize(
    ("changes", "apart", "unsure"),
    [
        ({}, (), ()),
        ({"training.learning_rate": 0.1}, (), ()),
        ({"training.steps": 20}, (), ()),
        ({"model.dropout": 0.2}, (), ()),
        ({"model.norm": "pre"}, (WEIGHTS,), ()),
        ({"model.width": 16}, (WEIGHTS,), ()),
        ({"training.batch_size": 8}, (DATA,), (DATA,)),
        ({"evaluation.samples": 10}, (INPUTS,), (INPUTS,)),
        ({"task.target": "soft"}, (DATA, INPUTS), (DATA, INPUTS)),
        ({"task.vocabulary": 10}, (DATA, INPUTS, WEIGHTS), (DATA, INPUTS)),
    ],
)
def test_what_is_said_to_be_shared_is_the_same_to_the_bit(changes, apart, unsure):
    streams, is_same = compare_members(member_of({}), member_of(changes))
    assert tuple(streams.causes) == apart and set(streams.uncertain) & set(apart) == set(unsure)
    assert set(streams.differing) == set(changes)
    for what, same in is_same.items():
        assert same or what in apart
        assert not same or what not in apart or what in unsure


@pytest.mark.parametrize("name", [field.name for field in settings_fields(TrainingConfig)])
def test_every_setting_of_training_that_changes_rows_or_weights_is_named(name, monkeypatch, tmp_path):
    """A new setting fails here until it has another value in OTHER_TRAINING."""
    monkeypatch.setitem(registry._classes["task"], "rows", Rows)
    monkeypatch.setattr(Rows, "name", "rows")
    monkeypatch.chdir(tmp_path)
    base = {
        "task": {"name": "rows"},
        "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2},
        "evaluation.every": 5,
    }
    pack = Pack([member_of(base)], torch.device("cpu"))
    theta = TrainingState.make_initial(pack).theta + 1.0
    torch.save({key: weights[0].clone() for key, weights in pack.layout.split(theta).items()}, "other.pt")
    streams, is_same = compare_members(member_of(base), member_of({**base, f"training.{name}": OTHER_TRAINING[name]}))
    assert {what for what, same in is_same.items() if not same} == set(streams.causes)


def test_without_the_classes_weights_may_differ_and_a_pack_still_shares_all():
    rest = {"task": {"name": "gone"}, "training": {"steps": 10}}
    resolved = [{**rest, "model": {"name": "lost", "dropout": rate}} for rate in (0.0, 0.1)]
    apart = compare_streams(*(ConfigurationProvenance(resolved=tree, structural_keys=frozenset()) for tree in resolved))
    assert apart.sentence == "same training data and test inputs; initial weights may differ (model.dropout)"
    together = compare_streams(
        *(ConfigurationProvenance(resolved=tree, structural_keys=frozenset({"k"})) for tree in resolved)
    )
    assert together.sentence == "same training data, test inputs and initial weights"


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({"task.padding": 9}, (DATA, INPUTS, WEIGHTS)),
        ({"task.padding": 9, "task.vocabulary": 8}, ()),
        ({"model.padding": 9}, (DATA, INPUTS, WEIGHTS)),
    ],
)
def test_a_technical_key_unpairs_nothing_and_is_part_of_the_difference(changes, shared):
    trees = [{"task": {"name": "gone"}, "model": {"name": "lost"}, "training": {}} for _ in range(2)]
    for key, value in changes.items():
        section, _, name = key.partition(".")
        trees[1][section][name] = value
    technical = ("task.padding", "model.padding")
    streams = compare_streams(
        *(ConfigurationProvenance(resolved=tree, structural_keys=frozenset(), technical=technical) for tree in trees)
    )
    assert streams.common == shared and set(streams.differing) == set(changes)


@pytest.mark.parametrize("structural", ["same", "other"])
def test_training_data_of_a_curriculum_are_not_said_to_be_shared(structural):
    """The stage of a member, and with it its batches, follows its own scores."""
    training = {"curriculum": {"name": "threshold", "threshold": 0.9}}
    trees = [{"training": {**training, "learning_rate": rate}} for rate in (0.01, 0.01, 0.02)]
    keys = [frozenset({"k"}), frozenset({"k"}), frozenset({"k" if structural == "same" else "other"})]
    first, again, other = (
        ConfigurationProvenance(resolved=tree, structural_keys=key) for tree, key in zip(trees, keys, strict=True)
    )
    assert compare_streams(first, again).common == (DATA, INPUTS, WEIGHTS)
    streams = compare_streams(first, other)
    assert streams.common == (INPUTS, WEIGHTS) and streams.causes == {DATA: ("training.curriculum",)}


@pytest.mark.parametrize(
    ("task_modules", "curriculum", "common"),
    [
        (("my_task", "my_task"), None, (DATA, INPUTS)),
        (("trainers", "trainers"), None, (DATA, INPUTS)),
        (("my_task", "my_task"), {"name": "widen"}, (INPUTS,)),  # its stages depend on what the model has learned
        (("my_model", "my_model"), None, ()),
        (("my_task", "trainers"), None, ()),
        (("", ""), None, ()),
        (("my_task", ""), None, ()),
    ],
)
def test_a_model_module_that_changed_draws_no_data(task_modules, curriculum, common):
    resolved = {"task": {"name": "t"}, "training": {"batch_size": 8, "curriculum": curriculum}}
    digests = {"engine": "e", "module my_task": "t"}
    streams = compare_streams(*(
        ConfigurationProvenance(
            resolved=resolved,
            structural_keys=frozenset(),
            code={0: digests | {"module my_model.parts": digest}},
            task_module=module,
        )
        for module, digest in zip(task_modules, "ab", strict=True)
    ))  # fmt: skip
    assert streams.common == common and WEIGHTS in streams.causes
