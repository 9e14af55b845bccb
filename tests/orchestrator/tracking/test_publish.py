"""MLflow holds what the ledger says, every point once, whatever was cut short on the way."""

import errno
import itertools
import json
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from mlflow.tracking import MlflowClient
from PIL import Image

from orchestrator.code.provenance import read_provenance
from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import read_records
from orchestrator.report.lead_sentences import describe_lead
from orchestrator.results.make_summary import summarize
from orchestrator.tracking.address import choose_tracking_uri, make_default_uri
from orchestrator.tracking.publish import delete_runs, draw_picture
from orchestrator.tracking.publisher import Publication, Publisher
from orchestrator.tracking.tracking_errors import TrackingError
from search_spaces import dump_yaml
from tests.mlflow_points import assert_complete, children, paths_of, rows_of
from tests.orchestrator.conftest import TRAINED
from tests.orchestrator.program.studies import Study

FINISHED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0" / "finished"


def test_every_point_is_there_once_and_again_changes_nothing(sweep, publish):
    first = publish(sweep.folder)
    client = MlflowClient(first.uri)
    assert first.uri == make_default_uri(sweep.folder.parent)
    assert (first.created, first.completed) == (4, 3)
    assert_complete(client, first.parent_run_id, sweep)
    rows = rows_of(first.uri)
    assert sum(rows.values()) == first.points

    again = publish(sweep.folder)
    assert (again.created, again.points, again.parent_run_id) == (0, 0, first.parent_run_id)
    assert rows_of(first.uri) == rows


def test_a_sweep_of_functions(tmp_path, fresh_store, publish, no_reports, own_code_forgotten):
    study = Study(tmp_path / "study")
    study.write(program={"function": "mine.train"}, space={"config.lr": {"grid": [0.25, 0.5]}}, seeds=2)
    (study.folder / "mine.py").write_text(
        "def train(config, seed, report, checkpoints):\n"
        "    for step in (10, 20, 30):\n"
        "        report(step, {'acc': {10: config['lr'] * step}}, loss=1 / step)\n"
    )
    state = study.run()
    shutil.copy(fresh_store, state.folder.parent / "mlflow.db")
    first = publish(state.folder)
    client = MlflowClient(first.uri)
    runs = children(client, first.parent_run_id)
    assert {run.data.params["config.lr"]: run.data.metrics["score"] for run in runs} == {"0.25": 7.5, "0.5": 15}
    assert client.get_run(first.parent_run_id).info.status == "FINISHED"
    rows = rows_of(first.uri)
    steps = {step for name, key, step, *_ in rows if name == runs[0].data.tags["lengthwise.config_id"]}
    assert {10, 20, 30} <= steps
    again = publish(state.folder)
    assert (again.created, again.points) == (0, 0) and rows_of(first.uri) == rows


def test_runs_say_what_they_are(sweep, publish):
    done = publish(sweep.folder)
    client = MlflowClient(done.uri)
    parent = client.get_run(done.parent_run_id)
    assert parent.info.status == "FINISHED" and parent.info.run_name == "läng e"
    assert client.get_experiment(parent.info.experiment_id).name == "set_complement"
    tags = parent.data.tags
    assert tags["mlflow.source.git.commit"] == "0" * 40 and tags["lengthwise.spec_hash"] == "f" * 16
    assert parent.data.metrics["seeds_failed"] == 4 and parent.data.metrics["seeds_run"] == 9

    runs = {int(run.data.tags["lengthwise.number"]): run for run in children(client, done.parent_run_id)}
    assert [runs[n].info.status for n in range(3)] == ["FINISHED", "FINISHED", "FAILED"]
    key = "total_variation/ema/median"
    curves = [(parent.info.run_id, f"first/{key}"), (runs[0].info.run_id, key)]
    first, best = ({(p.step, p.value) for p in client.get_metric_history(*curve)} for curve in curves)
    assert first == best and len(first) > 2
    assert runs[1].data.tags["lengthwise.failed_seeds"] == "2 (at step 60)"
    assert "rank" not in runs[2].data.metrics and runs[0].data.metrics["rank"] == 1
    assert runs[0].data.params["training.learning_rate"] == "0.01"
    assert runs[0].data.params["model.name"] == "attention_only"
    begun = next(
        json.loads(line) for line in (sweep.folder / LEDGER_FILE).read_text().splitlines() if "config_id" in line
    )
    assert runs[0].info.start_time == round(begun["time"] * 1000)

    # The note compares the first configuration with the next, as the screen does.
    lead = describe_lead(summarize(sweep))
    assert lead and all(sentence in tags["mlflow.note.content"] for sentence in lead)


