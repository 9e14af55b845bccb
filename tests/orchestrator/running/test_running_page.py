"""The page of a running sweep, which a thread of its driver writes."""

import pytest

from orchestrator.ending.running_page import RunningPage
from tests.orchestrator.running.ledgers import records, wait_for


@pytest.mark.slow
def test_a_running_sweep_has_a_page_and_its_end_another(lengthwise, long_sweep):
    """Packs wait after their first evaluation; the page may be of any record so far."""
    page = long_sweep.storage / "paged" / "report.html"
    driver = long_sweep.start(lengthwise, *long_sweep.words("paged", "resources.scheduler=local"))
    wait_for(lambda: page.exists() and records(page.parent, "evaluation"), driver)
    assert b'"running":true' in page.read_bytes()
    long_sweep.release()
    driver.communicate()
    assert driver.returncode == 0
    assert b'"running":false' in page.read_bytes()


def test_a_page_that_cannot_be_written_does_not_end_the_block(tmp_path, capfd):
    with RunningPage(tmp_path / "gone"):
        pass
    assert capfd.readouterr().err == ""
