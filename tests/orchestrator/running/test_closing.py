"""What is drawn and published at the end of a sweep by a process beside the driver, and by the driver where it dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mlflow.tracking import MlflowClient

from orchestrator.consoles import make_console
from orchestrator.errors import LengthwiseError
from orchestrator.figures.drawing import Drawing, drawn_digest
from orchestrator.figures.side_by_side import SideBySide
from orchestrator.record.state.state import SweepState
from orchestrator.report.files import read_summary, write_report
from orchestrator.results.comparing.shared_streams import parameters_by_structure
from orchestrator.running.hosts.host import Host
from orchestrator.sweep import closing_worker
from orchestrator.sweep.closing import Closing
from search_spaces import load_sweep
from tests.orchestrator.running.deaths import with_words

pytestmark = pytest.mark.long

TRACKED = ("--set", "tracking.enabled=true", "--set", "resources.scheduler=local")


def test_the_end_is_that_of_a_sweep_that_draws_by_itself(lengthwise, tiny, tmp_path):
    done = lengthwise.process("run", tiny, "--storage", tmp_path, *TRACKED, FIGURES="drawn")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "tiny"
    said = done.stdout
    assert said.index("Configurations by score") < said.index("Report: ") < said.index("lengthwise ui") < len(said)
    (published,) = SweepState.load(folder).publishes
    assert published["ok"] and published["uri"].endswith("mlflow.db")
    figures = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    in_detail = [row.config_id for row in read_summary(folder).rows[:3]]
    drawn = {name for name in figures if name.startswith("configuration-")}
    assert drawn == {f"configuration-{config_id}.png" for config_id in in_detail}  # of four
    assert (folder / "curves.parquet").exists()
    page = (folder / "report.html").read_bytes()
    for path in folder.glob("figures/*"):
        path.unlink()
    write_report(folder)
    assert (folder / "report.html").read_bytes() == page
    assert all(path.read_bytes() == figures[path.name] for path in folder.glob("figures/*"))


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")  # MLflow's own use of it
def test_what_is_left_undone_by_a_killed_process_is_done_by_the_driver(lengthwise, long_sweep, wait_for, records):
    folder = long_sweep.storage / "undone"
    words = long_sweep.words("undone", "resources.scheduler=local", "tracking.enabled=true")
    driver = lengthwise.start(*words)
    wait_for(lambda: records(folder, "evaluation"), driver)
    beside = with_words(driver.pid, "worker_host closing")  # the host and its forks
    assert beside
    for one in beside:
        one.kill()
    out, err = driver.communicate()
    assert driver.returncode == 0, err
    assert "Report: " in out and (folder / "report.html").exists()
    (published,) = SweepState.load(folder).publishes
    assert published["ok"] and published["uri"].endswith("mlflow.db")
    (parent,) = MlflowClient(published["uri"]).search_runs(["1"], "tags.`lengthwise.kind` = 'sweep'")
    assert parent.info.status == "FINISHED"
    artifacts = Path(unquote(urlsplit(parent.info.artifact_uri).path))
    assert (artifacts / "report.html").exists()  # sent by the last pass alone


@pytest.fixture
def asked(tiny, tmp_path):
    """A closing, and the end of the socket at which its forks would be."""
    mine, theirs = socket.socketpair()
    spec = load_sweep(tiny, ["tracking.enabled=true"])
    with mine, theirs:
        host = object.__new__(Host)
        host._control = mine
        yield Closing(host, spec, tmp_path), theirs


REPORTING = """
import json, sys
from pathlib import Path
from orchestrator.record.state.state import SweepState
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.summarise import summary

