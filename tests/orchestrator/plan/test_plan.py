"""From values to packs: problems at their lines, packs of one structure, balanced and within capacity."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.plan.configurations import list_warnings, make_configurations
from orchestrator.plan.packing.pack_sizes import balance_sizes, compute_makespan, split_evenly, split_members
from orchestrator.plan.packing.packs import Cluster, Packer, PlannedPack, WorkerPool
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepFileError, load_sweep
from tests.orchestrator.sized_packer import SizedPacker
from trainers.settings import registry

FILE = """name: planned
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: sampled}
model:
  name: attention_only
  width: 8
  dropout: 0.0
training:
  steps: 60
  batch_size: 8
  learning_rate: 0.01
  averages: {raw: {}, ema: {decay: 0.9}}
space:
  model.dropout: {uniform: [0.0, 0.5]}
  training.batch_size: {choice: [8, 16]}
search: {configurations: 4}
seeds: 3
objective:
  metric: total_variation
  average: ema
  lengths: [4]
  direction: minimize
"""


@pytest.fixture
def spec(tmp_path: Path):
    def build(*replacements: tuple[str, str]):
        text = FILE
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "planned.yaml"
        path.write_text(text)
        return load_sweep(path)

    return build


def values(dropout: float = 0.1, batch: int = 8) -> dict:
    return {"model.dropout": dropout, "training.batch_size": batch}


def test_values_reach_the_configuration(spec):
    (configuration,) = make_configurations(spec(), [(0, values(0.25, 16))])
    assert configuration.resolved["model"]["dropout"] == 0.25 and configuration.resolved["training"]["batch_size"] == 16
    assert configuration.resolved["training"]["averages"]["ema"]["decay"] == 0.9
    assert (
        configuration.build_member(7).seed == 7 and configuration.build_member(7).config_id == configuration.config_id
    )


def test_nested_keys_are_made_where_the_file_has_none(spec):
    nested = spec(("{raw: {}, ema: {decay: 0.9}}", "{raw: {}}"), ("model.dropout:", "training.averages.ema.decay:"))
    (configuration,) = make_configurations(nested, [(0, {"training.averages.ema.decay": 0.5})])
    assert configuration.resolved["training"]["averages"]["ema"]["decay"] == 0.5


def test_the_same_values_twice_are_one_configuration(spec):
    first, second, third = make_configurations(spec(), [(0, values(0.1)), (1, values(0.2)), (2, values(0.1))])
    assert first.duplicate_of is None and second.duplicate_of is None
    assert third.duplicate_of == first.config_id == third.config_id
    (fourth,) = make_configurations(spec(), [(3, values(0.1))], recorded_ids={first.config_id: "recorded"})
    assert fourth.duplicate_of == fourth.config_id == "recorded", "a ledger has another name for it"


def test_configurations_built_together_are_those_built_alone(spec):
    """Sections without a drawn value are shared; here each section is drawn by some configurations only."""
    drawn = [
        {"task.vocabulary": 7, "model.dropout": 0.1},
        {"training.batch_size": 4},
        {"model.dropout": 0.2, "evaluation.samples": 7},
        {},
    ]
    draws = list(enumerate(drawn))
    planned = spec()
    assert make_configurations(planned, draws) == [make_configurations(planned, [draw])[0] for draw in draws]


@pytest.mark.parametrize(
    ("old", "new", "key", "line", "nearest"),
    [
        ("attention_only", "attention_olny", "model.name", 5, "attention_only"),
        ("width: 8", "widht: 8", "model.widht", 6, "width"),
        ("steps: 60", "steps: 0", "training.steps", 9, None),
        ("learning_rate: 0.01", "learning_rate: fast", "training.learning_rate", 11, None),
        ("metric: total_variation", "metric: total_variaton", "objective.metric", 19, "total_variation"),
        ("average: ema", "average: bema", "objective.average", 20, "ema"),
        ("lengths: [4]", "lengths: [4, 9]", "objective.lengths", 21, None),
    ],
)
def test_what_trainers_refuse_is_reported_at_its_line(spec, old, new, key, line, nearest):
    with pytest.raises(SweepFileError) as caught:
        make_configurations(spec((old, new)), [(0, values()), (1, values(0.2))])
    (problem,) = caught.value.problems
    assert problem.where.endswith(f"planned.yaml:{line}") and problem.key == key
    assert problem.nearest == nearest and problem.allowed


def test_a_value_out_of_bounds_names_its_domain(spec):
    with pytest.raises(SweepFileError) as caught:
        make_configurations(spec(("uniform: [0.0, 0.5]", "uniform: [0.5, 1.5]")), [(0, values(1.2)), (1, values(1.4))])
    (problem,) = caught.value.problems  # one problem, though two draws met it
    assert problem.where.endswith("planned.yaml:14") and problem.given == 1.2
    assert "space.model.dropout" in problem.message


def test_all_problems_come_at_once(spec):
    with pytest.raises(SweepFileError) as caught:
        make_configurations(spec(("steps: 60", "steps: 0"), ("width: 8", "width: 0")), [(0, values())])
    assert {problem.key for problem in caught.value.problems} == {"training.steps", "model.width"}


@pytest.mark.parametrize(("every", "given"), [(None, "is not set"), (60, "is 60"), (90, "is 90")])
def test_the_best_of_one_evaluation_is_refused(spec, every, given):
    def best(every):
        evaluation = f"evaluation: {{every: {every}}}\n" if every else ""
        return spec(("direction: minimize\n", f"direction: minimize\n  evaluation: best\n{evaluation}"))

    with pytest.raises(SweepFileError) as caught:
        make_configurations(best(every), [(0, values())])
    (problem,) = caught.value.problems
    assert problem.key == "objective.evaluation" and problem.where.endswith("planned.yaml:23")
    assert problem.message == f"there is only one evaluation, at step 60, because evaluation.every {given}"
    assert problem.allowed == "last, or an evaluation.every below training.steps (60)"
    for enough in (20, 59):
        assert len(make_configurations(best(enough), [(0, values())])) == 1


def test_scoring_at_trained_lengths_is_warned_about(spec):
    scored = spec(("lengths: [4]", "lengths: [3, 4]"), ("direction: minimize", "direction: maximize"))
    (configuration,) = make_configurations(scored, [(0, values())])
    warnings = list_warnings(scored, [configuration.build_member(0)])
    assert len(warnings) == 2 and "planned.yaml:21" in warnings[0] and "trained lengths (3)" in warnings[0]
    assert " partly inside the trained range" in warnings[0]  # length 4 is not trained
    assert "total_variation is better when it is minimized" in warnings[1]


def test_scoring_at_every_longer_length_is_warned_about(spec):
    (configuration,) = make_configurations(spec(), [(0, values())])
    metric = get_trainer(spec().sections).list_measurements(configuration.build_member(0)).metrics["total_variation"]
    longer = [length for length in metric.lengths if length > max(metric.trained_lengths)]
    assert longer[1:]
    for lengths, count in ((longer, 1), (longer[1:], 0)):
        scored = spec(("lengths: [4]", f"lengths: {lengths}"))
        warnings = list_warnings(scored, [configuration.build_member(0)])
        assert len(warnings) == count
        assert all("planned.yaml:21" in warning and "objective.lengths" in warning for warning in warnings)


def test_a_model_whose_members_are_trained_one_after_another_is_warned_about(spec, monkeypatch):
    parsed = spec()
    (configuration,) = make_configurations(parsed, [(0, values())])
    members = [configuration.build_member(0), configuration.build_member(1)]
    monkeypatch.setattr(type(members[0].model), "explain_loop", lambda self, task: "no vmap rule for aten::gru")
    (warning,) = list_warnings(parsed, members)
    assert "attention_only: no vmap rule for aten::gru: members of a pack are trained one after another" in warning


def test_a_setting_of_adamw_that_no_optimizer_uses_is_warned_about(spec):
    def warnings_of(*optimizers):
        (configuration,) = make_configurations(spec(), [(0, values())])
        plain = configuration.build_member(0)
        built = [registry.build("optimizer", {"name": name}) for name in optimizers]
        training = [replace(plain.training, betas=(0.8, 0.9), optimizer=optimizer) for optimizer in built]
        return list_warnings(spec(), [replace(plain, training=each) for each in training])

    (warning,) = warnings_of("lion", "sgd")
    assert "training.betas" in warning and "no effect" in warning
    assert warnings_of("adamw") == warnings_of("lion", "muon") == []


def test_r_drop_is_warned_about_if_no_member_has_dropout(spec):
    (configuration,) = make_configurations(spec(), [(0, values())])
    plain = configuration.build_member(0)

    def warnings_of(*rates):
        training = replace(plain.training, loss=registry.build("loss", {"name": "r_drop"}))
        models = [replace(plain.model, dropout=rate) for rate in rates]
        return list_warnings(spec(), [replace(plain, model=model, training=training) for model in models])

    (warning,) = warnings_of(0.0)
    assert "training.loss" in warning and "r_drop" in warning
    assert warnings_of(0.0, 0.1) == []


def test_members_trained_one_after_another_are_spread_over_the_workers(spec, monkeypatch):
    """Their steps take as much longer as there are members, however small the model."""
    cluster = Cluster(workers=4, bytes_per_worker=2**34, description="")
    waiting = [(make_configurations(spec(), [(0, values())])[0], range(8))]
    model = type(waiting[0][0].build_member(0).model)
    assert len(Packer(spec(), cluster).pack_members(waiting)) < 4
    monkeypatch.setattr(model, "explain_loop", lambda self, task: "no vmap rule for aten::gru")
    assert [len(pack.members) for pack in Packer(spec(), cluster).pack_members(waiting)] == [2, 2, 2, 2]


def test_later_packs_are_cut_for_the_workers_that_are_there_then(spec, monkeypatch):
    waiting = [(make_configurations(spec(), [(0, values())])[0], range(8))]
    monkeypatch.setattr(type(waiting[0][0].build_member(0).model), "explain_loop", lambda self, task: "no vmap rule")
    packer = Packer(spec(), Cluster(workers=1, bytes_per_worker=2**34, description=""))
    assert [len(pack.members) for pack in packer.pack_members(waiting)] == [8]
    assert packer.repack_waiting([], [], {}, WorkerPool(4)) == []  # nothing waits
    assert [len(pack.members) for pack in packer.pack_members(waiting)] == [2, 2, 2, 2]


def packs_of(spec, drawn, *, workers=2, largest=64, per_step=0.0, balances=True, done=()):
    configurations = make_configurations(spec, list(enumerate(drawn)))
    waiting = [
        (configuration, [seed for seed in spec.seeds if (configuration.config_id, seed) not in done])
        for configuration in configurations
    ]

    def work(member, count):
        return per_step + count * member.training.batch_size

    return SizedPacker(workers, largest, work, is_balanced=balances).pack_members(waiting), configurations


def test_a_pack_has_one_structure_and_every_member_is_in_one(spec):
    packs, configurations = packs_of(spec(), [values(0.1), values(0.2, 16), values(0.3), values(0.4, 16)])
    members = [member for pack in packs for member in pack.members]
    assert sorted(members) == sorted(
        (configuration.config_id, seed) for configuration in configurations for seed in (0, 1, 2)
    )
    keys = {configuration.config_id: configuration.build_member(0).structural_key for configuration in configurations}
    assert all({keys[config_id] for config_id, _ in pack.members} == {pack.structural_key} for pack in packs)
    assert len({pack.pack_id for pack in packs}) == len(packs)


def test_the_plan_is_the_same_each_time(spec):
    drawn = [values(index / 10, 8 + 8 * (index % 2)) for index in range(1, 6)]
    assert packs_of(spec(), drawn)[0] == packs_of(spec(), drawn)[0]


def test_repacked_structures_of_equal_work_keep_the_order_of_their_packs(spec):
    drawn = [values(batch=batch) for batch in range(1, 9)]
    packs, configurations = packs_of(spec(("choice: [8, 16]", "choice: [1, 2, 3, 4, 5, 6, 7, 8]")), drawn, workers=1)
    smaller = SizedPacker(1, 2, lambda member, count: 1.0, is_balanced=False)
    configuration_by_id = {configuration.config_id: configuration for configuration in configurations}
    repacked = smaller.repack_waiting(packs, [], configuration_by_id, WorkerPool(1))
    keys = [pack.structural_key for pack in packs]
    assert [pack.structural_key for pack in repacked] == [key for key in keys for _ in range(2)]


def test_one_structure_is_cut_for_two_workers(spec):
    packs, _ = packs_of(spec(), [values(index / 10) for index in range(1, 5)])
    assert [len(pack.members) for pack in packs] == [6, 6]
    assert all(len({config_id for config_id, _ in pack.members}) == 2 for pack in packs)  # seeds stay together


def test_workers_end_together_though_structures_differ_in_cost(spec):
    """Four configurations at batch 8 and one at 16 cost 96 and 48: a worker has 72, of both the other."""
    packs, _ = packs_of(spec(), [*(values(index / 10) for index in range(1, 5)), values(0.45, 16)])
    assert sorted(len(pack.members) for pack in packs) == [3, 3, 9]
    assert len({pack.structural_key for pack in packs if len(pack.members) == 3}) == 2
    assert compute_makespan([24, 48, 72], 2) == 72


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), min_size=1, max_size=5), st.integers(1, 6))
def test_splitting_never_ends_later_and_loses_nothing(groups, workers):
    whole = {str(index): [members] for index, (members, _) in enumerate(groups)}
    largest = {str(index): 40 for index in range(len(groups))}

    def work(key, members):
        return 3.0 + groups[int(key)][1] * members

    balanced = balance_sizes(whole, largest, work, workers)
    assert {key: sum(sizes) for key, sizes in balanced.items()} == {key: sizes[0] for key, sizes in whole.items()}
    before, after = (
        compute_makespan([work(key, size) for key, run in sizes_by_key.items() for size in run], workers)
        for sizes_by_key in (whole, balanced)
    )
    assert after <= before and all(size for sizes in balanced.values() for size in sizes)


def test_it_is_not_cut_where_a_step_costs_the_same_for_few_members(spec):
    packs, _ = packs_of(spec(), [values(index / 10) for index in range(1, 5)], per_step=1e6)
    assert [len(pack.members) for pack in packs] == [12]


def test_capacity_is_kept_and_an_explicit_pack_size_is_not_evened_out(spec):
    packs, _ = packs_of(spec(), [values(index / 10) for index in range(1, 5)], largest=5)
    assert max(len(pack.members) for pack in packs) <= 5
    packs, _ = packs_of(spec(), [values(index / 10) for index in range(1, 5)], largest=12, balances=False)
    assert [len(pack.members) for pack in packs] == [12]


def test_members_that_have_a_pack_get_no_second_one(spec):
    _, configurations = packs_of(spec(), [values(0.1), values(0.2)])
    done = [(configurations[0].config_id, seed) for seed in (0, 1, 2)] + [(configurations[1].config_id, 0)]
    packs, _ = packs_of(spec(), [values(0.1), values(0.2)], done=done)
    assert sorted(member for pack in packs for member in pack.members) == [
        (configurations[1].config_id, 1),
        (configurations[1].config_id, 2),
    ]


def test_nothing_to_pack_is_no_pack(spec):
    _, configurations = packs_of(spec(), [values(0.1)])
    assert packs_of(spec(), [values(0.1)], done=[(configurations[0].config_id, seed) for seed in (0, 1, 2)])[0] == []


def test_duplicates_are_not_packed(spec):
    packs, _ = packs_of(spec(), [values(0.1), values(0.1)])
    assert sum(len(pack.members) for pack in packs) == 3


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 20), st.integers(0, 2))
def test_cuts_cover_everything_evenly(seeds, wanted, slack):
    members = [(f"c{index}", seed) for index, count in enumerate(seeds) for seed in range(count)]
    count = min(wanted, len(members))
    largest = -(-len(members) // count) + slack
    runs = split_members(members, split_evenly(len(members), count), largest)
    assert [member for run in runs for member in run] == members
    assert len(runs) == count and all(runs)
    assert max(map(len, runs)) <= largest
    assert max(map(len, runs)) <= 1.25 * len(members) / count + 1


def test_a_cut_does_not_move_where_its_neighbour_would_not_fit():
    members = [(name, seed) for name, count in (("a", 2), ("b", 7), ("c", 11)) for seed in range(count)]
    assert [len(run) for run in split_members(members, split_evenly(20, 2), 11)] == [9, 11]  # between b and c
    assert [len(run) for run in split_members(members, split_evenly(20, 2), 10)] == [10, 10]


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=12), st.integers(1, 5))
def test_makespan_lies_between_its_bounds(costs, workers):
    makespan = compute_makespan(costs, workers)
    assert makespan >= max(max(costs), sum(costs) / workers) - 1e-9
    assert makespan <= sum(costs) / workers + max(costs) + 1e-9


def test_a_pack_is_named_by_its_members():
    pack = PlannedPack.from_members("key", [("a", 0), ("a", 1)], 10)
    assert pack == PlannedPack.from_members("key", [("a", 0), ("a", 1)], 10)
    assert pack.pack_id != PlannedPack.from_members("key", [("a", 0), ("a", 2)], 10).pack_id
