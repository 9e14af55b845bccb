"""The storage folder: a table of its sweeps, deleting one and nothing else, training one member again."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from orchestrator.cli.main import app
from orchestrator.errors import NotASweep, SweepLocked, UserError
from orchestrator.record.ledger.folders import find_in_storage
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.write_report import write_report
from orchestrator.results.make_summary import summarize
from orchestrator.running.watching.status import make_status_rows
from orchestrator.upkeep import replay as replaying
from orchestrator.upkeep.deletion import _is_deleted, delete_sweep, plan_deletion
from orchestrator.upkeep.listing import format_size, list_sweeps
from orchestrator.upkeep.replay import replay_member

RELEASED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0"


def test_the_table_says_where_each_sweep_stands(tmp_path, synthetic_sweep, simple_curve):
    sweep = synthetic_sweep(tmp_path / "a", [{}, {"model.norm": "pre"}], 2, simple_curve, {(1, 1): 10})
    synthetic_sweep(tmp_path / "b", [{}], 2, simple_curve, ended=False, spec={"search.configurations": 4})
    for name, status in (("c", "interrupted"), ("d", "stopped")):
        synthetic_sweep(tmp_path / name, [{}], 2, simple_curve, ended=False)
        with Ledger.open(tmp_path / name) as ledger:
            ledger.append("end", status=status, message="")
    running = SweepLock(synthetic_sweep(tmp_path / "e", [{}], 2, simple_curve, ended=False).folder)
    shutil.copytree(tmp_path / "a", tmp_path / "f")
    (tmp_path / "f" / "events.jsonl").write_text("damaged\n")
    (tmp_path / "no_sweep").mkdir()
    with running:
        head, *lines, unread = list_sweeps(tmp_path)
    assert head.split("  ")[0] == "name" and "best score" in head
    by_name = {line.split()[0]: line for line in lines}
    states = [(name, line.split()[1]) for name, line in by_name.items()]
    begun = [("a", "finished"), ("b", "interrupted"), ("c", "interrupted"), ("d", "stopped"), ("e", "running")]
    assert states == begun[::-1]  # the newest first
    best = min(configuration.score for configuration in sweep.configurations.values())
    assert f"{best:#.3g} (#0)" in by_name["a"] and sweep.spec["objective"]["metric"] in by_name["a"]
    assert re.search(r" 2 of 2 +4 of 4, 1 failed ", by_name["a"]) and "KiB" in by_name["a"]
    assert re.search(r" 0 of 1 +0 of 2, none failed ", by_name["b"])
    assert by_name["a"].endswith(sweep.study)
    assert unread.startswith("cannot be read: ") and "events.jsonl:1" in unread


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_narrow_table_of_sweeps_has_fewer_columns(tmp_path, synthetic_sweep, simple_curve, width):
    synthetic_sweep(tmp_path / "quickstart-confirm", [{"model.dropout": n / 100} for n in range(30)], 4, simple_curve)
    head, row = list_sweeps(tmp_path, width=width)
    assert max(len(head), len(row)) <= width
    columns = re.split("  +", head)
    assert set(columns) >= {"name", "state", "seeds", "best score", "age"}
    assert ("metric" in columns) == (width > 80) and ("configurations" in columns) == (width > 100)
    assert "confirms" not in columns  # no sweep here confirms another


def test_a_sweep_stopped_before_all_is_drawn_counts_all_that_is_planned(
    tmp_path, synthetic_sweep, simple_curve, monkeypatch
):
    spec = {"space": {"model.dropout": {"uniform": [0, 0.5]}}, "search.sampler": "tpe"}
    state = synthetic_sweep(tmp_path / "a", [{"model.dropout": 0.1}], 2, simple_curve, spec=spec)
    records = read_records(state.folder)
    records[0].fields["spec"]["search"]["configurations"] = 32
    records[-1] = replace(records[-1], fields={"status": "interrupted", "message": ""})
    state = SweepState.replay(state.folder, records)
    assert (
        dict(make_status_rows(state))["configurations"].endswith("/32")
        and summarize(state).planned_configurations == 32
    )
    monkeypatch.setattr(SweepState, "load", lambda folder: state)
    assert " of 32 " in list_sweeps(tmp_path)[1]


def test_a_path_from_here_is_not_a_name_in_the_storage_folder(tmp_path, small_sweep, monkeypatch):
    monkeypatch.setenv("LENGTHWISE_STORAGE", str(small_sweep.folder.parent))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert find_in_storage("small") == find_in_storage("small/") == small_sweep.folder
    assert find_in_storage("./small") == Path("small")


def test_a_storage_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not exist; --storage"):
        list_sweeps(tmp_path / "no")
    assert list_sweeps(tmp_path) == [f"no sweeps in {tmp_path}"]


def test_a_first_sweep_is_proposed_where_the_default_storage_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LENGTHWISE_STORAGE", raising=False)
    for command in (["list", "sweeps"], ["status"], ["ui"]):
        default, chosen = (CliRunner().invoke(app, [*command, *storage]) for storage in ([], ["--storage", "sweeps"]))
        texts = [str(result.exception or result.output) for result in (default, chosen)]
        assert [("run quickstart" in text, "--storage is" in text) for text in texts] == [(True, False), (False, True)]
        assert type(default.exception) is type(chosen.exception) is UserError
    assert not list(tmp_path.iterdir())


def test_sizes_are_readable():
    assert [format_size(n) for n in (0, 1023, 1024, 2_500_000, 3 << 40)] == [
        *("0 B", "1023 B", "1.0 KiB", "2.4 MiB", "3072.0 GiB")
    ]


@pytest.mark.parametrize("name", ["kept_weights", "interrupted_eager"])
def test_a_deleted_sweep_leaves_nothing_of_its_own(name, tmp_path):
    folder = shutil.copytree(RELEASED / name, tmp_path / name)
    write_report(folder)
    (folder / "events.jsonl.damaged-1").touch()
    planned = plan_deletion(folder)
    assert not planned.foreign and " files, " in planned.sentence
    delete_sweep(planned)
    assert not folder.exists() and not list(tmp_path.iterdir())


def test_files_of_the_user_stay_where_they_are(small_sweep):
    folder = small_sweep.folder
    (folder / "notes.txt").write_text("mine")
    (folder / "mine").mkdir()
    planned = plan_deletion(folder)
    assert "not written by lengthwise, so these stay: mine, notes.txt" in planned.sentence
    delete_sweep(planned)
    assert sorted(path.name for path in folder.iterdir()) == ["mine", "notes.txt"]


def test_files_of_the_user_in_folders_of_lengthwise_stay(tmp_path):
    folder = shutil.copytree(RELEASED / "kept_weights", tmp_path / "one")
    for name in ("figures/annotated.svg", "weights/mine/notes.txt", "weights/mine/a.safetensors"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("mine")
    (folder / "figures" / "curves-1.png").write_text("drawn")
    planned = plan_deletion(folder)
    assert "not written by lengthwise, so these stay: figures/annotated.svg, weights/mine" in planned.sentence
    delete_sweep(planned)
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {"figures/annotated.svg", "weights/mine/notes.txt", "weights/mine/a.safetensors"}


@pytest.mark.parametrize(("name", "deleted"), [
    ("figures/a.png", True), ("curves/a.parquet", True), (".a.tmp", True), ("checkpoints/mine/a.png", True),
    ("notes/figures/a.png", False), ("notes/curves/a.parquet", False), ("notes/.a.tmp", False), ("a.png", False),
])  # fmt: skip
def test_objects_of_the_user_at_an_address_stay(name, deleted):
    assert _is_deleted(name) is deleted


def test_a_checkpoint_that_is_replaced_meanwhile_is_not_counted(trained_sweep, tmp_path, monkeypatch):
    folder = shutil.copytree(trained_sweep, tmp_path / "one")
    planned = plan_deletion(folder, checkpoints_only=True)
    list_files = Path.rglob

    def replaced(here, pattern):
        for path in list_files(here, pattern):
            if path.is_file():
                path.unlink()
            yield path

    monkeypatch.setattr(Path, "rglob", replaced)
    assert f"{folder}: 0 checkpoint files, 0 B" in planned.sentence


def test_checkpoints_that_are_a_link_are_refused(trained_sweep, tmp_path):
    folder = shutil.copytree(trained_sweep, tmp_path / "one")
    (folder / "checkpoints").rename(tmp_path / "large disk")
    (folder / "checkpoints").symlink_to(tmp_path / "large disk")
    with pytest.raises(UserError, match=r"checkpoints is a link to .*large disk; delete the checkpoints there"):
        plan_deletion(folder, checkpoints_only=True)
    delete_sweep(plan_deletion(folder))
    assert not folder.exists() and list((tmp_path / "large disk").rglob("*.ckpt"))


def test_checkpoints_alone_are_deleted(trained_sweep, tmp_path):
    folder = shutil.copytree(trained_sweep, tmp_path / "one")
    before = {path.relative_to(folder) for path in folder.rglob("*")}
    planned = plan_deletion(folder, checkpoints_only=True)
    assert " checkpoint files, " in planned.sentence and "restart from step 0" in planned.sentence
    delete_sweep(planned)
    gone = before - {path.relative_to(folder) for path in folder.rglob("*")}
    assert gone == {path for path in before if path.parts[0] == "checkpoints"} != set()
    assert replay_member(folder, "#1", 3).difference is None
    with pytest.raises(UserError, match="no checkpoints to delete"):
        plan_deletion(folder, checkpoints_only=True)


def test_deleting_says_which_sweeps_are_concerned(tmp_path):
    for name in ("finished", "finished-confirm"):
        shutil.copytree(RELEASED / name, tmp_path / name)
    assert plan_deletion(tmp_path / "finished").sentence.endswith("; its confirmation finished-confirm stays")
    shutil.copytree(RELEASED / "grid", tmp_path / "grid")
    shutil.copytree(RELEASED / "grid", tmp_path / "copied")
    assert plan_deletion(tmp_path / "copied").sentence.endswith("; the copy grid and the MLflow runs stay")
    sentence = plan_deletion(tmp_path / "finished-confirm").sentence
    assert sentence.endswith("; the report of finished loses these confirmed scores")


def test_a_damaged_sweep_can_be_deleted(small_sweep):
    (small_sweep.folder / "events.jsonl").write_text("damaged\n")
    delete_sweep(plan_deletion(small_sweep.folder))
    assert not small_sweep.folder.exists()


def test_a_link_is_not_followed(small_sweep, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").touch()
    (small_sweep.folder / "figures").symlink_to(outside)
    link = tmp_path / "link"
    link.symlink_to(small_sweep.folder)
    with pytest.raises(UserError, match="is a link to"):
        plan_deletion(link)
    delete_sweep(plan_deletion(small_sweep.folder))
    assert (outside / "mine").exists() and not small_sweep.folder.exists()


def test_a_sweep_that_is_being_run_and_no_sweep_are_refused(small_sweep, tmp_path):
    with SweepLock(small_sweep.folder):
        before = sorted(small_sweep.folder.rglob("*"))
        with pytest.raises(SweepLocked, match="another driver is running"):
            delete_sweep(plan_deletion(small_sweep.folder))
        assert sorted(small_sweep.folder.rglob("*")) == before
    with pytest.raises(NotASweep, match="is not a sweep"):
        plan_deletion(tmp_path)


def test_a_member_that_is_trained_again_agrees_bit_for_bit(trained_sweep):
    before = {path: path.stat().st_mtime_ns for path in trained_sweep.rglob("*")}
    replay = replay_member(trained_sweep, "#1", 3)
    assert replay.agreed_steps == [6, 12] and replay.difference is None and not replay.differing_keys
    assert "the curves agree bit for bit at steps 6, 12" in replay.describe()[-1]
    assert {path: path.stat().st_mtime_ns for path in trained_sweep.rglob("*") if path in before} == before
    replay.agreed_steps = list(range(15, 615, 15))
    assert replay.describe()[-1].endswith("agree bit for bit at steps 15 to 600 (40 evaluations)")


def test_the_first_evaluation_that_differs_is_named(trained_sweep, monkeypatch):
    read = replaying.read_curves

    def nudged(state, **given):
        curves = read(state, **given)
        mine = (curves["step"] == 12) & (curves["length"] == 5) & (curves["average"] == "ema")
        curves.loc[mine, "value"] = np.nextafter(curves.loc[mine, "value"], np.float32(2))
        return curves

    monkeypatch.setattr(replaying, "read_curves", nudged)
    replay = replay_member(trained_sweep, "0", 0)
    assert replay.agreed_steps == [6]
    assert replay.difference and "difference at step 12: total_variation (ema) at length 5: " in replay.difference
    assert replay.describe()[-1].endswith("differs from the worker in: nothing recorded")


def test_members_that_cannot_be_replayed_are_refused(trained_sweep, tmp_path, synthetic_sweep, simple_curve):
    with pytest.raises(UserError, match="no seed 1; allowed: 0, 3"):
        replay_member(trained_sweep, "0", 1)
    with pytest.raises(UserError, match="no configuration 9"):
        replay_member(trained_sweep, "9", 0)
    state = synthetic_sweep(tmp_path / "begun", [{}], 2, simple_curve, ended=False, stop_after_step=0)
    with pytest.raises(UserError, match="has no recorded curves yet"):
        replay_member(state.folder, "0", 0)


@pytest.mark.parametrize(("then", "now", "agrees"), [(np.nan, np.nan, True), (np.nan, 1, False), (0.0, -0.0, False)])
def test_nan_agrees_with_nan_and_with_nothing_else(then, now, agrees):
    recorded = pd.DataFrame({"average": ["raw"], "metric": ["kl"], "length": [4], "value": np.float32([then])})
    values = np.array(now, dtype=np.float32).reshape(1, 1, 1, 1)
    again = SimpleNamespace(step=1, averages=("raw",), metrics=("kl",), lengths=(4,), values_MAKL=values)
    assert (replaying._describe_difference(again, recorded) is None) == agrees
