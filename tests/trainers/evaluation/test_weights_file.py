"""Final weights in files: they give the reported metrics again, appear whole or not at all, and damage is named."""

import errno
import hashlib
import json
import os
import stat

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from tests.trainers.runs import KilledError, Recorder
from trainers import Checkpoints, train
from trainers.config.member import MemberConfig
from trainers.errors import WeightsError
from trainers.evaluation.evaluate import evaluate
from trainers.evaluation.weights_file import MemberWeights, StoredWeights, list_stored_averages, write_weights
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState

NAME = ("0123456789ab", 0)
AVERAGES = {"ema": {"decay": 0.9}, "bema": {}, "norm_matched": {}}
TASKS = {
    "attention": {"model__dropout": 0.3, "model__norm": "pre"},
    "decoder": {"model": {"name": "decoder", "layers": 2, "width": 8, "heads": 2, "position": "learned"}},
    "ring": {
        "task": {"name": "ring_regression", "ring": 9, "window": 4},
        "model": {"name": "linear_attention", "width": 6},
        "training__dtype": "float64",
    },
}


def write_one(folder, *values):
    (file,) = write_weights(folder, [MemberWeights(*values)])
    return file


class Fatal(Recorder):
    """Dies where the final evaluation is reported."""

    def report(self, evaluation) -> None:
        if evaluation.final:
            raise KilledError


def evaluated_again(member: MemberConfig, weights) -> np.ndarray:
    """The metrics (K, L) of a member whose training weights are these."""
    sections = member.to_dict()
    sections["training"]["averages"] = {"raw": {}}
    pack = Pack([MemberConfig.from_dict(sections)], torch.device("cpu"))
    state = TrainingState.make_initial(pack)
    named = {name: torch.from_numpy(array)[None] for name, array in weights.items()}
    state.theta.copy_(pack.layout.flatten(named))
    return evaluate(pack, state)[1][0, 0]


@pytest.mark.parametrize("changes", TASKS.values(), ids=TASKS)
def test_kept_weights_give_the_reported_metrics_to_the_bit(member, recorder, tmp_path, changes) -> None:
    averages = {"training__averages": {"raw": {}, **AVERAGES}}
    members = [
        member(seed, training__learning_rate=rate, **changes, **averages) for seed in (0, 3) for rate in (0.01, 0.1)
    ]
    train(members, recorder, weights=tmp_path)
    (final,) = recorder.evaluations
    assert len({file.name for file in final.weights}) == 4 == len(list(tmp_path.iterdir()))
    for m, (config, file) in enumerate(zip(members, final.weights, strict=True)):
        path = tmp_path / file.name
        assert path.stat().st_size == file.bytes
        for a, average in enumerate(final.averages):
            stored = StoredWeights(path, file.sha256, average)
            assert stored.averages == list_stored_averages(config) and MemberConfig.from_dict(stored.member) == config
            assert [(name, stored[name].shape) for name in stored] == [
                (parameter.name, parameter.shape) for parameter in config.model.parameters(config.task)
            ]
            again = evaluated_again(config, stored)
            assert np.array_equal(again, final.values_MAKL[m, a], equal_nan=True) and np.isfinite(again).any()
    first, second = (
        StoredWeights(tmp_path / final.weights[0].name, final.weights[0].sha256, a) for a in ("raw", "ema")
    )
    assert not all(np.array_equal(first[name], second[name]) for name in first)


def test_training_weights_are_kept_where_no_average_is_raw(member, recorder, tmp_path) -> None:
    only, both = member(training__averages={"ema": {"decay": 0.9}}), member()
    train([only], recorder, weights=tmp_path)
    train([both], recorder, weights=tmp_path)
    first, second = (
        StoredWeights(tmp_path / e.weights[0].name, e.weights[0].sha256, "raw") for e in recorder.evaluations
    )
    assert first.averages == ("raw", "ema") == list_stored_averages(only)
    assert all(np.array_equal(first[name], second[name]) for name in second)


def test_keeping_weights_changes_no_result(members, recorder, tmp_path) -> None:
    kept = train(members, recorder, weights=tmp_path)
    assert [result.curves for result in kept] == [result.curves for result in train(members, recorder)]
    assert recorder.evaluations[-1].weights == ()


