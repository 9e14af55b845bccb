"""Checkpoints of another layout: brought into today's, or refused with the name of what does not fit."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainers.runs import Recorder
from trainers import Checkpoints, train
from trainers.errors import CheckpointError
from trainers.files.checkpoint import Snapshot
from trainers.files.container import decode
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tensors.parameters import ParameterLayout

NAMES = [("one", 0), ("other", 1)]


@pytest.fixture(scope="module")
def members(member):
    changes = {"model__norm": "pre", "training__averages": {"raw": {}, "ema": {"decay": 0.9}, "bema": {}}}
    return [member(seed, evaluation__every=25, **changes) for seed in (0, 1)]


@pytest.fixture
def pack(members) -> Pack:
    return Pack(members, torch.device("cpu"))


@pytest.fixture(scope="module")
def _halfway(members, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("halfway")
    train(members, Recorder(), ids=NAMES, checkpoints=Checkpoints(folder=folder, every_steps=40))
    return folder


@pytest.fixture
def halfway(_halfway, tmp_path) -> Path:
    """A folder with a checkpoint of step 40 of 50, of training that ended."""
    return Path(shutil.copytree(_halfway, tmp_path / "halfway"))


def snapshot_of(folder: Path) -> Snapshot:
    snapshot, notices = Checkpoints(folder=folder).load(NAMES)
    assert snapshot is not None and not notices
    return snapshot


def resumed_curves(members, recorder, folder: Path) -> list:
    recorder.evaluations.clear()
    results = train(members, recorder, ids=NAMES, checkpoints=Checkpoints(folder=folder))
    assert [evaluation.step for evaluation in recorder.evaluations] == [25, 50]
    return [result.curves for result in results]


def test_a_checkpoint_names_parameters_and_buffers(halfway, pack) -> None:
    header, arrays = decode(next(halfway.glob("*.ckpt")).read_bytes())
    assert header["schema"] == 1
    assert header["parameters"] == [[p.name, *p.shape] for p in pack.layout.parameters]
    assert header["parameters"][0] == ["embedding", 8, 8]
    buffers = [name for name in arrays if name.startswith("averages.")]
    assert buffers == ["averages.ema.0", "averages.bema.0", "averages.bema.1", "averages.bema.2"]


def rewritten(folder: Path, **changes) -> None:
    """Write the checkpoint of a folder once more with other contents."""
    Checkpoints(folder=folder).save(replace(snapshot_of(folder), **changes), NAMES)


def test_parameters_in_another_order_are_put_in_todays(members, recorder, halfway) -> None:
    whole, snapshot = resumed_curves(members, recorder, halfway), snapshot_of(halfway)
    order = [*snapshot.parameters[3:], *snapshot.parameters[:3]]
    cut = sum(int(np.prod(shape)) for _, shape in snapshot.parameters[:3])

    def turned(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array[:, cut:], array[:, :cut]], axis=1) if array.ndim == 2 else array

    arrays = {name: turned(array) for name, array in snapshot.arrays.items()}
    assert not np.array_equal(arrays["theta"], snapshot.arrays["theta"])
    rewritten(halfway, arrays=arrays, parameters=order)
    assert resumed_curves(members, recorder, halfway) == whole


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (lambda known: known[:-1], r"has no parameter norm_bias;"),
        (lambda known: [*known, ("more", (2,))], r"has the parameter more, unknown to the model"),
        (lambda known: [("embedding", (4, 16)), *known[1:]], r"parameter embedding of shape \(4, 16\), not \(8, 8\)"),
        (
            lambda known: [("embeddings", (8, 8)), *known[1:]],
            r"no parameter embedding and has the parameter embeddings",
        ),
    ],
    ids=["one less", "one more", "another shape", "another name"],
)
def test_other_parameters_are_refused_by_name(members, recorder, halfway, parameters, message) -> None:
    rewritten(halfway, parameters=parameters(snapshot_of(halfway).parameters))
    with pytest.raises(CheckpointError, match=rf"step-000000000050.ckpt.*{message}"):
        resumed_curves(members, recorder, halfway)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays: {k: v for k, v in arrays.items() if k != "m"}, "has no m;"),
        (lambda arrays: {k: v for k, v in arrays.items() if k != "theta"}, "has no theta;"),
        (lambda arrays: arrays | {"momentum": arrays["m"]}, "has unknown arrays: momentum"),
        (lambda arrays: arrays | {"averages.bema.3": arrays["m"]}, "has unknown arrays: averages.bema.3"),
        (lambda arrays: arrays | {"failed_at": arrays["failed_at"][:1]}, r"has failed_at as int64 \(1,\), not int64"),
        (lambda arrays: arrays | {"v": arrays["v"].astype(np.float64)}, r"has v as float64 .*, not float32"),
    ],
)
def test_other_buffers_are_refused_by_name(members, recorder, halfway, change, message) -> None:
    rewritten(halfway, arrays=change(dict(snapshot_of(halfway).arrays)))
    with pytest.raises(CheckpointError, match=rf"step-000000000050.ckpt.*{message}"):
        resumed_curves(members, recorder, halfway)


@dataclass(kw_only=True)
class GrownState(TrainingState):
    """A state with a field that older checkpoints do not have."""

    paused_at: torch.Tensor

    @classmethod
    def make_initial(cls, pack: Pack) -> "GrownState":
        values = vars(TrainingState.make_initial(pack))
        return cls(**values, paused_at=torch.full((len(pack),), -1, dtype=torch.int64))


def test_a_new_field_is_named(halfway, pack) -> None:
    with pytest.raises(CheckpointError, match="has no paused_at;"):
        GrownState.make_initial(pack).restore(snapshot_of(halfway), pack)


def test_shapes_come_in_the_order_of_the_columns(pack) -> None:
    assert isinstance(pack.layout, ParameterLayout)
    views = pack.layout.split(torch.arange(float(pack.layout.size))[None])
    assert [(name, tuple(view.shape[1:])) for name, view in views.items()] == pack.layout.shapes
