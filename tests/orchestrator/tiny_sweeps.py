"""Fixtures of tiny sweeps: as files, played in this process, and killed in their middle."""

import http.server
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.plan.packing.packs import PlannedPack
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.driver import SweepDriver
from orchestrator.running.schedulers import inline
from search_spaces import SweepSpec, load_sweep
from tests.command_line import CommandLine, make_home
from tests.no_reports import leave_out_reports
from tests.orchestrator.running.ledgers import begin_ledger, evaluated_once, keyed, records, sets
from tests.orchestrator.sized_packer import SizedPacker
from tests.shared import fill_once
from trainers.evaluation.results import Evaluation

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
resources: {scheduler: inline, checkpoint_seconds: null, checkpoint_steps: 15}
tracking: {enabled: false}
"""
# A fifth of the steps of TINY, with as many evaluations and checkpoints.
SHORT = ("training.steps=12", "evaluation.every=4", "resources.checkpoint_steps=3")


@pytest.fixture(scope="session")
def tiny_text() -> str:
    return TINY


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A sweep file of four configurations with two seeds, 60 steps."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """The folder of the test, with files that have the names of packages and raise when they are imported."""
    for name in ("trainers", "search_spaces", "orchestrator"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("import absent_package\n")
    for name in ("random", "queue", "json", "psutil"):
        (tmp_path / f"{name}.py").write_text("import absent_package\n")
    return tmp_path


class Followed:
    """A driver whose packs may be handed out in another order, with somebody who follows every evaluation of its."""

    def __init__(self, driver: SweepDriver, order: Any, during: Any, watch: Any) -> None:
        self._driver, self._order, self._during, self._watch = driver, order, during, watch
        self._hand: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def take_next_pack(self) -> tuple[str, str] | None:
        if self._order is None:
            return self._driver.take_next_pack()
        if not self._hand:
            while (pack := self._driver.take_next_pack()) is not None:
                self._hand.append(pack)
            self._hand = [(name, dict(self._hand)[name]) for name in self._order([name for name, _ in self._hand])]
        return self._hand.pop(0) if self._hand else None

    def on_evaluation(self, pack_id: str, evaluation: bytes) -> None:
        self._driver.on_evaluation(pack_id, evaluation)
        self._during(pack_id, Evaluation.from_bytes(evaluation).step)
        self._watch(self._driver)


class Stage:
    """Plays a sweep in this process: a ledger, a driver, and the inline scheduler with the real engine."""

    def __init__(self, folder: Path, spec: SweepSpec, *, pack: int = 4, workers: int = 2) -> None:
        self.folder, self.spec, self.messages = folder, spec, []
        self._pack, self._workers = pack, workers

    def begin(self) -> None:
        begin_ledger(self.folder, self.spec).close()

    def play(
        self,
        *,
        order: Callable[[list[str]], list[str]] | None = None,
        during: Callable[[str, int], None] = lambda pack_id, step: None,
        watch: Callable[[SweepDriver], None] = lambda driver: None,
        repack: Callable[..., Sequence[PlannedPack]] = lambda *packs: (),
        **settings: Any,
    ) -> SweepState:
        """Run to the end. `order` arranges the packs at hand; `during` and `watch` follow every evaluation.

        `repack` is that of the packer: without it packs stay as they are. `settings` are those of a SweepDriver.
        """
        with Ledger.open(self.folder) as ledger:
            state = SweepState.load(self.folder)
            given: dict[str, Any] = {
                "packer": FixedPacker(self._packs, repack),
                "say": self.messages.append,
                **settings,
            }
            driver = SweepDriver(self.spec, ledger, state, **given)
            inline.InlineScheduler(self.spec.resources).run(Followed(driver, order, during, watch))
            return state

    def _packs(self, waiting: list) -> list:
        return SizedPacker(self._workers, self._pack, is_balanced=False).pack_members(waiting)


@dataclass(frozen=True)
class FixedPacker:
    """A packer with given functions for packing and for repacking."""

    pack: Callable[[list], list]
    repack_waiting: Callable[..., Sequence[PlannedPack]]

    def pack_members(self, waiting: list) -> list:
        return self.pack(waiting)


@pytest.fixture
def stage(tiny: Path, tmp_path: Path) -> Callable[..., Stage]:
    """stage("name", "key=value", ...) begins a sweep that is played in this process."""

    def build(name: str, *overrides: str, **settings: Any) -> Stage:
        made = Stage(tmp_path / name, load_sweep(tiny, overrides), **settings)
        made.begin()
        return made

    return build


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., SweepState]:
    """played("key=value", ..., pack=4) is the finished sweep of these settings, run once; tests leave it as it is."""

    @cache
    def play(*overrides: str, **settings: Any) -> Path:
        storage = tmp_path_factory.mktemp("played")
        (storage / "tiny.yaml").write_text(TINY)
        made = Stage(storage / "whole", load_sweep(storage / "tiny.yaml", overrides), **settings)
        made.begin()
        made.play()
        return made.folder

    return lambda *overrides, **settings: SweepState.load(play(*overrides, **settings))


@pytest.fixture
def reporting(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], None]:
    """reporting(report) calls report(work, evaluation, record) within every pack for each evaluation, to record it."""
    original = inline.train_pack

    def replace_report(report: Callable[..., None]) -> None:
        def train_pack(work: Any, reporter: Any) -> None:
            def report_instead(evaluation: Any) -> bool:
                stops = list[bool]()
                report(work, evaluation, lambda recorded: stops.append(reporter.report(recorded)))
                return any(stops)

            unchanged = {name: getattr(reporter, name) for name in ("report_environment", "progress", "notice")}
            original(work, SimpleNamespace(**unchanged, report=report_instead))

        monkeypatch.setattr(inline, "train_pack", train_pack)

    return replace_report


@pytest.fixture
def in_packs(reporting: Callable[[Callable[..., None]], None]) -> Callable[[Callable[[str, int], None]], None]:
    """in_packs(after) calls after(pack_id, step) within every pack when an evaluation of its has been recorded."""

    def call_after(after: Callable[[str, int], None]) -> None:
        reporting(lambda work, evaluation, record: (record(evaluation), after(work.pack_id, evaluation.step)))

    return call_after


@pytest.fixture
def lose_first_pack(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """lose_first_pack() lets the first pack raise at every try, until `monkeypatch.undo()`; the list gets its id."""

    def lose() -> list[str]:
        original, lost = inline.train_pack, list[str]()

        def train_pack(work: Any, reporter: Any) -> None:
            lost[:] = lost or [work.pack_id]
            if lost[0] == work.pack_id:
                raise RuntimeError("lost")
            original(work, reporter)

        monkeypatch.setattr(inline, "train_pack", train_pack)
        return lost

    return lose


class LongSweep:
    """A sweep to be killed in its middle: 4 packs of 2 members, 3 evaluations each; and the same one left alone."""

    settings = ("training.steps=90", "evaluation.every=30", "resources.pack=2", "resources.checkpoint_steps=15")

    def __init__(self, storage: Path, left_alone: Callable[[], Path]) -> None:
        self.storage, self._left_alone = storage, left_alone
        self.file, self.hold = storage / "tiny.yaml", storage / "hold"
        self.file.write_text(TINY)

    def words(self, name: str, *more: str) -> list[str]:
        """The command that runs it under a name."""
        settings = sets(*self.settings, *more)
        return ["run", str(self.file), "--storage", str(self.storage), "--name", name, *settings]

    def start(self, lengthwise: CommandLine, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start a verb in a process; every pack waits after each of its evaluations until it is released."""
        self.hold.touch()
        return lengthwise.start(*words, HOLD=str(self.hold), **environment)

    def release(self, *pack_ids: str) -> None:
        """Let these packs go on, or all of them."""
        if pack_ids:
            self.hold.write_text(" ".join(pack_ids))
        else:
            self.hold.unlink(missing_ok=True)

    def release_until(self, evaluations: int) -> None:
        """Let every pack go on until the ledger has so many evaluations."""
        self.hold.write_text(f"until {evaluations}\n")

    @cached_property
    def uninterrupted(self) -> Path:
        return Path(shutil.copytree(self._left_alone(), self.storage / "uninterrupted"))

    def ended_as_if_left_alone(self, folder: Path, ends: int = 4) -> None:
        """The curves are those of the sweep that was left alone, and nothing is in the ledger twice."""
        assert keyed(folder).equals(keyed(self.uninterrupted))
        kinds = Counter(record.kind for record in read_records(folder))
        assert (kinds["configuration"], kinds["score"], kinds["pack_end"]) == (4, ends, ends)
        assert evaluated_once(folder) and len(records(folder, "evaluation")) == 12
        assert not SweepState.load(folder).conflicts


