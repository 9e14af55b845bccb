"""Configurations of a ledger: the same under today's code, whatever their names, or refused with the reason."""

from dataclasses import replace

import pytest

from orchestrator.errors import UserError
from orchestrator.plan.configurations import Configuration, make_configurations
from orchestrator.plan.optuna_draws import draw_configurations
from orchestrator.plan.recorded_configurations import (
    find_changed_defaults,
    list_recorded_values,
    map_config_ids,
    refuse_changed_defaults,
    refuse_changed_results,
    set_recorded_defaults,
)
from orchestrator.record.state.state import SweepState
from orchestrator.sweep.specification import load_spec
from search_spaces import SweepFileError, SweepSpec, dump_yaml, parse_recorded, parse_sweep
from trainers.models.decoder import Decoder
from trainers.positions.rope import Rope

TEXT = """name: small
study: tests
task: {name: set_complement, vocabulary: 8, train_length: 3}
model: {name: decoder, layers: 1, width: 8, heads: 2, position: rope}
training: {steps: 5, batch_size: 4, learning_rate: 0.01, averages: {raw: {}, slow: {kind: ema, decay: 0.9}}}
space: {training.learning_rate: {uniform: [0.001, 0.1]}}
search: {configurations: 4}
seeds: 2
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
"""


@pytest.fixture
def spec() -> SweepSpec:
    return parse_sweep(TEXT, "small.yaml")


def recorded(spec: SweepSpec, *more: dict) -> list[Configuration]:
    """Two configurations as a ledger of older code has them: under its own names, without what is newer."""
    rates = zip((0.01, 0.05), more or ({}, {}), strict=True)
    draws = [(number, {"training.learning_rate": rate, **values}) for number, (rate, values) in enumerate(rates)]
    return [
        replace(configuration, config_id=f"older{configuration.number}")
        for configuration in make_configurations(spec, draws)
    ]


def changed_to(configuration: Configuration, section: str, **values) -> Configuration:
    return replace(
        configuration, resolved={**configuration.resolved, section: {**configuration.resolved[section], **values}}
    )


def test_a_draw_that_is_recorded_has_the_name_it_has_there(spec) -> None:
    old = recorded(spec)
    again, new = make_configurations(
        spec, [(2, {"training.learning_rate": 0.05}), (3, {"training.learning_rate": 0.06})], map_config_ids(old)
    )
    assert again.config_id == again.duplicate_of == "older1"
    assert new.duplicate_of is None and new.config_id == new.build_member(0).config_id


def test_settings_without_effect_are_refused_in_files_and_accepted_in_sweeps_that_have_begun(spec, tmp_path) -> None:
    """An earlier version let them pass: such a sweep is resumed, extended and confirmed."""
    stop = ("training.stop={metric: total_variation, threshold: 0.1}", "evaluation.every=5")
    draws = [(0, {"training.learning_rate": 0.01})]
    with pytest.raises(SweepFileError, match=r"evaluation\.every: training\.stop needs evaluations during training"):
        make_configurations(parse_sweep(TEXT, "small.yaml", stop), draws)
    assert make_configurations(parse_sweep(TEXT, "small.yaml", [*stop, "evaluation.every=4"]), draws)
    begun = parse_recorded(parse_sweep(TEXT, "small.yaml", stop).resolved(), "the specification")
    assert begun.is_recorded and begun.with_direction("minimize").is_recorded
    (configuration,) = make_configurations(begun, draws)
    assert configuration.build_member(1).evaluation.every == 5
    state = SweepState(folder=tmp_path)
    state.specs.append(begun.resolved())
    assert load_spec(state).is_recorded


def test_a_sweep_draws_on_in_the_order_of_its_ledger(tmp_path) -> None:
    """Whatever the order of the keys in sweep.yaml, which somebody may have sorted."""
    space = "space={training.weight_decay: {uniform: [0.0, 0.1]}, training.learning_rate: {log_uniform: [0.01, 0.1]}}"
    begun = parse_sweep(TEXT, "small.yaml", [space])
    state = SweepState(folder=tmp_path)
    state.specs.append(begun.resolved())
    moved = {**begun.resolved(), "space": dict(reversed(begun.resolved()["space"].items()))}
    (tmp_path / "sweep.yaml").write_text(dump_yaml(moved))
    assert list(load_spec(state).space) == ["training.weight_decay", "training.learning_rate"]
    assert draw_configurations(load_spec(state), range(1)) == draw_configurations(begun, range(1))