def test_a_published_run_has_the_name_of_the_others_again_unless_the_user_renamed_it(sweep, publish):
    done = publish(sweep.folder)
    client = MlflowClient(done.uri)
    runs = {int(run.data.tags["lengthwise.number"]): run for run in children(client, done.parent_run_id)}
    before = {number: run.info.run_name for number, run in runs.items()}
    assert all(name.startswith(f"#{number}: lr ") for number, name in before.items())
    client.update_run(runs[0].info.run_id, name="läng e #0")
    client.update_run(runs[1].info.run_id, name="mine")
    publish(sweep.folder)
    names = {run.info.run_name for run in children(client, done.parent_run_id)}
    assert names == {before[0], "mine", before[2]}


def test_the_report_is_made_and_uploaded_once(sweep, reports, publish):
    done = publish(sweep.folder)
    client = MlflowClient(done.uri)
    assert reports == [sweep.folder]
    assert paths_of(client, done.parent_run_id) == {"curves.parquet", "curves.png", "report.html", "sweep.yaml"}
    publish(sweep.folder)
    publish(sweep.folder, sweep_files=False)
    assert reports == [sweep.folder]


def test_the_picture_has_the_curves_and_is_left_out_without_any(sweep, tmp_path, synthetic_sweep, simple_curve):
    (path,) = draw_picture(summarize(sweep), tmp_path)
    with Image.open(path) as image:
        assert (path.name, image.format, image.size) == ("curves.png", "PNG", (1980, 1200))
    begun = synthetic_sweep(tmp_path / "begun", [{"training.batch_size": 8}], 2, simple_curve, ended=False)
    assert [*draw_picture(summarize(begun), tmp_path)] == []


def test_no_file_is_made_of_a_sweep_that_has_not_ended(sweep, reports, publish):
    ledger = sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if json.loads(line)["kind"] == "pack_end"]
    ledger.write_bytes(b"".join(lines[: ends[1] + 4]))
    done = publish(sweep.folder, sweep_files=False)
    assert (done.completed, reports) == (2, [])
    client = MlflowClient(done.uri)
    assert not paths_of(client, done.parent_run_id)
    assert len(children(client, done.parent_run_id)) == 3  # the third configuration has begun


def refuse(monkeypatch, method, call):
    """Let one call of a method of MLflow's client fail, counted from 1."""
    original, calls = getattr(MlflowClient, method), itertools.count(1)

    def called(self, *args, **kwargs):
        if next(calls) == call:
            raise ConnectionError("connection refused")
        return original(self, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, method, called)


