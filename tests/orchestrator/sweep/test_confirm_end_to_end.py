"""`lengthwise confirm` for real: a searched sweep, its confirmation, both reports, a resumed one, MLflow."""

import re

import pandas as pd
import pytest

from orchestrator.record.ledger.records import read_first_record
from orchestrator.record.state.state import SweepState
from tests.orchestrator.running.ledgers import cut_ledger, ledger_kinds

pytestmark = pytest.mark.slow


def test_confirm_from_search_to_reports(lengthwise, tiny, tmp_path):
    lengthwise.succeeds("run", tiny, "--storage", tmp_path)
    done = lengthwise.succeeds("confirm", tmp_path / "tiny", "--top", 2, "--seeds", 3)
    search, confirmation = SweepState.load(tmp_path / "tiny"), SweepState.load(tmp_path / "tiny-confirm")
    assert confirmation.end_status == "complete" and confirmation.spec["seeds"] == [2, 3, 4]
    scores = sorted((configuration.score, name) for name, configuration in search.configurations.items())
    assert list(confirmation.configurations) == [name for _, name in scores[:2]]
    for name, configuration in confirmation.configurations.items():
        assert configuration.resolved == search.configurations[name].resolved
        assert set(configuration.members) == {2, 3, 4}
    origin = read_first_record(confirmation.folder).fields["provenance"]["confirms"]
    assert (origin["sweep"], origin["spec_hash"]) == ("tiny", search.spec_hash)
    seeds = "on fresh seeds 2-4"
    for text in (
        done.stdout.replace("\n", " "),
        (search.folder / "report.html").read_text(),
        (confirmation.folder / "report.html").read_text(),
    ):
        assert seeds in " ".join(re.sub("<[^<>]*>", "", text).split())  # ranges stand in spans
    table = pd.read_csv(search.folder / "confirmed.csv")
    assert list(table["config_id"]) == [name for _, name in scores[:2]]
    assert list(table["search_score"]) == pytest.approx([score for score, _ in scores[:2]])
    assert list(table["confirmed_score"]) == pytest.approx([f.score for f in confirmation.configurations.values()])

    whole = pd.read_parquet(confirmation.folder / "curves.parquet")
    cut_ledger(confirmation.folder, ledger_kinds(confirmation.folder).index("score"))  # killed, then resumed
    lengthwise.succeeds("resume", confirmation.folder)
    pd.testing.assert_frame_equal(pd.read_parquet(confirmation.folder / "curves.parquet"), whole)

    lengthwise.refuses("confirm", search.folder, message="already has a sweep")
