"""Sweeps that start from the weights of another sweep, or of files: pinned, resumed without them, refused in time."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from orchestrator.record.files.curves import read_curves
from orchestrator.record.files.weights import load
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from search_spaces import load_sweep
from search_spaces.grammar.shipped import find_shipped_sweeps
from tests.orchestrator.running.ledgers import cut_ledger, ledger_kinds, sets
from trainers.config.recorded_members import build_recorded_member

pytestmark = pytest.mark.usefixtures("no_reports")

PRETRAIN = """name: pretrain
study: tests
task: {name: set_complement, vocabulary: 8, train_length: 3}
model: {name: attention_only, width: 8, value_width: 8}
training: {steps: 20, batch_size: 8, learning_rate: 0.01, compile: false, averages: {raw: {}, ema: {decay: 0.9}}}
space: {training.learning_rate: {grid: [0.001, 0.03]}}
seeds: 3
evaluation: {every: 10, samples: 20}
objective: {metric: total_variation, average: raw, lengths: [4]}
resources: {scheduler: inline, checkpoint_seconds: null, checkpoint_steps: 5}
tracking: {enabled: false}
"""
FINE = {
    **yaml.safe_load(PRETRAIN),
    "name": "fine",
    "task": {"name": "set_complement", "vocabulary": 8, "train_length": 5},
    "seeds": 2,
    "space": {},
    "objective": {"metric": "total_variation", "average": "raw", "lengths": [6]},
}
STILL = "training.learning_rate=0"  # members end with the weights they start from


@pytest.fixture(scope="module")
def pretrained(lengthwise, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with the finished sweep `pretrain`, which has kept its weights."""
    folder = tmp_path_factory.mktemp("pretrained")
    (folder / "pretrain.yaml").write_text(PRETRAIN)
    lengthwise.succeeds("run", folder / "pretrain.yaml", "--storage", folder / "sweeps")
    return folder / "sweeps"


@pytest.fixture
def storage(pretrained: Path, tmp_path: Path) -> Path:
    shutil.copytree(pretrained, tmp_path / "sweeps")
    return tmp_path / "sweeps"


def fine(tmp_path: Path, initial: Any = None, **changes: Any) -> Path:
    """A sweep file whose members start from `initial`, if it is given."""
    data = {**FINE, "training": {**FINE["training"], **({"initial": initial} if initial else {})}, **changes}
    path = tmp_path / "fine.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


def best_of(folder: Path) -> str:
    return next(row.config_id for row in summarize(SweepState.load(folder)).rows if row.rank == 1)


def curves(folder: Path) -> pd.DataFrame:
    return read_curves(SweepState.load(folder))


def resolved(folder: Path) -> list[dict[str, Any]]:
    return [record.fields["resolved"] for record in read_records(folder) if record.kind == "configuration"]


def test_every_seed_starts_from_the_weights_of_its_seed(lengthwise, storage: Path, tmp_path: Path) -> None:
    lengthwise.succeeds("run", fine(tmp_path, {"sweep": "pretrain"}), "--storage", storage, "--set", STILL)
    source, best = storage / "pretrain", best_of(storage / "pretrain")
    assert best != SweepState.load(source).draws[0].config_id, "the best is not the first"
    for seed in (0, 1):
        wanted, start = load(source, best, seed), load(storage / "fine", 0, seed)
        assert all(np.array_equal(wanted[name], start[name]) for name in wanted)
        averaged = load(storage / "fine", 0, seed, "ema")
        assert all(np.allclose(wanted[name], averaged[name]) for name in wanted), "averages start there, too"
    (recorded,) = resolved(storage / "fine")
    initial = recorded["training"]["initial"]
    assert initial["sha256"].keys() == initial["file"].keys() == {"0", "1", "2"}