folder, told = sys.argv[1:]
found = compare_seeds(summary(SweepState.load(Path(folder)), None, json.loads(told)))
print(json.dumps([[one.shared.sentence for one in found], "torch" in sys.modules]))
"""


def test_what_the_driver_tells_of_parameters_spares_its_report_torch(lengthwise, tiny, tmp_path):
    """Batches differ, so there are two programs, and the rate of dropout, which changes no parameter."""
    space = "space={model.dropout: {grid: [0.1, 0.2]}, training.batch_size: {grid: [8, 16]}}"
    done = lengthwise("run", tiny, "--storage", tmp_path, "--set", space, "--set", "search={sampler: grid}")
    assert done.returncode == 0, done.stderr
    told = parameters_by_structure(SweepState.load(tmp_path / "tiny"))
    assert len(told) == 2 and len(set(told.values())) == 1
    both = []
    for known in (told, {}):
        command = [sys.executable, "-c", REPORTING, tmp_path / "tiny", json.dumps(known)]
        both.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    (sentences, imported), (others, imported_without) = both
    assert sentences == others and any("same" in one and "initial weights" in one for one in sentences)
    assert not imported and imported_without


def test_without_a_process_nothing_is_said_drawn_or_published(asked, capsys):
    closing, theirs = asked
    theirs.close()
    assert closing.publish() is None
    closing.begin(make_console(), {})
    closed = closing.end(make_console())
    assert not (closed.said or closed.drawn or closed.tried_to_publish) and not capsys.readouterr().out


def test_what_publishing_raised_is_raised_again(asked, monkeypatch):
    closing, _ = asked
    mine, theirs = Pipe()
    monkeypatch.setattr(closing, "_asked", lambda role, what: mine)
    theirs.send_bytes(json.dumps({"published": None, "problem": "MLflow at x: no"}).encode())
    with pytest.raises(LengthwiseError, match="MLflow at x: no"):
        closing.publish()


def test_the_end_is_waited_for_as_long_as_figures_come(asked, monkeypatch):
    closing, _ = asked
    mine, theirs = Pipe()
    monkeypatch.setattr("orchestrator.sweep.closing.PATIENCE", 0.5)
    monkeypatch.setattr(closing, "_asked", lambda *_, **__: mine)
    last = {"uri": "x", "parent_run_id": "y", "links": [], "created": 1, "completed": 1, "points": 1}
    answers = [*[{"working": True}] * 4, {"published": last, "problem": None}, {"working": True}]

    def answer():
        for one in answers:
            time.sleep(0.2)
            theirs.send_bytes(json.dumps(one).encode())

    thread = threading.Thread(target=answer)
    thread.start()
    closing.begin(make_console(), {})
    closed = closing.end(make_console())
    thread.join()
    assert closed.published is not None and closed.problem is None  # of publishing, which was done
    assert not closed.drawn


def test_a_process_that_gives_no_sign_is_not_waited_for_and_leaves_publishing_to_the_driver(asked, monkeypatch):
    closing, _ = asked
    mine, theirs = Pipe()
    monkeypatch.setattr("orchestrator.sweep.closing.PATIENCE", 0.1)
    monkeypatch.setattr(closing, "_asked", lambda *_, **__: mine)
    closing.begin(make_console(), {})
    closed = closing.end(make_console())
    assert not (closed.said or closed.drawn or closed.tried_to_publish)
    theirs.close()


def test_a_summary_that_takes_long_is_waited_for_and_made_once(asked, monkeypatch, tmp_path):
    """Made by a real fork, which works for longer than the patience of its driver, and by nobody else."""
    closing, _ = asked
    mine, theirs = Pipe()
    monkeypatch.setattr("orchestrator.sweep.closing.PATIENCE", 1.0)
    monkeypatch.setattr(closing_worker, "WORKING_SECONDS", 0.2)
    monkeypatch.setattr(closing, "_asked", lambda *_, **__: mine)
    child = os.fork()
    if child == 0:
        mine.close()
        with closing_worker._signs_of_work(theirs):
            began = time.process_time()
            while time.process_time() < began + 2.5:
                sum(range(1000))
        closing_worker._answer(theirs, said="what came out")
        closing_worker._answer(theirs, published=None, problem="MLflow at x: no")
        closing_worker._answer(theirs, drawn=True)
        os._exit(0)
    theirs.close()
    closing.begin(make_console(), {})
    closed = closing.end(make_console())
    assert closed.said and closed.drawn and closed.problem == "MLflow at x: no"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_request_that_fails_ends_its_process_without_a_word(tmp_path, capfd):
    mine, theirs = Pipe()
    mine.send_bytes(json.dumps({"do": "close", "folder": str(tmp_path), "tracking": None}).encode())
    child = os.fork()
    if child == 0:
        mine.close()
        closing_worker.serve(os.dup(theirs.fileno()))
        os._exit(0)
    theirs.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_whose_driver_is_gone_ends(tmp_path):
    mine, theirs = Pipe()
    child = os.fork()
    if child == 0:
        mine.close()
        closing_worker._end_with(theirs)
        signal.pause()
    theirs.close()
    mine.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_figures_drawn_side_by_side_are_all_there_though_a_fork_dies(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    parent = os.getpid()

    def draw(index):
        def figure():
            if index == 2 and os.getpid() != parent:
                os._exit(1)
            return Figure(figsize=(1, 1))

        return figure

    monkeypatch.setattr("orchestrator.figures.side_by_side.threading.active_count", lambda: 1)
    drawings = [Drawing(tmp_path / f"{index}.png", draw(index), f"digest {index}") for index in range(6)]
    beside = SideBySide(drawings, forks=2)
    assert len(beside._children) == 2
    beside.finish()
    assert [drawn_digest(one.path) for one in drawings] == [one.digest for one in drawings]


def test_every_figure_drawn_here_is_one_sign_of_life(tmp_path):
    from matplotlib.figure import Figure

    drawings = [Drawing(tmp_path / f"{i}.png", lambda: Figure(figsize=(1, 1)), f"digest {i}") for i in range(3)]
    signs: list[int] = []
    SideBySide(drawings, forks=0).finish(lambda: signs.append(len(signs)))
    assert len(signs) == len(drawings)
