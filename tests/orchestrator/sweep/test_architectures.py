"""Models of several classes in one sweep: whole sections and names in the space, as a person types them."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from orchestrator.plan.checks.sweep_file_checks import summarize_sample
from orchestrator.plan.configurations import make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from orchestrator.plan.recorded_configurations import list_recorded_values
from orchestrator.record.state.state import SweepState
from orchestrator.sweep.run_and_resume import run_sweep
from search_spaces import SweepFileError, SweepSpec, parse_sweep
from tests.sweep_files import load_checked

SWEEP = """\
name: architectures
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: soft}
MODEL
training: {steps: 4, batch_size: 4, learning_rate: 0.01, compile: false, averages: {raw: {}}}
SPACE
seeds: 2
evaluation: {samples: 20}
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
resources: {scheduler: inline}
tracking: {enabled: false}
"""
SECTIONS = "space: {model: {grid: [{name: attention_only, width: 8, value_width: 4}, {name: lstm, width: 8}]}}"
NAMES = "space: {model.name: {grid: [attention_only, lstm]}}"


def sweep(space: str, model: str = "") -> SweepSpec:
    return parse_sweep(SWEEP.replace("MODEL\n", model).replace("SPACE", space), "a.yaml")


def built(spec: SweepSpec) -> list[dict]:
    draws = [(draw.number, draw.values) for draw in draw_sample(spec, 50)]
    return [configuration.resolved["model"] for configuration in make_configurations(spec, draws)]


def test_whole_sections_are_the_models(tmp_path: Path) -> None:
    spec = sweep(SECTIONS)
    assert run_sweep(spec, tmp_path, Console(quiet=True)).exit_code == 0
    state = SweepState.load(tmp_path / "architectures")
    assert len(state.packs) == 2  # one of each structure
    curves = pd.read_parquet(tmp_path / "architectures" / "curves.parquet")
    for name, number in (("attention_only", 0), ("lstm", 1)):
        values = {"attention_only": "width: 8, value_width: 4", "lstm": "width: 8"}[name]
        alone = sweep("", f"model: {{name: {name}, {values}}}\n").model_copy(update={"name": name})
        assert run_sweep(alone, tmp_path, Console(quiet=True)).exit_code == 0
        single = pd.read_parquet(tmp_path / name / "curves.parquet").drop(columns=["number"])
        both = curves[curves["number"] == number].drop(columns=["number", "model"])
        assert both.astype(object).reset_index(drop=True).equals(single.astype(object).reset_index(drop=True))
    page = (tmp_path / "architectures" / "report.csv").read_text().splitlines()
    assert "model" in page[0].split(",")


def test_the_columns_are_called_model_and_show_names(short_text: Any, tmp_path: Path) -> None:
    from orchestrator.results.make_summary import summarize

    for space, model, shown in (
        (SECTIONS, "", "attention_only (width 8, value_width 4)"),
        (NAMES, "model: {width: 8}\n", "attention_only"),
    ):
        spec = sweep(space, model).model_copy(update={"name": f"s{len(model)}"})
        assert run_sweep(spec, tmp_path, Console(quiet=True)).exit_code == 0
        text = short_text(summarize(SweepState.load(tmp_path / spec.name)))
        assert " model " in text and f" {shown} " in text and " lstm" in text and "{'name'" not in text


def test_names_alone_and_keys_of_one_of_them() -> None:
    condition = ", model.value_width: {grid: [4, 8], when: {model.name: attention_only}}}"
    assert [model["name"] for model in built(sweep(NAMES))] == ["attention_only", "lstm"]
    assert [model.get("value_width") for model in built(sweep(NAMES[:-1] + condition, "model: {width: 8}\n"))] == [
        4,
        8,
        None,
        None,
    ]
    assert summarize_sample(sweep(SECTIONS, "model: {width: 8}\n".replace("width: 8", ""))).configuration_count == 2


@pytest.mark.parametrize(
    ("space", "model", "message"),
    [
        (
            NAMES,
            "model: {value_width: 8}\n",
            "with model.name: 'lstm'); draw the whole section to search a key",
        ),
        (
            "space: {}",
            "model: {grid: [{name: lstm}]}\n",
            "a.yaml:4: model: a grid belongs under space (did you mean space: ",
        ),
        (
            SECTIONS[:-1] + ", model.width: {grid: [4]}}",
            "",
            "model.width: is inside model, which the space draws",
        ),
        (SECTIONS.replace("lstm", "lstn"), "", "no model is called 'lstn'"),
        (SECTIONS.replace("lstm, width", "lstm, widht"), "", "space.model.grid[1].widht: unknown key"),
        (SECTIONS.replace("{name: lstm, width: 8}", "5"), "", "space.model.grid[1]"),
        ("space: {model.width: {grid: [4, 8]}}", "", "model: is missing"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(space: str, model: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(SWEEP.replace("MODEL\n", model).replace("SPACE", space))
    with pytest.raises(SweepFileError) as caught:
        summarize_sample(load_checked(file))
    assert message in str(caught.value)


def test_a_changed_default_is_written_into_a_listed_section(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = sweep(SECTIONS)
    recorded = make_configurations(spec, [(draw.number, draw.values) for draw in draw_sample(spec, 50)])
    monkeypatch.setattr(
        "orchestrator.plan.recorded_configurations.find_changed_defaults",
        lambda spec, configuration: {"model.norm": "pre"},
    )
    assert list_recorded_values(spec, recorded)[0]["model"]["norm"] == "pre"
