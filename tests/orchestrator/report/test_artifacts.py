"""What a report hands to MLflow is there, under the names that the links to it have."""

from urllib.parse import unquote

import pytest

from orchestrator.report import artifacts
from orchestrator.report.files import Report
from orchestrator.results.summarise import summary
from orchestrator.tracking.contents.pages import sweep_links


@pytest.fixture
def result(tmp_path, synthetic_sweep, simple_curve):
    draws = [{"training.learning_rate": 10.0**-k, "training.batch_size": 16 * k} for k in (2, 3)]
    return summary(synthetic_sweep(tmp_path / "läng e", draws, 2, simple_curve, spec={"task.vocabulary": 8}))


FIGURES = {
    "comparison.png", "evaluations.png", "score-training.learning_rate.png", "score-training.batch_size.png",
    "pair-margin_min-margin_bound.png",
}  # fmt: skip
TABLES = {"report.csv", "effects.csv", "averages.csv", "evaluations.csv", "seed_comparisons.csv"}


def test_every_file_is_written_and_has_its_folder(result):
    files = artifacts.sweep_files(result)
    assert all(path.stat().st_size and path.is_relative_to(result.folder) for path in files)
    by_folder = {folder: {path.name for path in files if files[path] == folder} for folder in files.values()}
    assert by_folder == {"": {"report.html", *TABLES}, "figures": FIGURES}


def test_a_report_is_written_once(result):
    report = Report(result)
    written = {path: path.stat().st_mtime_ns for path in report.write()}
    files = artifacts.ReportArtifacts(report).sweep_files(result)
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert files == artifacts.sweep_files(result)


def test_the_links_of_tracking_lead_to_files_of_these_names(result):
    first = result.rows[0]
    every = {**artifacts.sweep_files(result), **artifacts.configuration_files(result, first)}
    made = {f"{folder}/{path.name}".lstrip("/") for path, folder in every.items()}
    links = sweep_links("http://lab3:5000", "1", "view", "parent", ("run", first.config_id))
    linked = {unquote(link.partition("/artifacts/")[2].partition("?")[0]) for _, link in links if "/artifacts/" in link}
    assert len(linked) == 3 and linked <= made