@pytest.mark.parametrize(("upload", "written"), [(1, 1), (4, 2)])  # the picture is sent before the report is made
def test_files_whose_upload_was_cut_short_are_made_and_sent_again(
    sweep, reports, publish, monkeypatch, upload, written
):
    refuse(monkeypatch, "log_artifact", upload)
    with pytest.raises(TrackingError, match="connection refused"):
        publish(sweep.folder)
    done = publish(sweep.folder)
    assert len(reports) == written
    assert len(paths_of(MlflowClient(done.uri), done.parent_run_id)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("call", [2, 4])  # one for each run: its parameters, points and tags
def test_a_publish_cut_short_is_completed(sweep, monkeypatch, call, publish):
    whole = publish(sweep.folder, f"sqlite:///{sweep.folder.parent}/whole.db")
    uri = f"sqlite:///{sweep.folder.parent}/cut.db"
    refuse(monkeypatch, "log_batch", call)
    with pytest.raises(TrackingError, match=r"connection refused\ncomplete it later with: lengthwise publish"):
        publish(sweep.folder, uri)
    cut = rows_of(uri)
    assert cut <= rows_of(whole.uri)
    done = publish(sweep.folder, uri)
    assert rows_of(uri) == rows_of(whole.uri)
    assert done.points == sum((rows_of(uri) - cut).values())


@pytest.mark.slow
def test_a_ledger_published_as_it_grows_ends_like_one_published_whole(sweep, build, simple_curve, publish):
    def ever_better(number, *rest):  # so that ranks change as configurations finish
        return simple_curve(2 - number, *rest)

    folder = sweep.folder.parent / "growing"
    sweep = build(folder, curve=ever_better, failed={(1, 2): 60})
    whole = publish(sweep.folder, f"sqlite:///{sweep.folder.parent}/whole.db")
    uri = f"sqlite:///{sweep.folder.parent}/growing.db"
    ledger = sweep.folder / LEDGER_FILE
    lines = ledger.read_bytes().splitlines(keepends=True)
    seen = []
    for length in (*range(2, len(lines), 3), len(lines)):
        ledger.write_bytes(b"".join(lines[:length]))
        done = publish(sweep.folder, uri, sweep_files=False)
        seen.append((done.completed, MlflowClient(uri).get_run(done.parent_run_id).info.status))
        assert rows_of(uri) <= rows_of(whole.uri)
    assert rows_of(uri) == rows_of(whole.uri)
    assert seen[0] == (0, "RUNNING") and (1, "RUNNING") in seen and seen[-1] == (3, "FINISHED")


def test_a_sweep_in_a_folder_that_cannot_be_written_is_no_fault_of_mlflow(sweep, monkeypatch, publish):
    def acquire(lock):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(FileLock, "acquire", acquire)
    with pytest.raises(TrackingError) as refused:
        publish(sweep.folder)
    assert str(refused.value).startswith(f"{sweep.folder / '.publish.lock'}: ")
    assert "Permission denied" in str(refused.value)


def test_a_store_in_a_folder_with_a_question_mark_is_refused(tmp_path, build, publish):
    (tmp_path / "q?x").mkdir()
    state = build(tmp_path / "q?x" / "s", 1, 1)
    with pytest.raises(TrackingError, match=r"q\?x/mlflow\.db: the path of a SQLite file must not contain '\?'; "):
        publish(state.folder)
    assert [path.name for path in tmp_path.iterdir()] == ["q?x"]


def test_two_sweeps_of_one_name_are_two_parents(tmp_path, build, fresh_store, publish):
    uri = make_default_uri(Path(shutil.copy(fresh_store, tmp_path)).parent)
    folders = [tmp_path / part / "same" for part in ("a", "b")]
    for folder in folders:
        build(folder, 1, 1)
    ids = {publish(folder, uri, sweep_files=False).parent_run_id for folder in folders}
    assert len(ids) == 2
    assert all(len(children(MlflowClient(uri), run_id)) == 1 for run_id in ids)


def test_hostile_labels_become_valid_and_distinct_keys(tmp_path, build, fresh_store, publish):
    averages = {
        "ema": {"kind": "ema", "decay": 0.99},
        "a/b": {"kind": "raw"},
        "a b": {"kind": "ema", "decay": 0.5},
        "β+": {"kind": "raw"},
    }
    averages |= {"a:b": {"kind": "ema", "decay": 0.9}, "..": {"kind": "ema", "decay": 0.8}}
    spec = {"training.averages": averages, "study": "Étude №1 'x'"}
    state = build(tmp_path / "it's", 1, 1, spec=spec)
    shutil.copy(fresh_store, tmp_path)
    done = publish(state.folder, sweep_files=False)
    (run,) = children(MlflowClient(done.uri), done.parent_run_id)
    assert {key.split("/")[1] for key in run.data.metrics if key.startswith("margin/")} == {
        "ema", "a_b", "a b", "β_", "a_b_2", "_"
    }  # fmt: skip


def test_an_empty_address_is_the_store_beside_the_sweep_whatever_its_file_names(tmp_path, build, fresh_store, publish):
    sweep = build(tmp_path / "s", count=1, seeds=1, spec={"tracking.uri": f"sqlite:///{tmp_path / 'named.db'}"})
    shutil.copy(fresh_store, tmp_path)
    assert publish(sweep.folder, "", sweep_files=False).uri == make_default_uri(tmp_path)
    assert not (tmp_path / "named.db").exists()


@pytest.fixture
def asked(monkeypatch):
    """The addresses and experiments that sweeps ask a publisher for, which starts no process and refuses them."""

    class Refused(Publisher):
        def __init__(self): ...

        def _send(self, **request):
            asked.extend([(request["uri"], request["experiment"])] if "uri" in request else [])

        def read_refusals(self):
            return []

        def wait(self):
            return Publication(problem="no")

        def kill(self): ...

    asked = []
    for module in ("sweep.children", "session.finish"):
        monkeypatch.setattr(f"orchestrator.{module}.Publisher", Refused)
    return asked


def test_a_resumed_sweep_is_published_where_its_settings_say_and_not_where_it_was_begun(lengthwise, tmp_path, asked):
    named = f"sqlite:///{tmp_path / 'named.db'}"
    folder = shutil.copytree(FINISHED, tmp_path / "finished")
    file = folder / "sweep.yaml"
    file.write_text(file.read_text().replace("enabled: false\n  uri: null", f"enabled: true\n  uri: {named}"))
    for words in ((), ("--tracking-uri", "", "--set", "tracking.experiment=zzz"), ("--set", "tracking.uri=null")):
        assert "not published: no" in lengthwise.succeeds("resume", folder, *words).stdout
    file.write_text(file.read_text().replace(named, "null"))
    lengthwise.succeeds("resume", folder)
    assert asked == [(named, ""), ("", "zzz"), ("", ""), ("", "")]
    tried = [record.fields["experiment"] for record in read_records(folder) if record.kind == "publish"]
    assert tried == ["tests", "zzz", "tests", "tests"]


def test_runs_are_found_in_the_experiment_that_a_resumed_sweep_was_given(tmp_path, build, fresh_store, publish):
    sweep = build(tmp_path / "s", count=2, seeds=1)
    shutil.copy(fresh_store, tmp_path)
    first = publish(sweep.folder, "", experiment="other", sweep_files=False)  # as `resume --set tracking.experiment`
    with Ledger.open(sweep.folder) as ledger:
        for ok, experiment in ((True, "other"), (False, "never reached")):
            ledger.append("publish", uri=first.uri, ok=ok, message="", experiment=experiment)
        ledger.append("publish", uri=first.uri, ok=True, message="")  # by `lengthwise publish`, or of an older version
    again = publish(sweep.folder, sweep_files=False)
    assert (again.created, again.points, again.parent_run_id) == (0, 0, first.parent_run_id)
    publication = publish(sweep.folder, experiment="", sweep_files=False)
    client = MlflowClient(publication.uri)
    assert client.get_experiment(client.get_run(publication.parent_run_id).info.experiment_id).name == "set_complement"
    assert delete_runs(sweep.folder) == {first.uri: 6} and delete_runs(sweep.folder) == {first.uri: 0}


def test_the_address_that_a_foreign_folder_names_is_not_sent_to_unasked(
    tmp_path, build, fresh_store, publish, monkeypatch
):
    """Written on lab3, as by the builder of sweeps; whoever wrote it may have named any address."""
    named = f"sqlite:///{tmp_path / 'named.db'}"
    sweep = build(tmp_path / "s", count=1, seeds=1, spec={"tracking.uri": named})
    for store in ("named", "own"):
        shutil.copy(fresh_store, tmp_path / f"{store}.db")
    before = (tmp_path / "named.db").read_bytes()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UserError, match=rf"{named}, recorded on lab3.*--tracking-uri") as refused:
        publish(sweep.folder)
    assert refused.value.exit_code == 2 and (tmp_path / "named.db").read_bytes() == before
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'own.db'}")
    assert publish(sweep.folder).uri.endswith("own.db") and (tmp_path / "named.db").read_bytes() == before
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    with Ledger.open(sweep.folder) as ledger:
        ledger.append("resume", provenance=read_provenance())
    assert publish(sweep.folder).uri == named  # the user's own: it was resumed here
    assert (tmp_path / "named.db").read_bytes() != before


