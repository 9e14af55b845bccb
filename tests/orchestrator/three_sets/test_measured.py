"""What a ledger says of what its configurations measure: once, read without any class, and beside older records."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.code import user_code
from orchestrator.engine.engine import Engine
from orchestrator.errors import DamagedLedger
from orchestrator.interface.measurements import Measurements, make_measurement_fields
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import encode_record, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import make_csv_tables
from orchestrator.report.write_report import present_report, write_report
from orchestrator.results.make_summary import summarize
from orchestrator.running.watching.status import make_status_rows
from orchestrator.sweep.run_and_resume import resume_sweep
from orchestrator.tracking.publish import publish
from orchestrator.tracking.run_contents import MlflowRunBuilder
from search_spaces import load_sweep
from trainers.config.member import MemberConfig
from trainers.settings import registry

SHIPPED = {
    "set_complement": {"name": "set_complement", "vocabulary": 8},
    "padded_addition": {"name": "padded_addition", "width": 8, "train_digits": 2, "measured_cascades": [3, 0]},
}


@pytest.fixture
def forget(own_code_forgotten: None) -> Callable[[Path], None]:
    """forget(folder): the module is gone, and the copy in the sweep's folder fails when it is imported."""

    def gone(folder: Path) -> None:
        shutil.rmtree(folder.parent / "study")
        for copy in (folder / "code").rglob("*.py"):
            copy.write_text("raise RuntimeError('gone')\n")
        registry._classes["task"].pop("three_sets")
        sys.modules.pop("three_sets")
        user_code._loaded_sources.clear()

    return gone


def of(task: dict) -> Measurements:
    model = {"name": "attention_only", "width": 8, "value_width": 8}
    training = {"steps": 4, "batch_size": 4, "learning_rate": 0.1}
    return Engine.list_measurements(
        MemberConfig.from_dict({"task": task, "model": model, "training": training, "seed": 0})
    )


@pytest.mark.parametrize("task", SHIPPED.values(), ids=SHIPPED)
def test_what_is_recorded_is_read_back_equal(task):
    known = of(task)
    assert Measurements.from_recorded(json.loads(json.dumps(known.to_fields()))) == known
    assert known.metrics and known.headline


def test_it_is_written_once_whatever_the_number_of_configurations(ran):
    folder = ran()
    records = [r for r in read_records(folder) if r.kind == "configuration"]
    (name,) = {record.fields["measured"] for record in records}
    assert [list(record.fields.get("measured_in_full", {})) for record in records] == [[name], [], [], []]
    state = SweepState.load(folder)
    member = load_and_build(folder)
    assert state.measurements_by_digest == {name: Engine.list_measurements(member).to_fields()}
    more = [
        make_measurement_fields(Engine.list_measurements(member), state.measurements_by_digest) for _ in range(1000)
    ]
    assert len(json.dumps(more)) < 0.1 * sum(len(json.dumps(record.fields)) for record in records) / 4 * 1000


def load_and_build(folder: Path) -> MemberConfig:
    spec = load_sweep(folder.parent / "study" / "sets.yaml")
    user_code.import_spec_modules(spec)
    configuration = next(iter(SweepState.load(folder).configurations.values()))
    return MemberConfig.from_dict({**configuration.resolved, "seed": spec.seeds[0]})


def test_a_configuration_whose_description_is_nowhere_is_damage(tmp_path):
    fields = {"number": 0, "config_id": "a", "values": {}, "resolved": {}, "duplicate_of": None, "measured": "b"}
    first = {"name": "s", "study": "t", "spec": {}, "spec_hash": "", "provenance": {}}
    with Ledger.create(tmp_path / "s", first) as ledger:
        ledger.append("configuration", **fields)
    with pytest.raises(DamagedLedger, match="refers to unknown metrics"):
        SweepState.load(tmp_path / "s")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it
def test_everything_is_read_when_the_task_is_gone_and_its_copy_cannot_be_imported(
    ran, forget, tmp_path, capsys, fresh_store
):
    folder = ran("resources.keep_weights=true")
    before = summarize(SweepState.load(folder))
    forget(folder)
    state = SweepState.load(folder)
    result = summarize(state)
    assert repr((result.rows, result.bands)) == repr((before.rows, before.bands))
    assert result.measurements == before.measurements
    present_report(folder, Console(width=400))
    assert "8 seeds ran" in capsys.readouterr().out
    assert dict(make_status_rows(state))["seeds"] == "8/8"
    published = publish(folder, f"sqlite:///{shutil.copy(fresh_store, tmp_path)}")
    assert published.completed == 4


@pytest.mark.slow
def test_a_metric_that_a_task_has_got_since_is_no_part_of_a_sweep_that_is_gone_on_with(ran):
    """Its curves are kept; tables, figures and rows are those of the metrics that were recorded."""
    folder = ran()
    whole = summarize(SweepState.load(folder))
    assert "steps_to_accuracy" in whole.metrics
    old = []
    for record in read_records(folder):
        if record.kind not in ("sweep", "configuration"):
            break
        for recorded in record.fields.get("measured_in_full", {}).values():
            for configuration in recorded["sets"]:
                configuration["metrics"] = {
                    name: of for name, of in configuration["metrics"].items() if "steps_to" not in name
                }
        old.append(encode_record(record))
    shutil.rmtree(folder / "curves")
    (folder / LEDGER_FILE).write_bytes(b"".join(old))
    assert resume_sweep(folder, Console(quiet=True)).exit_code == 0
    again = summarize(SweepState.load(folder))
    assert not any("steps_to" in name for name in (*again.metrics, *again.headline))
    assert {metric for _, metric, _ in again.bands} > set(again.metrics)
    assert [(row.config_id, row.score) for row in again.rows] == [(row.config_id, row.score) for row in whole.rows]
    for name, lines in make_csv_tables(again).items():
        assert [list(line) for line in lines] == [list(line) for line in make_csv_tables(whole)[name]], name
    write_report(folder)
    state = SweepState.load(folder)
    contents = MlflowRunBuilder(again, read_records(folder), read_curves(state))
    points = [point.key for _, run in contents.make_configuration_runs() for point in run.points]
    assert points and not any("steps_to" in key for key in points)


def test_a_report_of_a_new_sweep_builds_no_class(ran, monkeypatch):
    folder = ran()

    def refused(*_):
        raise AssertionError("a class was built")

    monkeypatch.setattr("orchestrator.engine.engine.Engine.rebuild", refused)
    monkeypatch.setattr("orchestrator.report.page.data.import_recorded", refused)
    write_report(folder)
