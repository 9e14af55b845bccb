"""Checkpoints: killed and resumed equals never killed, bit for bit; damage is passed over with a notice."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trainers.runs import check_resumed
from trainers import Checkpoints, train
from trainers.errors import CheckpointError
from trainers.files.checkpoint import Snapshot
from trainers.files.container import decode, encode


@pytest.fixture
def members(member):
    changes = {
        "evaluation__every": 10,
        "model__dropout": 0.3,
        "training__averages": {"raw": {}, "ema": {"decay": 0.9}, "bema": {}},
    }
    return [member(seed, **changes) for seed in (0, 1, 1)]


@pytest.mark.parametrize("every", [1, 7, 10, 100])
def test_resumed_equals_uninterrupted(members, tmp_path, every) -> None:
    evaluations = check_resumed(members, tmp_path, 40, every_steps=every)
    assert [evaluation.step for evaluation in evaluations] == [10, 20, 30, 40, 50]


def test_the_last_two_are_kept(members, recorder, tmp_path) -> None:
    train(members, recorder, checkpoints=Checkpoints(folder=tmp_path, every_steps=7))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000049.ckpt", "step-000000000050.ckpt"]
    train(members, recorder, checkpoints=Checkpoints(folder=tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_checkpoints_by_time(members, recorder, tmp_path) -> None:
    train(members, recorder, checkpoints=Checkpoints(folder=tmp_path, every_seconds=1e-9))
    assert len(list(tmp_path.glob("*.ckpt"))) == 2


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_damaged_checkpoint_falls_back_to_the_previous_one(members, recorder, tmp_path, damage) -> None:
    whole = train(members, recorder, checkpoints=Checkpoints(folder=tmp_path, every_steps=20))
    newest = sorted(tmp_path.iterdir())[-1]
    data = bytearray(newest.read_bytes())
    if damage == "truncate":
        data = data[: len(data) // 2]
    elif damage == "flip":
        data[len(data) // 2] ^= 1
    else:
        data.clear()
    newest.write_bytes(data)
    again = train(members, recorder, checkpoints=Checkpoints(folder=tmp_path))
    assert len(recorder.notices) == 1 and str(newest) in recorder.notices[0]
    assert [result.curves for result in again] == [result.curves for result in whole]


def test_a_lack_of_good_checkpoints_is_reported(members, recorder, tmp_path) -> None:
    (tmp_path / "step-000000000010.ckpt").write_bytes(b"nonsense")
    train(members, recorder, checkpoints=Checkpoints(folder=tmp_path))
    assert len(recorder.notices) == 2 and "step 0" in recorder.notices[1]


def test_checkpoints_of_other_members_are_refused(members, member, recorder, tmp_path) -> None:
    train(members, recorder, checkpoints=Checkpoints(folder=tmp_path, every_steps=20))
    with pytest.raises(CheckpointError, match="other members"):
        train(members[:2], recorder, checkpoints=Checkpoints(folder=tmp_path))


def test_an_unwritable_folder_is_named(members, recorder, tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(CheckpointError, match="file"):
        train(members, recorder, checkpoints=Checkpoints(folder=blocked / "pack", every_steps=10))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(tmp_path, position, bit) -> None:
    store = Checkpoints(folder=tmp_path)
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(4, dtype=np.int64)}
    path = store.save(
        Snapshot(step=3, arrays=arrays, evaluations=[b"xyz", b""], parameters=[], compiled=False), [("m", 0)]
    )
    loaded, notices = store.load([("m", 0)])
    assert loaded is not None and not notices and loaded.evaluations == [b"xyz", b""]
    assert all(
        np.array_equal(loaded.arrays[name], array) and loaded.arrays[name].dtype == array.dtype
        for name, array in arrays.items()
    )
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << bit
    path.write_bytes(data)
    changed, notices = store.load([("m", 0)])
    assert changed is None and str(path) in notices[0]


NONSENSE = [None, -1, 2**70, True, 1.5, "O", "V9", [], [-1], [2**70], [2**40, 2**40], [[1]], {}, {"a": 1}]


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
@pytest.mark.parametrize("key", ["schema", "step", "members", "parameters", "evaluations", "compiled"])
def test_a_header_that_claims_nonsense_is_passed_over(tmp_path, key, value) -> None:
    """Its checksum is right: it was made by somebody else."""
    checkpoints, arrays = Checkpoints(folder=tmp_path), {"theta": np.ones((1, 4))}
    made = Snapshot(step=1, arrays=arrays, evaluations=[b"abc"], parameters=[("w", (2, 2))], compiled=False)
    path = checkpoints.save(made, [("a", 0)])
    header, arrays = decode(path.read_bytes())
    path.write_bytes(encode({**header, key: value}, arrays))
    try:
        snapshot, _ = checkpoints.load([("a", 0)])
    except CheckpointError as error:
        assert key == "members" and "belongs to other members" in str(error)
        return
    if (key, value) in [("parameters", []), ("compiled", True)]:
        return
    assert snapshot is None