def test_the_start_can_be_searched_and_does_not_cut_packs(lengthwise, storage: Path, tmp_path: Path) -> None:
    """Drawn weights, those of the best configuration, and one seed of another one's average for every seed."""
    averaged = {"sweep": "sweeps/pretrain", "configuration": "#0", "average": "ema", "seeds": 2}
    values = [None, {"sweep": "pretrain"}, averaged]
    path = fine(tmp_path, space={"training.initial": {"grid": values}})
    lengthwise.succeeds("run", path, "--storage", storage, "--set", STILL)
    (pack,) = SweepState.load(storage / "fine").packs.values()
    assert len(pack.members) == 6
    wanted = load(storage / "pretrain", "#0", 2, "ema")
    for seed in (0, 1):
        start = load(storage / "fine", "#2", seed)
        assert all(np.array_equal(wanted[name], start[name]) for name in wanted)
    lengthwise.succeeds("run", fine(tmp_path), "--name", "drawn", "--storage", storage, "--set", STILL)
    first, plain = SweepState.load(storage / "fine").draws[0].config_id, SweepState.load(storage / "drawn")
    assert first == plain.draws[0].config_id, "null is the configuration without the setting"
    null = curves(storage / "fine").query("config_id == @first").drop(columns="training.initial")
    assert null.values.tolist() == curves(storage / "drawn").values.tolist()
    compared = lengthwise.succeeds("compare", storage / "fine", "0", "1")
    assert "training.initial null / pretrain #1" in compared.stdout
    assert "initial weights differ (training.initial)" in " ".join(compared.stdout.split())
    report = json.dumps([row.values for row in summarize(SweepState.load(storage / "fine")).rows])
    assert '"source": "pretrain #0 seed 2"' in report


@pytest.mark.parametrize("file", ["start.pt", "{seed}.pt"])
def test_files_are_looked_for_beside_the_sweep_file(lengthwise, storage: Path, tmp_path: Path, file: str) -> None:
    weights = {seed: load(storage / "pretrain", "#1", seed) for seed in (0, 1, 2)}
    (tmp_path / "weights").mkdir()
    for seed in (0, 1, 2) if "seed" in file else (0,):
        tensors = {f"model.{name}": torch.from_numpy(value) for name, value in weights[seed].items()}
        torch.save(tensors, tmp_path / "weights" / file.format(seed=seed))
    initial = {"file": f"weights/{file}", "rename": {"model.*": "*"}}
    lengthwise.succeeds("run", fine(tmp_path, initial), "--storage", storage, "--set", STILL)
    for seed in (0, 1):
        start, wanted = load(storage / "fine", 0, seed), weights[seed if "seed" in file else 0]
        assert all(np.array_equal(wanted[name], start[name]) for name in wanted)
    assert yaml.safe_load((storage / "fine" / "sweep.yaml").read_text())["training"]["initial"]["rename"]


def unfinished(storage: Path) -> Path:
    """The sweep `fine` as if its driver had been killed after the first evaluation and a checkpoint."""
    folder = storage / "fine"
    cut_ledger(folder, ledger_kinds(folder).index("evaluation") + 1)
    for path in folder.glob("checkpoints/*/step-*.ckpt"):
        if int(path.stem.removeprefix("step-")) > 15:
            path.unlink()
    assert list(folder.glob("checkpoints/*/step-*15.ckpt"))
    return folder


def test_a_sweep_resumes_from_its_checkpoint_without_what_it_started_from(
    lengthwise, storage: Path, tmp_path: Path
) -> None:
    path = fine(tmp_path, {"sweep": "pretrain"})
    lengthwise.succeeds("run", path, "--storage", storage, "--name", "whole")
    lengthwise.succeeds("run", path, "--storage", storage)
    folder = unfinished(storage)
    shutil.move(storage / "pretrain", tmp_path / "away")
    lengthwise.succeeds("resume", folder)
    assert curves(folder).equals(curves(storage / "whole"))
    lengthwise.refuses("extend", folder, "--seeds", 3, message="the weights to start from cannot be read")

    # Without a checkpoint it starts from step 0 and needs the files, and then the same ones.
    folder = unfinished(storage)
    shutil.rmtree(folder / "checkpoints")
    before = (folder / "events.jsonl").read_bytes()
    lengthwise.refuses("resume", folder, message="the weights to start from cannot be read")
    shutil.move(tmp_path / "away", storage / "pretrain")
    (first, *_) = resolved(folder)[0]["training"]["initial"]["file"].values()
    content = Path(first).read_bytes()
    Path(first).write_bytes(content + b" ")
    lengthwise.refuses("resume", folder, message="SHA-256")
    assert (folder / "events.jsonl").read_bytes() == before
    Path(first).write_bytes(content)
    lengthwise.succeeds("resume", folder)
    assert curves(folder).equals(curves(storage / "whole"))


