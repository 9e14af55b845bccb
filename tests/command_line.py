"""The command line for tests, in this process or in processes of its own."""

import io
import os
import signal
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from orchestrator.cli import main as cli
from orchestrator.cli.command_end import report_end
from orchestrator.figures import drawing
from orchestrator.text.consoles import make_streams_lenient
from orchestrator.text.redaction import mask_log_records
from tests.forks import Fork
from tests.shared import fill_once
from tests.startup.sitecustomize import blank

REPOSITORY = Path(__file__).resolve().parents[1]
COMMAND = get_command(cli.app)  # made once: typer makes it anew in each call
STARTUP = Path(__file__).resolve().parent / "startup"
# Ray would start a worker for each core before anybody needs one; packs need others, with variables of their own.
NO_SPARE_WORKERS = {"RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0"}


def refused(done: subprocess.CompletedProcess[str], *texts: str) -> subprocess.CompletedProcess[str]:
    """Return a verb that has ended with exit code 2 and a message that has all of these texts."""
    assert done.returncode == 2 and "Traceback" not in done.stderr, done
    assert not [text for text in texts if text not in done.stderr], done.stderr
    return done


def run_command_line() -> None:
    """Run the words of sys.argv as `command` does, but keep the garbage collection and signal handlers of the tests."""
    make_streams_lenient()
    mask_log_records()
    try:
        cli.app()
    except BaseException as end:
        sys.exit(report_end(end))


def make_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new home folder; all of them share the library for random numbers, which one process compiles."""
    home = tmp_path_factory.mktemp("home")
    cache = home / ".cache" / "lengthwise"
    cache.mkdir(parents=True)
    (cache / "native").symlink_to(fill_once(tmp_path_factory, "native", lambda folder: None))
    return home


class CommandLine:
    """`lengthwise` with a home folder of its own: called, it runs in this process; `start` and `process` begin another.

    Sweeps of `tiny` run inline; what is about Ray says `--set resources.scheduler=ray` and runs in another process.
    Figures are left blank, unless a process is begun with FIGURES="drawn": drawing them takes longer than all the rest
    of a tiny sweep.
    """

    def __init__(self, home: Path) -> None:
        self.home, self._save = home, blank
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "LENGTHWISE_"))
        }
        path = os.pathsep.join([str(STARTUP), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment |= {"HOME": str(home), "PYTHONUNBUFFERED": "1", "COLUMNS": "160", "PYTHONPATH": path}
        self.environment |= NO_SPARE_WORKERS
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: Any, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end, here."""
        words = ["lengthwise", *map(str, arguments)]
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(cwd)
            patch.setattr(sys, "argv", words)
            patch.setattr(drawing, "save_figure", self._save)
            patch.setattr(cli, "app", COMMAND)
            for key in set(os.environ) - set(self.environment):
                patch.delenv(key)
            for key, value in self.environment.items():
                patch.setenv(key, value)
            with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
                warnings.simplefilter("default")  # as for a person: mlflow itself uses what is deprecated
                run_command_line()
        return subprocess.CompletedProcess(words, ended.value.code or 0, out.getvalue(), err.getvalue())

    def succeeds(self, *arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a verb here, which must end with exit code 0."""
        done = self(*arguments, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def refuses(self, *arguments: Any, message: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a verb here, which must end with exit code 2 and an error that has this message in it."""
        return refused(self(*arguments, **options), message)

    def start(
        self, *arguments: Any, cwd: Path = REPOSITORY, program: str | None = None, anew: bool = False, **more: str
    ) -> subprocess.Popen[str]:
        """Start a verb in a process and session of its own and return at once; `program` runs it in its own way.

        The process has imported the engine already, unless it is started `anew`. `more` is added to its environment.
        """
        words, environment = list(map(str, arguments)), self.environment | more
        process: Any
        if not anew:
            process = Fork(words, program, cwd, environment)
        else:
            process = subprocess.Popen(
                [sys.executable, *(["-m", "orchestrator"] if program is None else ["-c", program]), *words],
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def process(self, *arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end in a process of its own, started as by `start`."""
        process = self.start(*arguments, **options)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
