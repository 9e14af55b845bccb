"""The page of a running sweep, which a thread of its driver writes."""

from orchestrator.session.running_page import RunningPage


def test_a_page_that_cannot_be_written_does_not_end_the_block(tmp_path, capfd):
    with RunningPage(tmp_path / "gone"):
        pass
    assert capfd.readouterr().err == ""
