"""Names of `trainers.packs` can be imported from where they were in version 2.0.0."""

from importlib import import_module

import pytest

from trainers.packs import pack, training_state


@pytest.mark.parametrize(
    "name", ["TrainingState", "Averages", "compute_averages", "compute_average", "collect_weights"]
)
def test_a_name_of_the_training_state_is_also_in_the_module_of_packs(name: str) -> None:
    assert getattr(import_module("trainers.packs.pack"), name) is getattr(training_state, name)


def test_other_names_are_not_in_the_module_of_packs() -> None:
    assert not hasattr(pack, "make_initial")
