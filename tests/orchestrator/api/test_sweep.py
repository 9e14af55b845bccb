"""The door in Python: the numbers of the ledger as tables, figures on the caller's axes, nothing heavy imported."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib import pyplot

from orchestrator import Sweep, open_sweep, run
from orchestrator.api.plain import to_json
from orchestrator.errors import NotASweep, UserError
from orchestrator.record.state.state import SweepState
from search_spaces import SweepFileError, load_sweep

RELEASED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0"
TINY = {
    "name": "tiny",
    "study": "tests",
    "task": {"name": "set_complement", "vocabulary": 6, "train_length": 3},
    "model": {"name": "attention_only", "width": 8, "value_width": 8},
    "training": {"steps": 4, "batch_size": 8, "learning_rate": 0.003, "compile": False, "averages": {"raw": {}}},
    "space": {"training.learning_rate": {"log_uniform": [0.001, 0.1]}},
    "search": {"configurations": 2},
    "seeds": np.int64(2),
    "evaluation": {"samples": 10},
    "objective": {"metric": "total_variation", "average": "raw", "lengths": [4], "direction": "minimize"},
    "resources": {"scheduler": "inline"},
    "tracking": {"enabled": False},
}


@pytest.fixture
def small(small_sweep: SweepState) -> Sweep:
    return open_sweep(small_sweep.folder)


@pytest.fixture(autouse=True)
def pyplot_closed():
    yield
    pyplot.close("all")


@pytest.mark.slow
def test_reading_and_drawing_a_sweep_imports_neither_torch_nor_ray_nor_mlflow(tmp_path):
    folder = shutil.copytree(RELEASED / "finished", tmp_path / "finished")
    code = f"""
