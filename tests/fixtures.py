"""What tests of several folders use; conftest.py loads it where tests run."""

import atexit
import gc
import importlib
import io
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch
from rich.console import Console

from orchestrator.code import user_code
from tests import this_repository
from tests.command_line import CommandLine, make_home
from tests.no_reports import leave_out_reports
from tests.shared import fill_once
from tests.startup.sitecustomize import wait_for_no_disk
from trainers.settings import registry

REPOSITORY = Path(__file__).parents[1]


def pytest_configure() -> None:
    """What is imported stays: looking through it for garbage, again and again, would take a third of collecting.

    Sweeps that tests begin are remembered in a folder that ends with this process. Programs are run by this Python:
    that of a version manager is a script, which takes longer than a program of three steps. Nothing waits for the disk:
    no sweep of a test need outlive a power cut, and a tiny one would wait for as long as it trains. Torch has one
    thread, as in a worker: a second one would take the core of another process and wait there for the next product.
    No property test has a deadline, because a busy machine may take any time for an example.
    """
    hypothesis.settings.register_profile("lengthwise", deadline=None, max_examples=50)
    hypothesis.settings.load_profile("lengthwise")
    gc.disable()
    torch.set_num_threads(1)
    wait_for_no_disk()
    this_repository.read_once()
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="lengthwise-tests-")
    atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)  # short tests leave little: looking for it as often as usual takes 5 % of them


@pytest.fixture
def own_code_forgotten() -> Iterator[Callable[[], None]]:
    """What a test imports and registers of its own is gone after it, and whenever it calls this."""
    before = {kind: dict(registry.get_classes(kind)) for kind in registry.KINDS}
    modules, path, loaded = set(sys.modules), list(sys.path), dict(user_code._loaded_sources)

    def forget() -> None:
        for kind, known in before.items():
            registry._classes[kind].clear()
            registry._classes[kind].update(known)
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            is_ours = bool(file) and Path(file).is_relative_to(REPOSITORY) and "examples" not in Path(file).parts
            if file and not user_code.is_installed(file) and not is_ours:
                del sys.modules[name]
        sys.path[:] = path
        importlib.invalidate_caches()
        user_code._loaded_sources.clear()
        user_code._loaded_sources.update(loaded)

    yield forget
    forget()


@pytest.fixture
def no_reports() -> Iterator[None]:
    """Sweeps of the test write no report when they end."""
    with leave_out_reports():
        yield


@pytest.fixture(scope="module")
def lengthwise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The command line."""
    command_line = CommandLine(make_home(tmp_path_factory))
    yield command_line
    command_line.close()


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow store: making its schema takes seconds, so the tests copy this one."""

    def fill(folder: Path) -> None:
        from orchestrator.tracking.address import make_default_uri
        from orchestrator.tracking.store import create_sqlite_store

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # MLflow's own use of what SQLAlchemy deprecates
            create_sqlite_store(make_default_uri(folder))

    return fill_once(tmp_path_factory, "fresh", fill) / "mlflow.db"


@pytest.fixture
def run_inline(tmp_path: Path) -> Callable[..., Path]:
    """run_inline(FILE, "key=value", ..., name=None) runs a sweep file to its end in this process, without Ray.

    Returns the sweep's folder, which is in the test's own.
    """

    def run(file: Path, *overrides: str, name: str | None = None) -> Path:
        from orchestrator.sweep.run_and_resume import run_sweep
        from search_spaces import load_sweep

        spec = load_sweep(file, [*overrides, "resources.scheduler=inline", "tracking.enabled=false"], name)
        output = io.StringIO()
        outcome = run_sweep(spec, tmp_path, Console(file=output, width=160))
        assert outcome.exit_code == 0, output.getvalue()
        return outcome.folder

    return run