def test_a_changed_file_is_another_sweep(lengthwise, storage: Path, tmp_path: Path) -> None:
    def write(scale: float) -> None:
        weights = load(storage / "pretrain", "#1", 0)
        torch.save({name: scale * torch.from_numpy(value) for name, value in weights.items()}, tmp_path / "start.pt")

    write(1.0)
    path = fine(tmp_path, {"file": "start.pt"})
    lengthwise.succeeds("run", path, "--storage", storage)
    lengthwise.refuses("run", path, "--storage", storage, message="it is finished")
    (recorded,) = resolved(storage / "fine")
    member = build_recorded_member(recorded, 0)
    write(2.0)
    refused = lengthwise.refuses("run", path, "--storage", storage, message="training.initial.sha256")
    assert member.training.initial.sha256 in refused.stderr
    lengthwise.succeeds("run", path, "--storage", storage, "--name", "other")
    assert build_recorded_member(resolved(storage / "other")[0], 0).config_id != member.config_id


def test_seeds_without_weights_are_refused_at_the_item_of_the_grid(lengthwise, storage: Path, tmp_path: Path) -> None:
    path = fine(tmp_path, space={"training.initial": {"grid": [None, {"sweep": "pretrain"}]}}, seeds=5)
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "sweep: pretrain" in text)
    message = " ".join(lengthwise.refuses("run", path, "--storage", storage, message="seeds 3, 4").stderr.split())
    assert f"{path}:{line}: space.training.initial.grid[1]: pretrain #1" in message and "`seeds: 0`" in message


def test_seeds_without_weights_are_refused(lengthwise, storage: Path, tmp_path: Path) -> None:
    path = fine(tmp_path, {"sweep": "pretrain"})
    lengthwise.refuses("run", path, "--storage", storage, "--set", "seeds=5", message="training.initial: pretrain #1")
    assert not (storage / "fine").exists()
    lengthwise.succeeds("run", path, "--storage", storage)
    before = (storage / "fine" / "events.jsonl").read_bytes()
    lengthwise.refuses("extend", storage / "fine", "--seeds", 4, message="of seed 3")
    refused = lengthwise.refuses("confirm", storage / "fine", "--seeds", 3, message="training.initial: pretrain #1")
    assert all(word in " ".join(refused.stderr.split()) for word in ("seeds 3, 4", "`seeds: 0`"))
    assert (storage / "fine" / "events.jsonl").read_bytes() == before and len(list(storage.iterdir())) == 2
    lengthwise.succeeds("extend", storage / "fine", "--seeds", 3)
    same = fine(tmp_path, {"sweep": "pretrain", "seeds": 0})
    lengthwise.succeeds("run", same, "--storage", storage, "--name", "same")
    lengthwise.succeeds("confirm", storage / "same", "--seeds", 2)


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ({"sweep": "pretrian"}, "did you mean"),
        ({"sweep": "pretrain", "configuration": "#7"}, "no configuration #7"),
        ({"sweep": "pretrain", "configuration": "bset"}, "did you mean best?"),
        ({"sweep": "pretrain", "average": "emma"}, "did you mean ema?"),
        ({"sweep": "pretrain", "seeds": 9}, "no seed 9"),
        ({"sweep": "pretrain", "seeds": "all"}, "allowed: same"),
        ({"sweep": "pretrain", "configuraton": 0}, "did you mean configuration?"),
        ({"sweep": "pretrain", "strict": 1}, "training.initial.strict"),
        ({"file": "nothing.pt"}, "nothing.pt"),
        ({"file": "{seed}.pt"}, "{seed}"),
        ({"strict": False}, "training.initial.file"),
        ("pretrain", "training.initial"),
    ],
)
def test_what_cannot_be_found_is_one_clear_error(
    lengthwise, pretrained: Path, tmp_path: Path, initial: Any, message: str
) -> None:
    path = fine(tmp_path, initial)
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "initial:" in text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(lengthwise.environment, "LENGTHWISE_STORAGE", str(pretrained))
        done = lengthwise.refuses("validate", path, message=message)
    assert any(f"{path}:{number}:" in done.stderr for number in (line, line + 1, line + 2, line + 3))


