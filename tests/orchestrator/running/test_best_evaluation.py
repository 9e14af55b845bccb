"""Sweeps judged at the best evaluation of each seed are scored by what the ledger holds, whatever died on the way."""

import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.results.make_summary import summarize
from orchestrator.running.driving import running_scores as scores_module
from tests.orchestrator.running.ledgers import copy_cut, ledger_kinds, scores

pytestmark = pytest.mark.slow

# steps so large that the error goes up and down between evaluations
RESTLESS = (
    "space={model.dropout: {grid: [0.0, 0.2]}}",
    "search={sampler: grid}",
    "training.learning_rate=0.3",
    "evaluation.every=10",
    "seeds=4",
)
BEST = (*RESTLESS, "objective.evaluation=best")


def judged_by_hand(state):
    """config_id -> median over seeds of the smallest mean at the selection length, over all evaluations."""
    curves = read_curves(state).astype({"config_id": str, "value": float})
    mine = curves[(curves["metric"] == "total_variation") & (curves["average"] == "ema") & (curves["length"] == 4)]
    return mine.groupby(["config_id", "seed"])["value"].min().groupby("config_id").median().to_dict()


def test_scores_are_those_of_the_best_evaluations(stage, monkeypatch):
    read = []

    def curves(state, final_only=False, *, packs=None, keep=None):
        read.append(packs)
        return read_curves(state, final_only, packs=packs, keep=keep)

    monkeypatch.setattr(scores_module, "read_curves", curves)
    state = stage("best", *BEST, pack=3).play()
    packs = [{pack_id} for pack_id in state.packs]
    assert len(packs) > 1 and [pack_ids for pack_ids in read if pack_ids] == packs  # each pack once, when it has ended
    read.clear()
    last = stage("last", *RESTLESS, pack=3).play()
    assert [pack_ids for pack_ids in read if pack_ids] == []
    assert scores(state) == pytest.approx(judged_by_hand(state)) and len(scores(state)) == 2
    assert read_curves(last).equals(read_curves(state))
    gained = [score - scores(state)[name] for name, score in scores(last).items()]
    assert min(gained) >= 0 < max(gained)  # which of them gain depends on the last bits, and so on the machine
    assert {row.config_id: row.score for row in summarize(state).rows} == scores(state)


def test_a_death_after_any_record_changes_no_score(stage, played):
    whole = played(*BEST, pack=3)
    wanted = scores(whole)
    kinds = ledger_kinds(whole.folder)
    finals = [i + 1 for i, kind in enumerate(kinds) if kind == "evaluation" and kinds[i + 1] != "evaluation"]
    middles = range(8, len(kinds), 7)
    for count in sorted({*finals, *middles}):
        staged = stage(f"cut-{count}", *BEST, pack=3)
        copy_cut(whole.folder, staged.folder, count)
        assert scores(staged.play()) == wanted, f"after {count} records"