def test_fields_that_are_newer_than_the_record_do_not_make_another(spec) -> None:
    old = recorded(spec)
    model = {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": {"name": "rope"}}
    norms = [configuration.resolved["model"]["norm"] for configuration in old]
    lacking = [
        replace(configuration, resolved={**configuration.resolved, "model": {**model, "norm": norm}})
        for configuration, norm in zip(old, norms, strict=True)
    ]
    assert map_config_ids(lacking) == map_config_ids(old) and len(map_config_ids(old)) == 2
    assert all(find_changed_defaults(spec, configuration) == {} for configuration in lacking)


def test_a_default_that_changed_since_is_written_out(spec) -> None:
    old = [
        changed_to(configuration, "model", norm="post", position={"name": "rope", "base": 100.0})
        for configuration in recorded(spec)
    ]
    old = [
        changed_to(configuration, "training", weight_decay=0.25, schedule={"name": "linear"}) for configuration in old
    ]
    assert set(find_changed_defaults(spec, old[0])) == {
        "model.norm",
        "model.position",
        "training.weight_decay",
        "training.schedule",
    }
    then = set_recorded_defaults(spec, old)
    assert then.model["norm"] == "post" and then.training["schedule"]["name"] == "linear"
    assert spec.model.get("norm") is None, "the specification itself stays as it is"
    assert all(find_changed_defaults(then, configuration) == {} for configuration in old)
    refuse_changed_defaults(then, old, "it")
    built = make_configurations(
        then, [(configuration.number, configuration.values) for configuration in old], map_config_ids(old)
    )
    assert [configuration.config_id for configuration in built] == ["older0", "older1"]


def test_nothing_is_written_out_where_nothing_changed(spec) -> None:
    assert set_recorded_defaults(spec, recorded(spec)) is spec
    assert list_recorded_values(spec, recorded(spec)) == [
        {"training.learning_rate": 0.01},
        {"training.learning_rate": 0.05},
    ]


def test_values_that_differ_are_listed_with_each_or_refused(spec) -> None:
    first, second = recorded(spec)
    old = [changed_to(first, "model", norm="post"), changed_to(second, "model", norm="none")]
    assert set_recorded_defaults(spec, old) is spec
    with pytest.raises(UserError, match=r"^it: the default of model.norm has changed"):
        refuse_changed_defaults(spec, old, "it")
    listed = list_recorded_values(spec, old)
    assert [values["model.norm"] for values in listed] == ["post", "none"]
    refuse_changed_defaults(
        spec, [replace(configuration, values=values) for configuration, values in zip(old, listed, strict=True)], "it"
    )


def test_a_listed_value_within_one_that_is_written_out_gives_way(spec) -> None:
    parts = {"model.position": {"name": "rope"}}
    first, second = recorded(spec, {**parts, "training.averages.slow.decay": 0.5}, parts)
    averages = {**first.resolved["training"]["averages"], "slow": {"kind": "ema", "decay": 0.5, "burn_in": 3}}
    first = changed_to(first, "training", averages=averages)
    listed = list_recorded_values(spec, [first, second])
    assert "training.averages.slow.decay" not in listed[0]
    assert listed[0]["training.averages"]["slow"]["burn_in"] == 3
    refuse_changed_defaults(spec, [replace(first, values=listed[0])], "it")


def test_what_today_does_not_take_is_named(spec) -> None:
    (configuration, _) = recorded(spec)
    with pytest.raises(UserError, match=r"(?s)configuration 0 \(older0\).*model.depth: unknown key.*the version that"):
        map_config_ids([changed_to(configuration, "model", depth=2)])
    with pytest.raises(UserError, match=r"model.name: no model is called 'decode'.*did you mean 'decoder'"):
        refuse_changed_results([changed_to(configuration, "model", name="decode")], "it")


@pytest.mark.parametrize(
    ("cls", "message"), [(Decoder, "model: decoder was revision 1"), (Rope, "model.position: rope was revision 1")]
)
def test_a_bug_fixed_since_is_refused(spec, monkeypatch, cls, message) -> None:
    old = recorded(spec)
    refuse_changed_results(old, "it")
    monkeypatch.setattr(cls, "revision", 2)
    with pytest.raises(UserError) as caught:
        refuse_changed_results(old, "it cannot be resumed")
    assert str(caught.value).startswith("it cannot be resumed: a bug fixed since then would change its results")
    assert str(caught.value).count(message) == 1, "once for all configurations"
    refuse_changed_results(recorded(spec), "it")  # recorded by the code that has the revision
