"""Tiny sweeps: as files, played in this process without Ray, and run by the command line in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import trainers
from orchestrator.plan.configurations import make_packs
from orchestrator.record.ledger import Ledger, Record, read_records
from orchestrator.record.state import SweepState
from orchestrator.running.driver import SweepDriver
from orchestrator.running.trainable import decode_work
from search_spaces import SweepSpec, load_sweep
from trainers.config.recorded import recorded_member
from trainers.files.checkpoint import Checkpoints

REPOSITORY = Path(__file__).resolve().parents[3]
TINY = """name: tiny
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: sampled}
model: {name: attention_only, width: 8, value_width: 8, dropout: 0.1}
training:
  steps: 60
  batch_size: 8
  learning_rate: 0.003
  compile: false
  averages: {raw: {}, ema: {decay: 0.9}}
space:
  training.learning_rate: {log_uniform: [0.001, 0.1]}
  training.batch_size: {choice: [8, 16]}
search: {configurations: 4}
seeds: 2
evaluation: {every: 20, samples: 10}
objective: {metric: total_variation, average: ema, lengths: [4], direction: minimize}
resources: {checkpoint_seconds: null, checkpoint_steps: 15}
tracking: {enabled: false}
"""


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Train with one thread, as a worker does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_text() -> str:
    return TINY


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A sweep file of four configurations with two seeds, 60 steps."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


class Stage:
    """The in-process double of the scheduler: trains packs here, one after the other, with the real engine."""

    def __init__(self, folder: Path, spec: SweepSpec, *, pack: int = 4, workers: int = 2) -> None:
        self.folder, self.spec, self.said = folder, spec, []
        self._pack, self._workers = pack, workers

    def begin(self) -> None:
        first = {"name": self.spec.name, "study": self.spec.study, "spec": self.spec.resolved()}
        Ledger.create(self.folder, {**first, "spec_hash": self.spec.spec_hash, "provenance": {}}).close()

    def play(
        self,
        *,
        order: Callable[[list[str]], list[str]] = list,
        during: Callable[[str, int], None] = lambda pack_id, step: None,
        watch: Callable[[SweepDriver], None] = lambda driver: None,
    ) -> SweepState:
        """Run to the end. `order` arranges the packs at hand; `during` and `watch` follow every evaluation."""
        with Ledger.open(self.folder) as ledger:
            state = SweepState.load(self.folder)
            driver = SweepDriver(self.spec, ledger, state, pack=self._packs, say=self.said.append)
            while True:
                hand: dict[str, str] = {}
                while (pack := driver.next_pack()) is not None:
                    hand[pack[0]] = pack[1]
                if not hand:
                    assert driver.all_handed_out()
                    return state
                for pack_id in order(list(hand)):
                    self._train(driver, pack_id, hand[pack_id], during, watch)

    def _packs(self, configurations: list, done: set) -> list:
        return make_packs(
            configurations,
            self.spec.seeds,
            workers=self._workers,
            capacity=lambda member: self._pack,
            work=lambda member, count: count,
            even=False,
            done=done,
        )

    def _train(self, driver: SweepDriver, pack_id: str, work: str, during: Any, watch: Any) -> None:
        stage, given = self, decode_work(work)

        class Reporter:
            def report(self, evaluation: Any) -> None:
                driver.evaluated(pack_id, evaluation.to_bytes())
                during(pack_id, evaluation.step)
                watch(driver)

            def progress(self, progress: Any) -> None:
                driver.progressed(pack_id, vars(progress))

            def notice(self, text: str) -> None:
                driver.noticed(pack_id, text)

        driver.started(pack_id)
        folder = stage.folder / "checkpoints" / pack_id
        ids = [(config_id, seed) for config_id, seed in given["ids"]]
        members = [recorded_member(resolved, seed) for resolved, (_, seed) in zip(given["members"], ids, strict=True)]
        checkpoints = Checkpoints(folder=folder, every_steps=given["checkpoint_steps"])
        weights = Path(given["weights"]) if given["weights"] else None
        trainers.train(members, Reporter(), ids=ids, checkpoints=checkpoints, weights=weights)
        driver.completed(pack_id)


@pytest.fixture
def stage(tiny: Path, tmp_path: Path) -> Callable[..., Stage]:
    """stage("name", "key=value", ...) begins a sweep that is played in this process."""

    def build(name: str, *overrides: str, **settings: Any) -> Stage:
        made = Stage(tmp_path / name, load_sweep(tiny, overrides), **settings)
        made.begin()
        return made

    return build


class CommandLine:
    """`lengthwise` in processes of its own, with a home folder of its own; ends what it started."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "LENGTHWISE_"))
        }
        self.environment |= {"HOME": str(home), "PYTHONUNBUFFERED": "1", "COLUMNS": "160"}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: Any, **environment: str) -> subprocess.Popen[str]:
        """Start a verb in a session of its own and return at once."""
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *map(str, arguments)],
            cwd=REPOSITORY,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def __call__(self, *arguments: Any, timeout: float = 150, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture(scope="module")
def lengthwise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The command line."""
    found = CommandLine(tmp_path_factory.mktemp("home"))
    yield found
    found.close()


def wait_for(condition: Callable[[], Any], seconds: float = 90.0) -> Any:
    """The first true value of `condition`; fails the test when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def records(folder: Path, kind: str) -> list[Record]:
    """The records of one kind in a ledger that may be being written, or not exist yet."""
    return (
        [record for record in read_records(folder) if record.kind == kind] if (folder / "events.jsonl").exists() else []
    )


def curves(folder: Path) -> pd.DataFrame:
    """The derived table of a sweep that has ended."""
    return pd.read_parquet(folder / "curves.parquet")


@pytest.fixture(name="wait_for", scope="session")
def wait_for_fixture() -> Callable[..., Any]:
    return wait_for


@pytest.fixture(name="records")
def records_fixture() -> Callable[[Path, str], list[Record]]:
    return records


@pytest.fixture(name="curves")
def curves_fixture() -> Callable[[Path], pd.DataFrame]:
    return curves
