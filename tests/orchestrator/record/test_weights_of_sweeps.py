"""Weights that a sweep keeps: in the ledger, loaded again, after deaths, and when a file is not what was written."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from orchestrator.errors import DamagedWeights, UserError
from orchestrator.preview import forecast as forecasts
from orchestrator.preview.forecast import forecast
from orchestrator.record.files.curves import read_curves
from orchestrator.record.files.weights import list_kept_weights, load
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.sweep import run_and_resume as sweeps
from search_spaces import load_sweep
from tests.orchestrator.running.ledgers import copy_cut, ledger_lines
from tests.orchestrator.tiny_sweeps import SHORT
from tests.trainers.files.test_atomic_file import KILLED
from trainers.config.member import MemberConfig

pytestmark = pytest.mark.usefixtures("no_reports")

KEEP = "resources.keep_weights=true"


@pytest.fixture
def kept(played) -> SweepState:
    return played(*SHORT, KEEP)


def files(sweep) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((sweep.folder / "weights").iterdir())}


@pytest.mark.slow
def test_every_member_has_its_weights_and_nothing_else_differs(kept, played, tiny):
    plain = played(*SHORT)
    assert read_curves(kept).equals(read_curves(plain))
    assert load_sweep(tiny, [KEEP]).spec_hash == load_sweep(tiny).spec_hash
    weights = list_kept_weights(kept)
    assert set(weights) == {(name, seed) for name, seeds in kept.list_packed_seeds().items() for seed in seeds}
    assert sorted(file.path.name for file in weights.values()) == list(files(kept)) and len(weights) == 8
    assert not list_kept_weights(plain) and not (plain.folder / "weights").exists()


def test_weights_are_loaded_by_configuration_seed_and_average(kept):
    for name, configuration in kept.configurations.items():
        member = MemberConfig.from_dict({**configuration.resolved, "seed": 1})
        by_name, by_number = (
            load(kept.folder, name, 1, "ema"),
            load(str(kept.folder), configuration.number, 1, "ema"),
        )
        wanted = [(parameter.name, parameter.shape) for parameter in member.model.parameters(member.task)]
        assert [(key, array.shape) for key, array in by_name.items()] == wanted
        raw = load(kept.folder, name, 1)
        assert all(np.array_equal(by_name[key], by_number[key]) for key in by_name)
        assert not all(np.array_equal(by_name[key], raw[key]) for key in raw)
        other = load(kept.folder, name, 0)
        assert not all(np.array_equal(other[key], raw[key]) for key in raw)


def test_missing_weights_are_reported_with_the_allowed_names(kept, played):
    name = next(iter(kept.configurations))
    for arguments, message in {
        (name[:-1] + "?", 0, "raw"): f"did you mean {name}",
        (99, 0, "raw"): "no configuration 99; allowed: #0 to #3",
        (name, 7, "raw"): "no seed 7; allowed: 0-1",
        (name, 0, "emu"): "unknown average 'emu'; allowed: raw, ema",
    }.items():
        with pytest.raises(UserError) as caught:
            load(kept.folder, *arguments)
        assert message in str(caught.value)
    with pytest.raises(UserError, match=r"resources\.keep_weights: true"):
        load(played(*SHORT).folder, 0, 0)


def test_weights_of_a_member_that_diverged_are_not_kept(stage):
    rates = "space={training.learning_rate: {grid: [0.003, 1.0e+30]}}"
    staged = stage("diverging", *SHORT, rates, "search.configurations=null", "search.sampler=grid", KEEP)
    staged.play()
    assert load(staged.folder, 0, 0)
    with pytest.raises(UserError, match=r"seed 0 of configuration .* failed; its weights were not kept"):
        load(staged.folder, 1, 0)


@pytest.mark.slow
def test_a_death_after_any_record_ends_with_all_weights(played, stage, tmp_path):
    """Also between the weights of a pack and the record that names them; what dead attempts left is gone."""
    short = (*SHORT, KEEP)
    kept = played(*short)
    wanted, killed = files(kept), tmp_path / "killed"
    killed.mkdir()
    assert subprocess.run([sys.executable, "-c", KILLED, str(killed / "NAME")]).returncode == -9
    (half,) = killed.iterdir()
    for count in range(5, len(ledger_lines(kept.folder)), 3):
        staged = stage(f"cut-{count}", *short)
        copy_cut(kept.folder, staged.folder, count)
        finals = {r.fields["pack_id"] for r in read_records(staged.folder) if r.fields.get("final")}
        orphans = 0
        for pack_id in [r.fields["pack_id"] for r in read_records(staged.folder) if r.kind == "pack"]:
            if pack_id in finals:
                continue
            config_id, seed = next(r for r in read_records(staged.folder) if r.fields.get("pack_id") == pack_id).fields[
                "members"
            ][0]
            name = half.name.replace("NAME", f"{config_id}-{seed}-0123.safetensors")
            (staged.folder / "weights" / name).write_bytes(half.read_bytes())
            (staged.folder / "weights" / f"{config_id}-{seed}-4567.safetensors").write_bytes(b"of another attempt")
            orphans += 1
        state = staged.play()
        assert files(staged) == wanted, f"after {count} records, {orphans} orphans"
        assert len(list_kept_weights(state)) == 8


def test_a_sweep_that_begins_to_keep_weights_when_resumed_keeps_those_to_come(stage):
    staged = stage("later", *SHORT, pack=2)

    class Died(KeyboardInterrupt):
        pass

    def die(pack_id: str, step: int) -> None:
        if len([record for record in read_records(staged.folder) if record.kind == "pack_end"]) == 1:
            raise Died

    with pytest.raises(Died):
        staged.play(during=die)
    staged.spec = load_sweep(staged.folder.parent / "tiny.yaml", [*SHORT, KEEP])
    state = staged.play()
    assert len(list_kept_weights(state)) == 6 and len(state.packs) == 4
    (without,) = {
        (name, seed) for name, seeds in state.list_packed_seeds().items() for seed in seeds if seed == 0
    } - set(list_kept_weights(state))
    with pytest.raises(UserError, match="weights were not kept"):
        load(staged.folder, *without)


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_file_is_named(kept, tmp_path, damage):
    state = SweepState.load(shutil.copytree(kept.folder, tmp_path / "damaged"))
    (name, seed), file = next(iter(list_kept_weights(state).items()))
    data = bytearray(file.path.read_bytes())
    if damage == "gone":
        file.path.unlink()
    else:
        data[-1] ^= 1
        file.path.write_bytes(data[:-1] if damage == "cut" else data)
    with pytest.raises(DamagedWeights, match=str(file.path)):
        load(state.folder, name, seed, "raw")  # the last tensors of the file
    others = [member for member in list_kept_weights(state) if member != (name, seed)]
    assert all(load(state.folder, *member) for member in others)


@pytest.mark.slow
def test_the_plan_says_how_large_they_are(kept, tiny, tmp_path, monkeypatch):
    arrays = sum(
        array.nbytes
        for name, seed in list_kept_weights(kept)
        for average in ("raw", "ema")
        for array in load(kept.folder, name, seed, average).values()
    )

    def weights(*overrides: str) -> tuple[float, bool]:
        """The MiB in the plan, and whether they will be kept."""
        text = dict(forecast(load_sweep(tiny, overrides), 1).rows)["weights"]
        return float(text.split()[0]), "not kept" not in text

    size = pytest.approx(arrays / 2**20, rel=0.01)
    assert weights(KEEP) == (size, True)
    assert weights("resources.keep_weights=false") == (size, False)
    drawn_later = weights("search.sampler=tpe", "search.generation=2", "seeds=4")
    assert drawn_later == (pytest.approx(2 * arrays / 2**20, rel=0.01), True)
    monkeypatch.setattr(forecasts, "MAX_AUTO_WEIGHTS_BYTES", arrays)
    assert weights() == (size, True)
    monkeypatch.setattr(forecasts, "MAX_AUTO_WEIGHTS_BYTES", arrays - 1)
    assert weights() == (size, False)


@pytest.mark.slow
@pytest.mark.parametrize("small", [True, False])
def test_by_default_a_sweep_keeps_small_weights_also_when_it_is_extended(
    lengthwise, tiny, tmp_path, monkeypatch, small
):
    """What was decided at its beginning is recorded: a larger or smaller sweep later does not change it."""
    monkeypatch.setattr(sweeps, "MAX_AUTO_WEIGHTS_BYTES", 2**20 if small else 0)
    folder = tmp_path / "tiny"
    assert lengthwise("run", tiny, "--storage", tmp_path).returncode == 0
    assert len(list_kept_weights(SweepState.load(folder))) == (8 if small else 0)
    monkeypatch.setattr(sweeps, "MAX_AUTO_WEIGHTS_BYTES", 0 if small else 2**20)
    lengthwise.succeeds("extend", folder, "--seeds", "3")
    assert len(list_kept_weights(SweepState.load(folder))) == (12 if small else 0)


def test_a_sweep_of_1_0_0_keeps_nothing_by_the_new_default(played):
    """Its ledger has no decision, and its specification says false."""
    assert not list_kept_weights(played(*SHORT, "resources.keep_weights=auto"))
