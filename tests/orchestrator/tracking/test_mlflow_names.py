"""Names that MLflow takes, distinct where the texts are."""

from copy import copy
from dataclasses import replace

import pytest

from orchestrator.results.make_summary import summarize
from orchestrator.tracking.mlflow_names import (
    LABEL_ALONE,
    WITH_SWEEP,
    WITH_VALUES,
    choose_name_form,
    list_run_names,
    make_key_part,
    make_unique_names,
)


def test_names():
    assert make_key_part("ema/0.99 (β)") == "ema_0.99 _β_"
    assert make_key_part("...") == "_" and make_key_part("") == "_" and len(make_key_part("x" * 500)) == 80
    assert list(make_unique_names(["Ab", "ab", "ab "]).values()) == ["Ab", "ab_2", "ab_3"]


@pytest.mark.parametrize(
    ("name", "values", "form", "first"),
    [
        ("quickstart", [{"lr": 0.003}, {"lr": 0.01}], WITH_VALUES, "#0: lr 0.003"),
        ("quickstart", [{"lr": 0.003}, {"lr": 0.01, "dropout": 0.1, "decay": 0.2}], WITH_SWEEP, "quickstart #0"),
        ("quickstart", [{"lr": 0.003}, {}], WITH_SWEEP, "quickstart #0"),
        (24 * "x", [{}, {}], LABEL_ALONE, "#0"),
    ],
)
def test_the_runs_of_a_sweep_have_names_of_one_form(small_sweep, name, values, form, first):
    summary = summarize(small_sweep)
    rows = tuple(replace(summary.rows[0], number=number, values=searched) for number, searched in enumerate(values))
    summary = replace(summary, rows=rows, state=copy(small_sweep))
    summary.state.name = name
    assert choose_name_form(summary) == form and list_run_names(summary, rows[0])[form] == first