@pytest.fixture
def members(member):
    return [member(seed, training__averages={"raw": {}, **AVERAGES}, evaluation__every=10) for seed in (0, 1)]


def test_a_member_that_failed_keeps_nothing(member, recorder, tmp_path) -> None:
    train([member(0, training__learning_rate=1e30), member(1)], recorder, weights=tmp_path)
    lost, kept = recorder.evaluations[-1].weights
    assert lost is None and [path.name for path in tmp_path.iterdir()] == [kept.name]


def test_killed_between_weights_and_final_report(members, recorder, tmp_path) -> None:
    """What is there when the last report is lost is written again with the same bits, and the report names it."""
    folder, stored = tmp_path / "weights", tmp_path / "checkpoints"
    with pytest.raises(KilledError):
        train(members, Fatal(), checkpoints=Checkpoints(folder=stored, every_steps=20), weights=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(before) == 2
    train(members, recorder, checkpoints=Checkpoints(folder=stored, every_steps=20), weights=folder)
    assert {file.name for file in recorder.evaluations[-1].weights} == set(before)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_every_evaluation_but_the_last_has_no_weights(members, recorder, tmp_path) -> None:
    train(members, recorder, weights=tmp_path)
    assert [len(evaluation.weights) for evaluation in recorder.evaluations] == [0, 0, 0, 0, 2]
    final = recorder.evaluations[-1]
    assert type(final).from_bytes(final.to_bytes()).weights == final.weights


@pytest.mark.parametrize("fails", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing_and_names_the_file(member, tmp_path, monkeypatch, fails) -> None:
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if fails == "fsync" else ("pathlib.Path.replace",)), full)
    with pytest.raises(WeightsError, match=rf"{tmp_path}/0123456789ab-0-.*No space left"):
        write_one(tmp_path, NAME, member(), 1, {"raw": {"a": np.ones(3)}})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_synced_is_named(member, tmp_path, monkeypatch) -> None:
    sync = os.fsync

    def sync_files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_files_only)
    with pytest.raises(WeightsError, match=rf"{tmp_path}: ") as caught:
        write_one(tmp_path, NAME, member(), 7, {"raw": {"b": np.zeros(2, np.float32)}})
    assert isinstance(caught.value.__cause__, OSError) and caught.value.__cause__.errno == errno.EINVAL


def test_a_file_that_is_there_is_not_touched_by_other_weights(member, tmp_path) -> None:
    first = write_one(tmp_path, NAME, member(), 1, {"raw": {"a": np.ones(3)}})
    other = write_one(tmp_path, NAME, member(), 1, {"raw": {"a": np.zeros(3)}})
    assert first.name != other.name
    assert StoredWeights(tmp_path / first.name, first.sha256, "raw")["a"].tolist() == [1, 1, 1]
    with pytest.raises(WeightsError, match="no average 'ema'; allowed: raw"):
        StoredWeights(tmp_path / first.name, first.sha256, "ema")


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 100_000), bit=st.integers(0, 7))
def test_any_flipped_bit_is_named(member, tmp_path, position, bit) -> None:
    arrays = {"a": np.arange(40, dtype=np.float32).reshape(8, 5), "b": np.arange(60, dtype=np.float64)}
    file = write_one(tmp_path, NAME, member(), 3, {"raw": arrays})
    path = tmp_path / file.name
    stored = StoredWeights(path, file.sha256, "raw")
    assert all(
        np.array_equal(stored[name], array) and stored[name].dtype == array.dtype for name, array in arrays.items()
    )
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << bit
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=str(path)):
        dict(StoredWeights(path, file.sha256, "raw"))


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b""])
def test_a_file_cut_short_or_longer_is_named(member, tmp_path, change) -> None:
    file = write_one(tmp_path, NAME, member(), 3, {"raw": {"a": np.ones(4)}})
    path = tmp_path / file.name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(WeightsError, match=str(path)):
        StoredWeights(path, file.sha256, "raw")
    path.unlink()
    with pytest.raises(WeightsError, match=r"No such file"):
        StoredWeights(path, file.sha256, "raw")