def test_the_variable_of_mlflow_is_the_default_of_a_sweep_that_names_no_address(tmp_path, build, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///shell.db")
    state = build(tmp_path / "s", count=1, seeds=1)
    assert choose_tracking_uri(state) == f"sqlite:///{tmp_path / 'shell.db'}"
    assert choose_tracking_uri(state, "") == make_default_uri(tmp_path)


@pytest.mark.slow
def test_the_variable_of_mlflow_counts_where_neither_file_nor_option_names_an_address(
    lengthwise, tmp_path, fresh_store, no_reports, asked
):
    (storage := tmp_path / "s").mkdir()
    for store in (tmp_path / "shell.db", storage / "mlflow.db"):
        shutil.copy(fresh_store, store)
    small = {"search": {"configurations": 1}, "seeds": 1, "tracking": {}}
    (file := tmp_path / "trained.yaml").write_text(dump_yaml({**TRAINED, **small}))
    shell, default = f"sqlite:///{tmp_path / 'shell.db'}", make_default_uri(storage)
    run, folder = ("run", file, "--storage", storage), storage / "trained"

    def runs_at(uri: str) -> int:
        client = MlflowClient(uri)
        return len(client.search_runs([experiment.experiment_id for experiment in client.search_experiments()]))

    lengthwise.environment["MLFLOW_TRACKING_URI"] = "sqlite:///shell.db"
    lengthwise.succeeds(*run, cwd=tmp_path)
    lengthwise.succeeds(*run, "--name", "other", "--tracking-uri", "", cwd=tmp_path)
    assert asked == [(shell, ""), ("", "")]
    assert f"{shell}: " in lengthwise.succeeds("publish", folder, cwd=storage).stdout
    assert (runs_at(shell), runs_at(default)) == (2, 0)
    assert f"{default}: " in lengthwise.succeeds("publish", folder, "--tracking-uri", "", cwd=tmp_path).stdout
    assert (runs_at(shell), runs_at(default)) == (2, 2)
    assert f"{shell}: " in lengthwise.succeeds("publish", storage / "other", cwd=tmp_path).stdout
    assert (runs_at(shell), runs_at(default)) == (4, 2)

    # A sweep that was run with the variable remembers its address; a wrong one is refused before anything is written.
    del lengthwise.environment["MLFLOW_TRACKING_URI"]
    assert f"{shell}: " in lengthwise.succeeds("publish", folder).stdout
    lengthwise.environment["MLFLOW_TRACKING_URI"] = "mlruns"
    for words in ((*run, "--name", "third"), ("publish", storage / "other"), ("ui", "--storage", storage)):
        lengthwise.refuses(*words, message="MLFLOW_TRACKING_URI=mlruns is not an address of MLflow")
    assert not (storage / "third").exists()
