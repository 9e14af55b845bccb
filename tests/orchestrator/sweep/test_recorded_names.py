"""A sweep begun under another rule of naming is resumed: its names stay, and repeated draws are recognised."""

import hashlib
import json
from pathlib import Path

import pytest

from orchestrator.errors import UserError
from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from trainers.config.member import MemberConfig
from trainers.models.attention_only import AttentionOnly
from trainers.settings import registry
from trainers.settings.fields import setting

pytestmark = pytest.mark.usefixtures("no_reports")

FEW = (
    "space={training.learning_rate: {choice: [0.001, 0.003, 0.01]}, training.batch_size: {choice: [8, 16]}}",
    "search={sampler: tpe, configurations: 12, generation: 4}",
    "resources.keep_weights=true",
)


class StoppedError(Exception):
    pass


def older_name(member: MemberConfig) -> str:
    values = {key: value for key, value in member.to_dict().items() if key != "seed"}
    return "0ld" + hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:9]


@pytest.fixture
def begun(stage, monkeypatch):
    """begun("name", evaluations) plays a sweep under the older rule until so many evaluations are recorded."""

    def build(name: str, evaluations: int):
        made, seen = stage(name, *FEW), []

        def stop(pack_id: str, step: int) -> None:
            seen.append(step)
            if len(seen) == evaluations:
                raise StoppedError

        with monkeypatch.context() as older:
            older.setattr(MemberConfig, "config_id", property(older_name))
            with pytest.raises(StoppedError):
                made.play(during=stop)
        return made

    return build


def named_weights(state: SweepState) -> set[str]:
    """The files of weights that the ledger names; each bears the name of its member."""
    names = set()
    for pack in state.packs.values():
        (final,) = [fields for fields in pack.evaluations.values() if fields["final"]]
        for (config_id, seed), file in zip(pack.members, final["weights"], strict=True):
            assert file["name"].startswith(f"{config_id}-{seed}-")
            names.add(file["name"])
    return names


def scores_of_draws(state: SweepState) -> list[float | None]:
    return [state.configurations[draw.config_id].score for draw in state.draws.values()]


@pytest.mark.slow
def test_it_ends_like_one_that_was_left_alone(played, begun, tmp_path: Path) -> None:
    whole = played(*FEW)
    older = begun("older", 4)
    before = SweepState.load(older.folder)
    assert before.end_status is None and all(name.startswith("0ld") for name in before.configurations)
    waiting = next(pack for pack in before.packs.values() if pack.status == "running")
    config_id, seed = waiting.members[0]
    orphan = older.folder / "weights" / f"{config_id}-{seed}-0123456789ab.safetensors"
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"what an attempt on another machine left")
    state = older.play()
    names = {whole.draws[number].config_id: draw.config_id for number, draw in state.draws.items()}
    assert len(names) == len(whole.configurations) == len(state.configurations)
    assert [names[draw.config_id] for draw in whole.draws.values()] == [draw.config_id for draw in state.draws.values()]
    assert [names.get(draw.duplicate_of) for draw in whole.draws.values()] == [
        draw.duplicate_of for draw in state.draws.values()
    ]
    again = [draw for draw in state.draws.values() if draw.number not in before.draws and draw.duplicate_of]
    assert again and any(draw.config_id in before.configurations for draw in again)
    assert scores_of_draws(whole) == scores_of_draws(state)
    mine, known = read_curves(state, False), read_curves(whole, False)
    assert mine["config_id"].tolist() == [names[name] for name in known["config_id"]]
    assert mine["value"].to_numpy().tobytes() == known["value"].to_numpy().tobytes()
    assert {path.name for path in (older.folder / "weights").iterdir()} == named_weights(state)
    assert not orphan.exists() and not older.messages, "checkpoints were taken, and nothing had to be tried again"


@pytest.mark.slow
def test_a_default_that_changed_in_between_changes_nothing(played, begun, monkeypatch) -> None:
    class Changed(AttentionOnly):
        init_std: float = setting(0.2, absent=0.1, above=0.0)

    whole = played(*FEW)
    older = begun("older", 4)

    monkeypatch.setitem(registry._classes["model"], "attention_only", Changed)
    state = older.play()
    assert {configuration.resolved["model"]["init_std"] for configuration in state.configurations.values()} == {0.1}
    assert scores_of_draws(whole) == scores_of_draws(state)


def test_a_default_that_only_some_had_is_refused_before_anything_is_drawn(begun, monkeypatch) -> None:
    older = begun("older", 1)
    load = SweepState.load

    def some_changed(folder: Path) -> SweepState:
        state = load(folder)
        next(iter(state.configurations.values())).resolved["model"]["norm"] = "pre"
        return state

    monkeypatch.setattr(SweepState, "load", some_changed)
    with pytest.raises(UserError, match=r"cannot draw more configurations: the default of model.norm has changed"):
        older.play()
