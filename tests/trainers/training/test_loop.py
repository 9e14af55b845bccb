"""The loop as its users see it: evaluations, heartbeats, results, packed bytes, standing alone."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from trainers import Checkpoints, Evaluation, train
from trainers.config.member import MemberConfig
from trainers.errors import CheckpointError, PackError
from trainers.evaluation import evaluate as evaluation
from trainers.evaluation import results
from trainers.files import checkpoint
from trainers.files.container import decode, encode
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.training.cost import count_activation_bytes, estimate_member_cost, measure_seconds_per_step
from trainers.training.step import make_train_step


def test_evaluations_come_when_asked_for(member, recorder) -> None:
    results = train([member(seed, evaluation__every=20) for seed in (0, 1)], recorder)
    assert [(e.step, e.final) for e in recorder.evaluations] == [(20, False), (40, False), (50, True)]
    last = recorder.evaluations[-1]
    assert last.averages == ("raw", "ema") and last.lengths == tuple(range(1, 8))
    assert last.values_MAKL.shape == (2, 2, len(last.metrics), 7) and last.values_MAKL.dtype == np.float32
    assert np.isfinite(last.loss_M).all() and (last.failed_at_M == -1).all()
    for i, result in enumerate(results):
        for curve in result.curves:
            row = last.values_MAKL[i, last.averages.index(curve.average), last.metrics.index(curve.metric)]
            assert curve.values == tuple(map(float, row))


def test_chosen_lengths_and_no_evaluation_before_the_end(member, recorder) -> None:
    train([member(evaluation__lengths=[5, 2])], recorder)
    assert [e.lengths for e in recorder.evaluations] == [(2, 5)]


def test_a_chosen_length_has_the_value_it_has_among_all(member, recorder) -> None:
    train([member()], recorder)
    train([member(evaluation__lengths=[7])], recorder)
    every, single = recorder.evaluations
    alone = [k for k, metric in enumerate(single.metrics) if metric != "margin_bound"]  # which needs lengths 1 and 2
    np.testing.assert_allclose(
        every.values_MAKL[:, :, alone, -1], single.values_MAKL[:, :, alone, 0], rtol=1e-5, atol=1e-6
    )


def test_heartbeats(member, recorder) -> None:
    train([member(), member(1)], recorder)
    assert recorder.beats[0].step == 0 and {beat.members for beat in recorder.beats} == {2}
    assert recorder.beats[-1].phase == "evaluate" and recorder.beats[-1].member_steps_per_second > 0


def test_the_heart_beats_after_every_piece_of_an_evaluation(member, recorder, monkeypatch) -> None:
    """A long evaluation is not taken for one that hangs."""
    monkeypatch.setattr(sys.modules["trainers.training.loop"], "_HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(evaluation, "LOGITS_PER_MEMBER", 8 * 7 * 10)  # ten rows of seven positions
    train([member(), member(1)], recorder)
    evaluating = [beat for beat in recorder.beats if beat.phase == "evaluate"]
    assert len(evaluating) >= 2 * 7 and {beat.step for beat in evaluating} == {50}


def test_training_learns_the_task(member, recorder) -> None:
    changes = {
        "model__init_std": 0.3,
        "training__steps": 500,
        "training__learning_rate": 1e-2,
        "training__weight_decay": 0.0,
        "task__target": "soft",
    }
    train([member(seed, **changes) for seed in range(2)], recorder)
    last = recorder.evaluations[-1]
    variation = last.values_MAKL[:, last.averages.index("ema"), last.metrics.index("total_variation")]
    guess = np.array(last.lengths) / 8
    assert (variation[:, :3] < 0.5 * guess[:3]).all(), "better than half of a uniform guess at trained lengths"


def test_cost_counts_parameters_bytes_and_operations(member) -> None:
    config = member(model__width=8, model__value_width=4)
    cost = estimate_member_cost(config)
    assert cost.parameters == 2 * 8 * 8 + 2 * 8 * 8 + 2 * 8 * 4
    assert cost.bytes_per_member > 4 * 5 * cost.parameters and cost.flops_per_step > 0
    assert 0 < measure_seconds_per_step(config, 2, seconds=0.05) < 5


def test_rows_evaluated_in_pieces_give_the_same_curves(member, monkeypatch) -> None:
    pack = Pack([member(0), member(1)], torch.device("cpu"))
    beats = list[str]()  # one for each piece
    whole = evaluation.evaluate(pack, TrainingState.make_initial(pack), beat=lambda: beats.append("whole"))[1]
    a_row = float(pack.model.count_operations(pack.task, 1, max(pack.lengths)))
    monkeypatch.setattr(evaluation, "OPERATIONS_PER_MEMBER", 7 * a_row)
    pieces = evaluation.evaluate(pack, TrainingState.make_initial(pack), beat=lambda: beats.append("pieces"))[1]
    assert np.allclose(pieces, whole, rtol=1e-5, atol=3e-6)  # displacement has the rounding of odds times the length
    assert beats.count("pieces") > beats.count("whole")


def test_cost_grows_with_what_the_gradient_needs(member) -> None:
    def peak(**changes: int) -> int:
        model = {"name": "decoder", "width": 16, "heads": 2, "layers": 2, "dropout": 0.1, **changes}
        cost = estimate_member_cost(MemberConfig.from_dict({**member().to_dict(), "model": model}))
        return cost.bytes_per_member - 4 * 6 * cost.parameters

    rows, positions = member().training.batch_size, member().task.train_positions
    attention = 4 * rows * positions * positions
    assert peak(heads=4) - peak() >= 2 * 2 * attention, "two layers, two more heads, at least the weights of each"
    assert peak(layers=4) > 1.6 * peak()


def test_what_the_gradient_needs_is_a_line_in_rows(member) -> None:
    decoder = {"name": "decoder", "width": 16, "heads": 2, "layers": 2, "position": "fire"}
    for model in ({}, {"model": decoder}):  # in table form most of it does not depend on the rows
        small, large = (
            MemberConfig.from_dict({**member(training__batch_size=rows).to_dict(), **model}) for rows in (16, 64)
        )
        pack = Pack([small], torch.device("cpu"))
        grown = estimate_member_cost(large).bytes_per_member - estimate_member_cost(small).bytes_per_member
        counted = 3 * (count_activation_bytes(pack, 64) - count_activation_bytes(pack, 16))
        assert grown == pytest.approx(counted, rel=0.05)


@pytest.mark.slow  # and by import-linter
def test_trainers_need_only_torch_and_numpy() -> None:
    foreign = ["ray", "optuna", "mlflow", "pydantic", "matplotlib", "pandas", "scipy", "search_spaces", "orchestrator"]
    program = (
        "import sys; import trainers, trainers.training.cost, trainers.settings.registry as r;"
        "[r.list_names(k) for k in r.KINDS];"
        "found = {m.split('.')[0] for m in sys.modules} & set(sys.argv[1:]);"
        "sys.exit(', '.join(sorted(found)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program, *foreign], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Names ----------------------------------------------------------------------------------------------------------------


def headers(folder: Path) -> list[list[str]]:
    """The members that the headers of checkpoints name."""
    return [decode(path.read_bytes())[0]["members"] for path in sorted(folder.glob("*.ckpt"))]


@pytest.mark.parametrize("ids", [None, [("first", 3), ("second", 4)]], ids=["today's names", "names of a ledger"])
def test_checkpoints_and_weights_carry_the_names_of_the_members(member, recorder, tmp_path, ids) -> None:
    members = [member(3), member(4, training__learning_rate=0.1)]
    kept, stored = tmp_path / "weights", tmp_path / "checkpoints"
    train(members, recorder, ids=ids, checkpoints=Checkpoints(folder=stored, every_steps=40), weights=kept)
    names = ids or [(config.config_id, config.seed) for config in members]
    assert headers(stored) == [[f"{config_id}/{seed}" for config_id, seed in names]] * 2
    files = [file.name for file in recorder.evaluations[-1].weights]
    prefixes = [f"{config_id}-{seed}-" for config_id, seed in names]
    assert [name[: len(prefix)] for name, prefix in zip(files, prefixes, strict=True)] == prefixes
    with pytest.raises(CheckpointError, match="other members"):
        train(members, recorder, ids=[("first", 3), ("third", 4)], checkpoints=Checkpoints(folder=stored))


@pytest.mark.parametrize("is_old", [False, True], ids=["one row", "both copies, as 1.x wrote them"])
def test_a_lone_compiled_member_is_resumed_to_the_same_bits(member, recorder, tmp_path, monkeypatch, is_old) -> None:
    """It trains as two copies of itself, of which files have one."""
    train_module, sizes = sys.modules["trainers.training.loop"], []
    monkeypatch.setattr(train_module, "should_compile", lambda member, device: True)
    monkeypatch.setattr(  # the step itself stays eager
        train_module, "make_train_step", lambda pack, *_: sizes.append(len(pack)) or make_train_step(pack, False)
    )
    folder, kept = tmp_path / "checkpoints", tmp_path / "weights"
    names, stored = [("lone", 5)], Checkpoints(folder=folder, every_steps=40)
    (first,) = train([member(5)], recorder, ids=names, checkpoints=stored, weights=kept)
    assert headers(folder) == [["lone/5"]] * 2 and sizes == [2]
    (file,) = recorder.evaluations[-1].weights
    assert file.name.startswith("lone-5-") and len(list(kept.iterdir())) == 1

    max(folder.glob("*.ckpt")).unlink()
    (path,) = folder.glob("*.ckpt")
    if is_old:
        header, arrays = decode(path.read_bytes())
        rows = {name for name, array in arrays.items() if array.ndim and name != "evaluations"}
        arrays = {name: np.concatenate([array] * 2) if name in rows else array for name, array in arrays.items()}
        path.write_bytes(encode({**header, "members": ["lone/5"] * 2}, arrays))
    (again,) = train([member(5)], recorder, ids=names, checkpoints=Checkpoints(folder=folder), weights=kept)
    assert sizes == [2, 2] and again.curves == first.curves
    assert recorder.evaluations[-1].weights == (file,)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_resumed_pack_keeps_the_form_of_its_checkpoint(member, recorder, tmp_path, monkeypatch, compiled) -> None:
    """Whatever `compile: auto` would choose when it is resumed."""
    train_module = sys.modules["trainers.training.loop"]
    monkeypatch.setattr(train_module, "make_train_step", lambda pack, *_: make_train_step(pack, False))
    folder = Checkpoints(folder=tmp_path, every_steps=40)
    members = [member(seed, training__compile="auto", evaluation__every=20) for seed in (1, 2)]
    monkeypatch.setattr(train_module, "should_compile", lambda member, *_, **__: compiled)
    train(members, recorder, checkpoints=folder)
    newest = max(tmp_path.glob("*.ckpt"))
    assert decode(newest.read_bytes())[0]["compiled"] is compiled
    monkeypatch.setattr(train_module, "should_compile", lambda member, *_, **__: not compiled)
    assert {result.compiled for result in train(members, recorder, checkpoints=Checkpoints(folder=tmp_path))} == {
        compiled
    }


@pytest.mark.parametrize("ids", [[("a", 3)], [("a", 3), ("b", 3)], [("a", 3), ("b", 4), ("c", 5)]])
def test_names_that_do_not_fit_the_members_are_refused(member, recorder, ids) -> None:
    with pytest.raises(PackError, match=r"do not have the seeds of the members; allowed: \[3, 4\]"):
        train([member(3), member(4)], recorder, ids=ids)


def test_each_evaluation_is_encoded_once(member, recorder, tmp_path, monkeypatch) -> None:
    """However many checkpoints and evaluations follow it: long runs have thousands of them."""
    encoded, encode = [], results.encode
    monkeypatch.setattr(results, "encode", lambda *given: encoded.append(given) or encode(*given))

    class Sends(type(recorder)):
        def report(self, evaluation) -> None:
            super().report(evaluation)
            assert Evaluation.from_bytes(evaluation.to_bytes()).step == evaluation.step

    changes = {"evaluation__every": 1, "training__steps": 20}
    train([member(seed, **changes) for seed in (0, 1)], sends := Sends(), checkpoints=every_step(tmp_path))
    assert len(sends.evaluations) == 20
    assert len(encoded) == 20


def test_the_newest_checkpoint_is_read_once(member, recorder, tmp_path, monkeypatch) -> None:
    members = [member(training__steps=20, evaluation__every=10)]
    train(members, recorder, checkpoints=every_step(tmp_path))
    read, decoded = checkpoint._decode, []
    monkeypatch.setattr(checkpoint, "_decode", lambda path: decoded.append(path.name) or read(path))
    train(members, recorder, checkpoints=every_step(tmp_path))
    assert decoded == ["step-000000000020.ckpt"]


def every_step(folder: Path) -> Checkpoints:
    return Checkpoints(folder=folder, every_steps=1)
