"""Members that start from stored weights: as a plain script does, alone as in packs, resumed without the file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tests.trainers.models import own_modules
from tests.trainers.own_tasks import mean_loss
from tests.trainers.runs import Recorder, killed, same, train_recorded
from trainers import Checkpoints, train
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError, WeightsError
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState, compute_averages
from trainers.training.step import sample_batches, train_next_step

CPU = torch.device("cpu")
IDS = ("c5268b2845fa", "9422f6d31b72")  # of the small member before there was the setting
NET = {"name": "vmapped", "module": f"{own_modules.__name__}.Net"}


def shapes_of(member: MemberConfig) -> dict[str, tuple[int, ...]]:
    return {parameter.name: parameter.shape for parameter in member.model.parameters(member.task)}


def drawn(member: MemberConfig, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.1 * torch.randn(shape, generator=generator) for name, shape in shapes_of(member).items()}


@pytest.fixture
def stored(member, tmp_path: Path) -> dict[str, Tensor]:
    """Weights of the small member, which start.safetensors has."""
    weights = drawn(member(), 5)
    save_file(weights, tmp_path / "start.safetensors")
    return weights


def from_file(member, path: Path, seed: int = 0, changes: Mapping[str, Any] | None = None, **more: Any) -> MemberConfig:
    return member(seed, training__initial={"file": str(path), **more}, **(changes or {})).pin_data()


def starts(*members: MemberConfig) -> tuple[Pack, TrainingState]:
    pack = Pack(members, CPU)
    return pack, TrainingState.make_initial(pack, use_initial_files=True)


def replace_source(member: MemberConfig, source: str) -> MemberConfig:
    initial = replace(member.training.initial, source=source)
    return replace(member, training=replace(member.training, initial=initial))


def problems(member: MemberConfig, *seeds: int) -> list[tuple[str, str]]:
    return [(problem.key, problem.message) for problem in member.find_initial_weight_problems(seeds or (0,))]


# What is trained ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_training_is_that_of_a_plain_script_with_the_same_weights(member, tmp_path: Path, ending: str) -> None:
    """AdamW of torch on the module, whose state_dict the file has, with the batches of the seed."""
    changes = {"model": NET, "training__weight_decay": 0.0}
    task = member(**changes).task
    torch.manual_seed(123)
    module = own_modules.Net(task.inputs, task.outputs, task.positions)
    path = tmp_path / f"start.{ending}"
    torch.save(module.state_dict(), path) if ending == "pt" else save_file(module.state_dict(), path)
    mine = from_file(member, path, 7, changes)
    assert problems(mine, 7) == []
    pack, state = starts(mine)
    at = mine.training
    optimizer = torch.optim.AdamW(module.parameters(), lr=at.learning_rate, betas=at.betas, weight_decay=0.0)
    for name, value in module.named_parameters():
        assert torch.equal(pack.layout.split(state.theta)[name][0], value.detach())
    for step in range(5):
        (batch,) = sample_batches(pack, torch.tensor(step + 1), at.batch_size)
        train_next_step(pack, state)
        optimizer.zero_grad()
        mean_loss(pack.task, module(batch.tokens[0])[None], batch).sum().backward()
        optimizer.step()
    for name, value in module.named_parameters():
        torch.testing.assert_close(pack.layout.split(state.theta)[name][0], value.detach(), rtol=1e-3, atol=1e-5)


def test_members_with_and_without_a_file_share_a_pack_and_keep_their_bits(member, stored, tmp_path: Path) -> None:
    path = tmp_path / "start.safetensors"
    members = [member(3), from_file(member, path, 3), from_file(member, path, 4), member(4)]
    assert len({each.structural_key for each in members}) == 1
    together, _ = train_recorded(members)
    for row, alone_member in enumerate(members):
        alone, _ = train_recorded([alone_member])
        assert (alone[-1].values_MAKL[0] == together[-1].values_MAKL[row]).all()
    pack, state = starts(*members)
    _, plain = starts(member(3), member(4))
    views = pack.layout.split(state.theta)
    assert torch.equal(state.theta[[0, 3]], plain.theta)
    assert all(torch.equal(views[name][row], stored[name]) for name in stored for row in (1, 2))


def test_each_seed_starts_from_its_own_file(member, tmp_path: Path) -> None:
    weights = {seed: drawn(member(), seed) for seed in (3, 4)}
    for seed, tensors in weights.items():
        torch.save(tensors, tmp_path / f"{seed}.pt")
    files = {str(seed): str(tmp_path / f"{seed}.pt") for seed in (3, 4)}
    members = [member(seed, training__initial={"file": files}).pin_data() for seed in (4, 3)]
    assert members[0].config_id == members[1].config_id and members[0].training.initial.sha256.keys() == {"3", "4"}
    pack, state = starts(*members)
    views = pack.layout.split(state.theta)
    assert all(torch.equal(views[name][0], weights[4][name]) for name in views)
    assert all(torch.equal(views[name][1], weights[3][name]) for name in views)
    ((key, message),) = problems(members[0], 3, 8)
    assert key == "training.initial" and "seed 8" in message
    ((key, message),) = problems(replace_source(members[0], "sums #4"), 3, 8, 9)
    assert key == "training.initial" and "sums #4" in message and "seeds 8, 9" in message
    (problem,) = members[0].find_initial_weight_problems([8])
    assert "seeds 3, 4" in str(problem.allowed) and "`seeds: 3`" in str(problem.allowed)


def test_averages_start_from_the_file(member, stored, tmp_path: Path) -> None:
    pack, state = starts(from_file(member, tmp_path / "start.safetensors"))
    assert torch.equal(compute_averages(pack, state)["ema"], state.theta)
    assert torch.equal(pack.layout.split(state.theta)["query"][0], stored["query"])


def test_a_killed_run_resumes_without_the_file(member, stored, tmp_path: Path) -> None:
    path = tmp_path / "start.safetensors"
    mine = [from_file(member, path, seed, {"evaluation__every": 10}) for seed in (0, 1)]
    whole, _ = train_recorded(mine)
    killed(mine, tmp_path / "checkpoints", 30, every_steps=10)
    path.unlink()
    evaluations, _ = train_recorded(mine, checkpoints=Checkpoints(folder=tmp_path / "checkpoints", every_steps=10))
    same(evaluations, whole)
    with pytest.raises(WeightsError, match="cannot be read"):
        train(mine, Recorder())


# Identity -------------------------------------------------------------------------------------------------------------


def test_a_member_without_the_setting_is_the_one_it_was(member) -> None:
    plain, null = member(), member(training__initial=None)
    assert (plain.config_id, plain.structural_key) == (null.config_id, null.structural_key) == IDS
    assert "initial" not in plain.to_dict()["training"]


def test_the_content_of_the_file_names_the_configuration_and_its_path_does_not(member, stored, tmp_path: Path) -> None:
    first = from_file(member, tmp_path / "start.safetensors")
    (tmp_path / "elsewhere.safetensors").write_bytes((tmp_path / "start.safetensors").read_bytes())
    moved = from_file(member, tmp_path / "elsewhere.safetensors", source="what tables show")
    assert first.config_id == moved.config_id != member().config_id
    assert from_file(member, tmp_path / "start.safetensors", strict=False).config_id != first.config_id
    save_file(drawn(member(), 6), tmp_path / "start.safetensors")
    changed = from_file(member, tmp_path / "start.safetensors")
    assert changed.config_id != first.config_id and first.pin_data() == first
    ((key, message),) = problems(first)
    assert key == "training.initial.file" and first.training.initial.sha256 in message
    with pytest.raises(WeightsError):
        starts(first)
    missing = [member(training__initial={"file": str(tmp_path / name)}).pin_data() for name in ("a.pt", "b.pt")]
    assert missing[0].training.initial.sha256 is None and missing[0].config_id != missing[1].config_id


def test_a_file_may_be_in_the_data_folder(member, stored, tmp_path: Path, monkeypatch) -> None:
    first = from_file(member, tmp_path / "start.safetensors")
    (tmp_path / "data").mkdir()
    (tmp_path / "start.safetensors").rename(tmp_path / "data" / "start.safetensors")
    monkeypatch.setenv("LENGTHWISE_DATA", str(tmp_path / "elsewhere"))
    assert problems(first)
    monkeypatch.setenv("LENGTHWISE_DATA", str(tmp_path / "data"))
    assert not problems(first)
    pack, state = starts(first)
    assert torch.equal(pack.layout.split(state.theta)["query"][0], stored["query"])


# Files that do not fit ------------------------------------------------------------------------------------------------


def test_names_are_mapped_by_rename(member, stored, tmp_path: Path) -> None:
    path = tmp_path / "nested.pt"
    named = {f"net.{name}": value for name, value in stored.items() if name != "query"}
    torch.save({"model": {**named, "w_q": stored["query"]}, "optimizer": {"m": torch.zeros(3)}, "step": 7}, path)
    rename = {"model.w_q": "query", "model.net.*": "*", "optimizer.*": None}
    good = from_file(member, path, rename=rename)
    assert problems(good) == []
    pack, state = starts(good)
    assert all(torch.equal(pack.layout.split(state.theta)[name][0], stored[name]) for name in stored)
    ((key, message),) = problems(from_file(member, path))
    assert key == "training.initial" and "model.net.key: key" not in message
    assert "optimizer.m" in message or "more" in message
    assert problems(from_file(member, path, rename={**rename, "model.w_q": "key"}))


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_what_does_not_fit_is_named_unless_it_need_not_fit(member, stored, tmp_path: Path, change: str) -> None:
    path, tensors = tmp_path / "other.safetensors", dict(stored)
    if change != "unknown":
        del tensors["query"]
    if change != "missing":
        tensors["query" if change == "shape" else "quarry"] = torch.ones(2, 3)
    save_file(tensors, path)
    ((key, message),) = problems(from_file(member, path))
    assert key == "training.initial" and ("quarry" if change == "unknown" else "query") in message
    assert (change == "shape") == ("(2, 3)" in message and str(tuple(stored["query"].shape)) in message)
    assert str(path) in message
    ((_, message),) = problems(replace_source(from_file(member, path), "sums #4"))
    assert str(path) not in message and "sums #4" in message
    with pytest.raises(WeightsError):
        starts(from_file(member, path))

    partly = from_file(member, path, strict=False)
    assert problems(partly) == []
    pack, state = starts(partly, member())
    views = pack.layout.split(state.theta)
    start, plain = ({name: value[row] for name, value in views.items()} for row in (0, 1))
    taken = [name for name in stored if change == "unknown" or name != "query"]
    assert all(torch.equal(start[name], (stored if name in taken else plain)[name]) for name in stored)
    text = partly.describe_partial_initial_weights() or ""
    assert text.startswith(f"{len(taken)} of {len(stored)} ")


def test_a_file_of_which_nothing_fits_is_refused_also_without_strict(member, tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / "other.pt")
    for strict in (True, False):
        ((_, message),) = problems(from_file(member, tmp_path / "other.pt", strict=strict))
        assert ("strict: false" in message) == strict  # advice to set what is set helps nobody
    (tmp_path / "text.pt").write_text("no tensors")
    (tmp_path / "text.safetensors").write_text("no tensors")
    for name in ("text.pt", "text.safetensors"):
        assert problems(from_file(member, tmp_path / name)), name


def test_a_model_whose_size_is_unknown_is_not_compared(member, stored, tmp_path: Path) -> None:
    task = {"name": "language", "corpus": "nowhere", "train_window": 8, "test_windows": [16]}
    changes = {"task": task, "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": "rope"}}
    mine = from_file(member, tmp_path / "start.safetensors", 0, {**changes, "training__averages": {"raw": {}}})
    assert problems(mine) == [] and mine.describe_partial_initial_weights() is None


def test_code_in_a_file_is_not_run(member, tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"a": Runs()}, tmp_path / "evil.pt")
    assert problems(from_file(member, tmp_path / "evil.pt"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": {}},
        {"file": {"first": "a.pt"}},
        {"file": "a.pt", "sha256": "abc"},
        {"file": {"0": "a.pt"}, "sha256": "0" * 64},
        {"file": {"0": "a.pt"}, "sha256": {"1": "0" * 64}},
        {"file": "a.pt", "rename": {"a": 3}},
        {"sha256": "0" * 64},
    ],
)
def test_settings_that_contradict_each_other_are_refused(member, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        member(training__initial=wrong)
    assert all(problem.key.startswith("training.initial.") for problem in caught.value.problems)


def test_files_that_lengthwise_kept_have_their_averages(member, tmp_path: Path) -> None:
    trained = member(training__steps=6)
    train([trained], Recorder(), weights=tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    weights = {}
    for average in (None, "raw", "ema"):
        mine = from_file(member, path, average=average)
        assert problems(mine) == []
        _, state = starts(mine)
        weights[average] = state.theta
    assert torch.equal(weights[None], weights["raw"]) and not torch.equal(weights["raw"], weights["ema"])
    ((key, message),) = problems(from_file(member, path, average="emma"))
    assert key == "training.initial.average" and "did you mean ema?" in message
    torch.save(drawn(member(), 1), tmp_path / "plain.pt")
    ((key, _),) = problems(from_file(member, tmp_path / "plain.pt", average="ema"))
    assert key == "training.initial.average"


class Tied(nn.Module):
    """Its table is its head, and it has a constant."""

    def __init__(self, inputs: int, outputs: int, positions: int) -> None:
        super().__init__()
        self.table = nn.Embedding(outputs, 6)
        self.head = nn.Linear(6, outputs, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("scale", torch.full((1,), 2.0))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens) * self.scale)


def test_tied_parameters_and_buffers_of_a_module_are_read_like_a_state_dict(member, tmp_path: Path) -> None:
    changes = {"model": {"name": "vmapped", "module": f"{__name__}.Tied"}}
    task = member(**changes).task
    content = {name: value.clone() for name, value in Tied(task.inputs, task.outputs, 0).state_dict().items()}
    path = tmp_path / "tied.pt"
    for left_out in ((), ("head.weight",), ("table.weight",), ("scale",)):
        torch.save({name: value for name, value in content.items() if name not in left_out}, path)
        mine = from_file(member, path, 0, changes)
        assert problems(mine) == [], left_out
        pack, state = starts(mine)
        assert torch.equal(pack.layout.split(state.theta)["table.weight"][0], content["table.weight"])
    for name in ("scale", "head.weight"):
        torch.save({**content, name: content[name] + 1}, path)
        ((_, message),) = problems(from_file(member, path, 0, changes))
        assert name in message
