"""Modules of users import by the names of version 2.0.0."""

import importlib

import pytest


@pytest.mark.parametrize(
    ("former", "name", "module"),
    [
        ("trainers.tasks.metrics", "Evaluated", "trainers.tasks.metric_descriptions"),
        ("trainers.tasks.metrics", "steps_to", "trainers.tasks.metric_descriptions"),
        ("trainers.tasks.forward_pass", "ForwardPass", "trainers.tasks.evaluated_model"),
    ],
)
def test_modules_of_users_may_import_by_former_names(former: str, name: str, module: str) -> None:
    assert getattr(importlib.import_module(former), name) is getattr(importlib.import_module(module), name)
