"""What a report hands to MLflow is there, under the names that the links to it have."""

from urllib.parse import unquote

import pytest

from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.report import artifacts
from orchestrator.results.summarise import summary
from orchestrator.tracking.pages import sweep_links


@pytest.fixture
def files(tmp_path, synthetic_sweep, simple_curve):
    draws = [{"training.learning_rate": 10.0**-k, "training.batch_size": 16 * k} for k in (2, 3)]
    state = synthetic_sweep(tmp_path / "läng e", draws, 2, simple_curve, spec={"task.vocabulary": 8})
    return artifacts.sweep_files(summary(state), read_curves(SweepState.load(state.folder)))


def test_every_file_is_written_and_has_its_folder(files):
    assert all(path.stat().st_size for path in files) and set(files.values()) == {""}
    assert {path.name for path in files} == {"report.html", "report.csv", "effects.csv", "seed_comparisons.csv"}


def test_the_links_of_tracking_lead_to_files_of_these_names(files):
    links = sweep_links("http://lab3:5000", "1", "parent")
    linked = {unquote(link.partition("/artifacts/")[2].partition("?")[0]) for _, link in links if "/artifacts/" in link}
    assert linked == {"report.html"} <= {path.name for path in files}