@pytest.fixture(scope="session")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """The long sweep that nobody disturbs, run once for all modules that ask, on any of the workers of pytest."""

    @cache
    def run() -> Path:
        return fill_once(tmp_path_factory, "alone", fill) / "uninterrupted"

    def fill(folder: Path) -> None:
        lengthwise = CommandLine(make_home(tmp_path_factory))
        with leave_out_reports():
            lengthwise.succeeds(*LongSweep(folder, run).words("uninterrupted"))

    return run


@pytest.fixture(scope="module")
def long_sweep(left_alone: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongSweep]:
    sweep = LongSweep(tmp_path_factory.mktemp("sweeps"), left_alone)
    yield sweep
    sweep.release()


class Answering(http.server.BaseHTTPRequestHandler):
    """Keeps what it is sent in `server.heard` and answers `server.answer`, with `server.body`."""

    def do_GET(self) -> None:
        server: Any = self.server
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.heard.append((self.path, dict(self.headers), content))
        self.send_response(server.answer)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    do_POST = do_GET

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Any]:
    """A server on this machine that answers 200; `address` leads to it."""
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.heard, server.answer, server.body, server.address = [], 200, b"", f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


OWN_TASK = '''"""A task of my own: the tokens again, with the vocabulary of a module beside it."""

from typing import ClassVar

import torch

from my_numbers import SMALLEST
from trainers.settings.registry import register
from trainers.settings.fields import setting
from trainers.tasks.set_complement import SetComplement


@register("task", "my_complement")
class MyComplement(SetComplement):
    """Set complement with a vocabulary of its own.

    >>> MyComplement().vocabulary
    6
    >>> MyComplement(vocabulary=7).inputs >= 7
    True
    """

    vocabulary: int = setting(SMALLEST, low=SMALLEST, help="number of tokens")
'''


@pytest.fixture
def study(tmp_path: Path, tiny_text: str) -> Path:
    """A folder of the user's with a sweep file, a module and another one that it imports."""
    folder = tmp_path / "my study"
    folder.mkdir()
    (folder / "my_tasks.py").write_text(OWN_TASK)
    (folder / "my_numbers.py").write_text("SMALLEST = 6\n")
    text = tiny_text.replace("name: set_complement, vocabulary: 6,", "name: my_complement,")
    assert text != tiny_text
    (folder / "own.yaml").write_text(text + "imports: [my_tasks]\n")
    return folder
