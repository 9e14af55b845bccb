"""The page of a running sweep, which a thread of its driver writes."""

import threading

from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.report import write_report
from orchestrator.session import running_page
from orchestrator.session.running_page import RunningPage


def test_a_page_that_cannot_be_written_does_not_end_the_block(tmp_path, capfd):
    with RunningPage(tmp_path / "gone"):
        pass
    assert capfd.readouterr().err == ""


def test_a_page_is_written_after_an_error_that_has_passed(tmp_path, monkeypatch):
    (tmp_path / LEDGER_FILE).write_text("")
    monkeypatch.setattr(running_page, "_RETRY_SECONDS", 0.01)
    calls, is_written = [], threading.Event()

    def write_page(folder):
        calls.append(folder)
        if len(calls) == 1:
            raise OSError("the disk does not answer")
        is_written.set()

    monkeypatch.setattr(write_report, "write_page", write_page)
    with RunningPage(tmp_path):
        assert is_written.wait(10)
    assert calls == [tmp_path] * 2
