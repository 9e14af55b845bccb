"""One name for a configuration: what everything shows is what every command takes."""

import pytest

from orchestrator.errors import UserError
from orchestrator.record.state.labels import find_configuration
from orchestrator.text.wording import format_label


@pytest.fixture
def state(tmp_path, synthetic_sweep, simple_curve):
    return synthetic_sweep(
        tmp_path / "labels", [{"model.norm": norm} for norm in ("none", "pre", "post")], 1, simple_curve
    )


def test_label_number_config_id_and_the_start_of_it_are_one_configuration(state):
    for configuration in state.configurations.values():
        names = (
            format_label(configuration.number),
            configuration.number,
            str(configuration.number),
            f" #{configuration.number} ",
            configuration.config_id,
            configuration.config_id[:6],
        )
        assert {find_configuration(state, name).config_id for name in names} == {configuration.config_id}


def test_the_number_of_a_repeated_draw_stands_for_the_first(state):
    first = next(iter(state.draws.values()))
    state.draws[7] = first
    assert find_configuration(state, "#7").config_id == first.config_id


def test_a_name_of_none_or_of_several_is_refused(state):
    with pytest.raises(UserError, match=r"no configuration #9; allowed: #0 to #2, a config_id"):
        find_configuration(state, "#9")
    config_id = next(iter(state.configurations))
    with pytest.raises(UserError, match=f"did you mean {config_id}"):
        find_configuration(state, config_id[:-1] + "_")
    with pytest.raises(UserError, match="no configuration"):
        find_configuration(state, config_id[:3] + "x")
    state.configurations[config_id[:8] + "zzzz"] = state.configurations[config_id]
    with pytest.raises(UserError, match=f"{config_id[:8]} is the start of several config_ids: #0"):
        find_configuration(state, config_id[:8])


def test_a_confirmation_takes_the_labels_of_its_search(state):
    """Labels come before numbers, except for an int; a number that is no label is allowed too."""
    state.provenance["confirms"] = {"configurations": [{"number": number} for number in (8, 2, 0)]}
    numbers = {"#8": 0, "8": 0, "2": 1, "#2": 1, "0": 2, "1": 1, 0: 0, 2: 2}
    assert {name: find_configuration(state, name).number for name in numbers} == numbers
    with pytest.raises(UserError, match="allowed: #8, #2, #0, a config_id"):
        find_configuration(state, "#9")
