"""The page of a running sweep, which a thread of its driver writes."""

import threading

from orchestrator.record.files.curves import read_curves
from orchestrator.report import write_report
from orchestrator.results.make_summary import summarize
from orchestrator.session import running_page
from orchestrator.session.running_page import RunningPage


def test_a_page_that_cannot_be_written_does_not_end_the_block(tmp_path, capfd):
    with RunningPage(tmp_path / "gone"):
        pass
    assert capfd.readouterr().err == ""


def test_a_page_is_written_after_an_error_that_has_passed(small_sweep, monkeypatch):
    monkeypatch.setattr(running_page, "_RETRY_SECONDS", 0.01)
    calls, is_written = [], threading.Event()
    results = summarize(small_sweep), read_curves(small_sweep)

    def write_page(folder):
        calls.append(folder)
        if len(calls) == 1:
            raise OSError("the disk does not answer")
        is_written.set()
        return results

    monkeypatch.setattr(write_report, "write_page", write_page)
    page = RunningPage(small_sweep.folder)
    with page:
        assert is_written.wait(10)
    assert calls == [small_sweep.folder] * 2 and page.interim_best