import sys, orchestrator
assert "pandas" not in sys.modules
from orchestrator import open_sweep, run
sweep = open_sweep({str(folder)!r})
sweep.configurations, sweep.curves, sweep.best, sweep.effects, sweep.compare(0, 1)
sweep.plot_curves(), sweep.plot_effect("training.learning_rate"), sweep._repr_html_()
print(repr(sweep), [name for name in ("torch", "ray", "mlflow") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"MPLBACKEND": "agg"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("complete, 6 of 6 configurations done, 18 seeds ran, 1 failed []\n")


def test_configurations_are_those_of_the_ledger_best_first(small, small_sweep):
    table = small.configurations
    assert table["number"].tolist() == [0, 1, 2, 3, 4, 5]
    for _, row in table.iterrows():
        configuration = small_sweep.configurations[row["config_id"]]
        assert (
            row["score"] == pytest.approx(configuration.score)
            and row["training.batch_size"] == configuration.values["training.batch_size"]
        )
    assert table["seeds_failed"].tolist() == [0, 1, 0, 0, 0, 0] and set(table["seeds_run"]) == {3}
    assert small.best.number == 0 and small.best.score == table["score"][0]


def test_curves_give_the_score_of_the_best(small):
    curves = small.curves
    assert {"number", "training.learning_rate", "model.norm"} <= set(curves.columns)
    judged = (curves["metric"] == "total_variation") & (curves["average"] == "ema") & curves["length"].isin([6, 7])
    last = curves[judged & (curves["step"] == 100) & (curves["number"] == small.best.number)]
    assert last.groupby("seed")["value"].mean().median() == pytest.approx(small.best.score)


def test_effects_and_comparisons_have_the_columns_of_their_csv_files(small):
    page = small.report()
    for table, name in ((small.effects, "effects.csv"), (small.configurations, "report.csv")):
        read = pd.read_csv(page.with_name(name))
        assert list(table.columns) == list(read.columns) and len(table) == len(read)
    compared = small.compare(0, "#2")
    assert compared["group"].tolist() == ["test", "selection", "trained"] and set(compared["n"]) == {3}
    with pytest.raises(UserError, match="no configuration 17"):
        small.compare(0, 17)


def test_lengths_are_numbers_of_any_kind(small, small_sweep, tmp_path):
    for lengths in ("8,11", [8, 11], np.array([8, 11])):
        assert small.compare(0, 1, lengths=lengths)["lengths"].tolist() == ["8, 11"]
    assert small.compare(0, 1, lengths=8)["lengths"].tolist() == ["8"]
    other = open_sweep(shutil.copytree(small_sweep.folder, tmp_path / "other"))
    with pytest.raises(TypeError, match=r"compare_with.*'metrics'"):
        small.compare_with(other, metrics="accuracy")
    with pytest.raises(TypeError, match=r"Sweep.compare.*'metrics'"):
        small.compare(0, 1, metrics="accuracy")
    assert set(small.compare_with(other, lengths=(8, 11))["lengths"]) == {"8, 11", "8", "11"}
    with pytest.raises(UserError, match="--lengths '8,17'"):
        small.compare(0, 1, lengths=[8, 17])


def test_settings_of_an_evaluation_may_be_of_numpy(trained_sweep):
    sweep, task = open_sweep(trained_sweep), {"train_length": np.int64(2)}
    table = sweep.evaluate(np.int64(0), lengths=np.array([4, 5]), samples=np.int64(3), **task)
    assert set(table["length"]) == {4, 5} and set(table["samples"]) == {3}
    assert set(sweep.evaluate(0, lengths=range(4, 6), samples=4)["length"]) == {4, 5}
    with pytest.raises(UserError, match="train_length: object is not plain data"):
        sweep.evaluate(0, train_length=object())


def test_the_effects_of_a_sweep_that_searched_nothing_are_an_empty_table(tmp_path, synthetic_sweep, simple_curve):
    state = synthetic_sweep(tmp_path / "one", [{}], 2, simple_curve)
    assert open_sweep(state.folder).effects.empty


def test_curves_are_drawn_on_the_axes_that_are_given(small):
    mine = pyplot.subplots()[1]
    assert small.plot_curves(mine, metric="margin", average="raw") is mine and "margin, median" in mine.get_ylabel()
    texts = [text.get_text() for text in mine.get_legend().get_texts()]
    assert texts[0].startswith("#0 ") and texts[1].endswith("(1 of 3 seeds failed)") and len(texts) == 6
    curves = small.curves
    chosen = (curves["metric"] == "margin") & (curves["average"] == "raw") & (curves["step"] == 100)
    medians = curves[chosen & (curves["number"] == 0)].groupby("length")["value"].median()
    assert np.allclose(shown(mine, 2.4), medians)
    with pytest.raises(UserError, match=r"no metric 'margn'; allowed: .*; did you mean margin"):
        small.plot_curves(metric="margn")


def shown(axes, width):
    (line,) = [line for line in axes.lines if line.get_linewidth() == width]
    return line.get_ydata()


def test_an_effect_has_a_point_for_every_configuration(small):
    axes = small.plot_effect("training.learning_rate")
    assert axes.get_xlabel() == "lr" and axes.get_ylabel().startswith("score")
    drawn = {float(x) for line in axes.lines if line.get_marker() in "o*" for x in line.get_xdata()}
    assert drawn == set(small.configurations["training.learning_rate"])
    with pytest.raises(UserError, match=r"no searched key 'lr'; allowed: model\.norm, "):
        small.plot_effect("lr")


def test_a_notebook_shows_where_it_stands_and_a_picture(small):
    assert "18 seeds ran, 1 failed</p><img" in small._repr_html_()


def test_a_sweep_that_has_just_begun_is_read(tmp_path, synthetic_sweep, simple_curve):
    state = synthetic_sweep(tmp_path / "begun", [{}, {"model.norm": "pre"}], 2, simple_curve, ended=False)
    sweep = open_sweep(state.folder)
    assert sweep.status == "interrupted" and sweep.configurations["score"].isna().all()
    assert sweep.configurations["rank"].isna().all() and sweep._repr_html_().endswith("</p>")
    for what in (lambda: sweep.best, sweep.plot_curves, lambda: sweep.plot_effect("model.norm")):
        with pytest.raises(UserError, match="no configuration"):
            what()


def test_a_notebook_shows_a_sweep_whose_seeds_all_crashed(tmp_path, synthetic_sweep, simple_curve):
    values, late = [{}, {"model.norm": "pre"}], {"evaluation.every": 100}
    state = synthetic_sweep(tmp_path / "lost", values, 2, simple_curve, died=[0, 1], spec=late)
    sweep = open_sweep(state.folder)
    assert sweep._repr_html_().endswith("2 of 2 configurations done, 4 seeds ran, 4 failed</p>")
    with pytest.raises(UserError, match="no median curves to draw: no seed has a curve"):
        sweep.plot_curves()


def test_no_sweep_is_refused_with_the_nearest(small):
    with pytest.raises(NotASweep, match=r"did you mean .*small"):
        open_sweep(small.folder.with_name("smal"))


@pytest.mark.slow
def test_a_dictionary_and_its_file_give_the_same_curves(tmp_path, capsys):
    asked = {"training.steps": 6, "evaluation.every": np.int64(3)}
    sweep = run(TINY, storage=tmp_path / "a", **asked)
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(TINY | {"seeds": 2}))
    other = run(file, storage=tmp_path / "b", name="other", **asked)
    assert sweep.status == other.status == "complete" and other.folder == tmp_path / "b" / "other"
    pd.testing.assert_frame_equal(sweep.curves, other.curves)
    assert (
        set(sweep.curves["step"]) == {3, 6} and sweep.curves["number"].nunique() == sweep.curves["seed"].nunique() == 2
    )
    assert sweep.resume().status == "complete"


@pytest.mark.parametrize("text", ["plain", "Über", "🚀 'quoted' \\ #"])
def test_any_text_reaches_the_specification(tmp_path, text):
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(TINY | {"seeds": 2}))
    assert load_sweep(file, [f"description={to_json('description', text)}"]).description == text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seeds": 0}, "--set seeds=0: seeds"),
        ({"training.stepps": 1}, "stepps"),
        ({"name": "a/b"}, "name"),
        ({"imports": ["no_such_module"]}, "no_such_module"),
        ({"seeds": float("nan")}, "allowed: finite numbers, text"),
        ({"model": object()}, "model: object is not plain data"),
        ({"tracking.uri": "nonsense"}, "tracking.uri"),
    ],
)
def test_bad_input_is_one_error_and_writes_nothing(tmp_path, more, message):
    with pytest.raises((SweepFileError, UserError), match=message):
        run(TINY, storage=tmp_path, **more)
    assert not list(tmp_path.iterdir())