def test_one_array_is_read_without_the_others(member, tmp_path) -> None:
    file = write_one(tmp_path, NAME, member(), 3, {"raw": {"a": np.ones(4), "b": np.ones(1000), "c": np.full(2, 7.0)}})
    path = tmp_path / file.name
    data = bytearray(path.read_bytes())
    data[data.index(np.ones(1000).tobytes()) + 100] ^= 1  # in b
    path.write_bytes(data)
    stored = StoredWeights(path, file.sha256, "raw")
    assert stored["a"].tolist() == [1, 1, 1, 1] and stored["c"].tolist() == [7, 7]
    with pytest.raises(WeightsError, match="raw b does not match"):
        stored["b"]


def rewritten(path, change) -> str:
    """Change the header of a file; the checksum of the new one, as a ledger made by somebody else could have it."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    metadata = json.loads(header["__metadata__"]["lengthwise"])
    change(header, metadata)
    if "__metadata__" in header:
        header["__metadata__"]["lengthwise"] = json.dumps(metadata)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])
    return hashlib.sha256(path.read_bytes()[: 8 + len(text)]).hexdigest()


@pytest.mark.parametrize("key", ["dtype", "shape", "data_offsets"])
@pytest.mark.parametrize(
    "value",
    [None, 3, "nonsense", "O", "F16", [2**37], [-1, -4], [2**40, 2**40], [4.0], [True], [[4]], {}, [0, 2**60]],
    ids=repr,
)
def test_a_header_that_claims_what_the_file_does_not_hold_is_refused(member, tmp_path, key, value) -> None:
    file = write_one(tmp_path, NAME, member(), 3, {"raw": {"a": np.ones(4)}})
    path = tmp_path / file.name
    sha256 = rewritten(path, lambda header, _: header["raw/a"].update({key: value}))
    with pytest.raises(WeightsError, match=str(path)):
        dict(StoredWeights(path, sha256, "raw"))


@pytest.mark.parametrize("key", ["schema", "member", "step", "sha256"])
@pytest.mark.parametrize("value", [None, "x", -1, [3], {"raw": 1}], ids=repr)
def test_metadata_of_other_types_is_refused(member, tmp_path, key, value) -> None:
    file = write_one(tmp_path, NAME, member(), 3, {"raw": {"a": np.ones(4)}})
    sha256 = rewritten(tmp_path / file.name, lambda _, metadata: metadata.update({key: value}))
    if key == "member" and isinstance(value, dict):
        return
    with pytest.raises(WeightsError, match=file.name):
        StoredWeights(tmp_path / file.name, sha256, "raw")


@pytest.mark.parametrize("name", ["b", 3, None])
def test_checksums_of_other_tensors_are_refused(member, tmp_path, name) -> None:
    file = write_one(tmp_path, NAME, member(), 3, {"raw": {"a": np.ones(4)}})
    sha256 = rewritten(tmp_path / file.name, lambda _, metadata: metadata.update(sha256={"raw": {name: "0"}}))
    with pytest.raises(WeightsError, match=file.name):
        dict(StoredWeights(tmp_path / file.name, sha256, "raw"))


def test_a_file_without_metadata_is_refused(member, tmp_path) -> None:
    file = write_one(tmp_path, NAME, member(), 3, {"raw": {"a": np.ones(4)}})
    sha256 = rewritten(tmp_path / file.name, lambda header, _: header.pop("__metadata__"))
    with pytest.raises(WeightsError, match=f"{file.name} are damaged"):
        StoredWeights(tmp_path / file.name, sha256, "raw")
    for data in (b"[" * 100_000, b"\xff" * 8 + b"{" * 64):
        (tmp_path / file.name).write_bytes(data)
        with pytest.raises(WeightsError, match=f"{file.name} are damaged"):
            StoredWeights(tmp_path / file.name, hashlib.sha256(data).hexdigest(), "raw")


def test_safetensors_opens_it(member, tmp_path) -> None:
    file = write_one(tmp_path, NAME, member(), 3, {"raw": {"a": np.ones(4)}, "ema": {"a": np.zeros(4)}})
    assert sorted(load_file(tmp_path / file.name)) == ["ema/a", "raw/a"]