def test_a_model_that_does_not_fit_is_refused_or_starts_in_part(lengthwise, storage: Path, tmp_path: Path) -> None:
    path = fine(tmp_path, {"sweep": "pretrain"}, model={**FINE["model"], "value_width": 12})
    message = " ".join(lengthwise.refuses("run", path, "--storage", storage, message="value").stderr.split())
    assert "training.initial: pretrain #1" in message and str(storage / "pretrain") not in message
    assert "value of shape (8, 8), not (8, 12)" in message and "output of shape (8, 8), not (12, 8)" in message
    assert not (storage / "fine").exists()
    path = fine(tmp_path, {"sweep": "pretrain", "strict": False}, model={**FINE["model"], "value_width": 12})
    for verb in ("plan", "run"):
        done = lengthwise.succeeds(verb, path, "--storage", storage, "--set", STILL)
        assert "4 of 6 parameters start from" in " ".join((done.stdout + done.stderr).split())
    wanted, start = load(storage / "pretrain", "#1", 1), load(storage / "fine", 0, 1)
    fits = {name: start[name].shape == wanted[name].shape for name in wanted}
    assert sorted(fits.values()) == [False, False, True, True, True, True]
    assert all(np.array_equal(wanted[name], start[name]) for name, is_taken in fits.items() if is_taken)


@pytest.mark.parametrize(
    ("name", "last", "sources"),
    [
        ("fine_tuning", "fine_tuning", [None, "pretrained #0"]),
        ("modular_arithmetic_long", "modular_arithmetic_long", ["modular_arithmetic #0"]),
        pytest.param(
            "reverse_string_long", "reverse_string_longer", ["reverse_string_long #0"], marks=pytest.mark.slow
        ),
    ],
)
def test_the_shipped_studies_of_two_phases_run(
    name: str, last: str, sources: list, lengthwise, own_code_forgotten, tmp_path: Path
) -> None:
    """With the options of the commands in their headers, in the order of the file, at a small size."""
    files = find_shipped_sweeps()
    file = files[name]
    commands = re.findall(r"^# +lengthwise (run .*(?:\n#     .*)*)", file.read_text(), re.MULTILINE)
    assert len(commands) > 1
    small = ["--storage", tmp_path, *sets("seeds=2", "training.steps=2", "training.batch_size=4")]
    small += sets("resources.scheduler=inline", "tracking.enabled=false")
    for text in commands:
        words = shlex.split(text.replace("\n#", " "))
        lengths = [*load_sweep(files[words[1]]).objective.lengths]  # a row of 499 symbols takes as long as all else
        short = sets(f"evaluation={{every: 2, samples: 2, lengths: {lengths}}}")
        lengthwise.succeeds(*words, *small, *short)
    state = SweepState.load(tmp_path / last)
    started = [configuration.resolved["training"].get("initial") for configuration in state.configurations.values()]
    assert [initial and initial["source"] for initial in started] == sources
    assert len(file.read_text().splitlines()) < 60


def test_the_best_of_an_unfinished_sweep_is_not_known(lengthwise, storage: Path, tmp_path: Path) -> None:
    cut_ledger(storage / "pretrain", ledger_kinds(storage / "pretrain").index("score"))
    path = fine(tmp_path, {"sweep": "pretrain"})
    lengthwise.refuses("run", path, "--storage", storage, message="not finished")
    named = fine(tmp_path, {"sweep": "pretrain", "configuration": "#1"})
    lengthwise.succeeds("run", named, "--storage", storage)
