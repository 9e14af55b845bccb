"""Files for other programs, read by those: a sweep file that is run, weights in plain torch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import load_file

from orchestrator import open_sweep, run
from orchestrator.errors import DamagedWeights, UserError
from orchestrator.export import write_exports
from orchestrator.export.best import make_best_file
from orchestrator.export.write_exports import ExportRequest, export
from orchestrator.preview.smoke import validate_sweep
from orchestrator.record.files.curves import write_curves
from orchestrator.record.files.weights import load
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from search_spaces import load_sweep


@pytest.mark.slow
def test_the_best_configuration_is_a_sweep_file_that_gives_the_same_curves(trained_sweep, tmp_path):
    file = tmp_path / "best.yaml"
    assert export(trained_sweep, ExportRequest(best=file)) == [f"wrote {file}", f"run it with: lengthwise run {file}"]
    *_, good = validate_sweep(load_sweep(file), with_smoke=False)
    assert good == "valid; built 1 configuration"
    before, again = open_sweep(trained_sweep), run(file, storage=tmp_path / "again")
    assert again.best.config_id == before.best.config_id and again.best.score == before.best.score
    curves = before.curves[before.curves["number"] == before.best.number].reset_index(drop=True)
    for column in ("config_id", "seed", "average", "metric", "length", "step", "value"):
        assert curves[column].astype(again.curves[column].dtype).equals(again.curves[column]), column


@pytest.mark.parametrize(
    ("name", "kept"), [("a" * 100, 95), ("长" * 66, 65), ("é" * 99, 95), ("short", 5)], ids=lambda value: str(value)[:2]
)
def test_the_name_of_the_best_configuration_is_one_that_a_sweep_may_have(small_sweep, name, kept):
    small_sweep.name = name
    assert yaml.safe_load(make_best_file(small_sweep, summarize(small_sweep)))["name"] == f"{name[:kept]}-best"


def test_nothing_is_best_while_nothing_has_a_score(tmp_path, synthetic_sweep, simple_curve):
    state = synthetic_sweep(tmp_path / "begun", [{}], 2, simple_curve, ended=False)
    with pytest.raises(UserError, match="no configuration has a score yet"):
        export(state.folder, ExportRequest(best=tmp_path / "best.yaml"))
    assert not (tmp_path / "best.yaml").exists()


@pytest.mark.slow
def test_weights_are_loaded_by_the_printed_lines_in_plain_torch(trained_sweep, tmp_path, monkeypatch):
    lines = export(trained_sweep, ExportRequest(weights=tmp_path / "weights"))
    names = sorted(path.name for path in (tmp_path / "weights").iterdir())
    assert names == [f"configuration-{number}-seed-{seed}.safetensors" for number in range(3) for seed in (0, 3)]
    assert lines[0].startswith("wrote 6 files")
    loader = "\n".join(lines[1:])
    assert len([line for line in lines[1:] if line]) <= 5
    check = "import sys; assert not {'orchestrator', 'trainers'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{loader}\n{check}"], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    for needless in (
        "orchestrator.engine.engine.Engine.rebuild",
        "orchestrator.record.files.recorded_modules.load_module",
    ):
        monkeypatch.setattr(needless, None)  # `load` needs no class of the sweep
    assert 'startswith("ema/")' in loader.replace("'", '"') and "raw" not in loader.replace(
        str(tmp_path), ""
    )  # ranked by
    shapes = {name: array.shape for name, array in load(trained_sweep, 0, seed=0).items()}
    assert eval(done.stdout) == shapes
    mine = load_file(tmp_path / "weights" / "configuration-2-seed-3.safetensors")
    for name, array in load(trained_sweep, 2, seed=3, average="ema").items():
        assert np.array_equal(mine[f"ema/{name}"], array)


def test_damaged_or_missing_weights_are_refused(trained_sweep, small_sweep, tmp_path, synthetic_sweep, simple_curve):
    with pytest.raises(UserError, match=r"no weights were kept; set resources\.keep_weights: true"):
        export(small_sweep.folder, ExportRequest(weights=tmp_path / "weights"))
    failed = synthetic_sweep(tmp_path / "failed", [{}], 2, simple_curve, failed={(0, 0): 60, (0, 1): 60})
    with pytest.raises(UserError, match=r"no weights were kept; all its seeds failed$"):
        export(failed.folder, ExportRequest(weights=tmp_path / "weights"))
    begun = synthetic_sweep(tmp_path / "begun", [{}], 2, simple_curve, ended=False)
    with pytest.raises(UserError, match="no weights were kept; no seed has ended"):
        export(begun.folder, ExportRequest(weights=tmp_path / "weights"))
    path = next((trained_sweep / "weights").iterdir())
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedWeights, match=path.name):
        export(trained_sweep, ExportRequest(weights=tmp_path / "weights"))
    assert not (tmp_path / "weights").exists()


@pytest.mark.slow
def test_files_that_exist_are_kept_and_nothing_is_half_written(trained_sweep, tmp_path):
    mine, other = tmp_path / "mine.tex", tmp_path / "best.yaml"
    mine.write_text("mine")
    with pytest.raises(UserError, match=r"mine\.tex: exists already; choose another name, or --force"):
        export(trained_sweep, ExportRequest(best=other, latex=mine, weights=tmp_path / "weights"))
    assert mine.read_text() == "mine" and not other.exists() and not (tmp_path / "weights").exists()
    export(trained_sweep, ExportRequest(best=other, latex=mine), force=True)
    assert "toprule" in mine.read_text() and other.exists()
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "configuration-1-seed-0.safetensors").write_text("mine")
    with pytest.raises(UserError, match=r"configuration-1-seed-0\.safetensors: exists already"):
        export(trained_sweep, ExportRequest(weights=tmp_path / "weights"))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"/file is a file, not a folder"):
        export(trained_sweep, ExportRequest(weights=tmp_path / "file"))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "nothing to export; allowed: one or more of --best"),
        (dict(size="3x2", latex=Path("t.tex")), "--size: only allowed with --figures"),
        (dict(to=Path("paper"), latex=Path("t.tex")), "--to: only allowed with --figures"),
        (dict(labels=Path("l.yaml"), best=Path("b.yaml")), "--labels: only allowed with --figures"),
        (dict(figures="gif"), "--figures gif: allowed: pdf, svg, png"),
        (dict(figures="pdf", size="3,2"), "--size 3,2: allowed: WIDTHxHEIGHT in inches"),
        (dict(figures="pdf", size="0x2"), "--size 0x2: allowed: WIDTHxHEIGHT in inches"),
        (dict(latex=Path("no/such/t.tex")), "there is no folder no/such"),
        (dict(latex=Path("d.tex")), "is a folder; give the name of a file"),
        (dict(latex=Path("a")), "--latex a: does not end with .tex"),
        (dict(best=Path("a.yml2")), "--best a.yml2: does not end with .yaml"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_a_sentence(small_sweep, asked, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "small")
    Path("d.tex").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=message):
        export(small_sweep.folder, ExportRequest(**asked))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_of_the_program_is_not_written_over_the_best_configuration(small_sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(write_exports, "read_program", lambda state: {"best.yaml": b"settings of the script"})
    with pytest.raises(UserError, match=r"best\.yaml: two of the files"):
        export(small_sweep.folder, ExportRequest(best=tmp_path / "best.yaml"))
    assert not (tmp_path / "best.yaml").exists()


def test_curves_are_the_same_table_as_in_parquet(trained_sweep, tmp_path):
    export(trained_sweep, ExportRequest(curves=tmp_path / "curves.csv"))
    written = pd.read_csv(tmp_path / "curves.csv", dtype={"value": "float32", "config_id": "str"})
    table = pd.read_parquet(write_curves(SweepState.load(trained_sweep))).astype({"config_id": "str"})
    pd.testing.assert_frame_equal(written, table, check_dtype=False, check_categorical=False, check_exact=True)
