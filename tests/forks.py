"""Processes that have imported the engine when they begin: forks of one that did nothing else."""

import atexit
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(  # nothing that reads the environment as it is imported, nor what tests/startup changes
    [
        *("trainers.training.loop", "search_spaces", "orchestrator", "optuna", "typer", "rich.table"),
        *("pandas", "scipy.stats", "matplotlib.figure", "pytest", "hypothesis", "tests.startup.preloaded"),
    ]
)


class Fork:
    """`lengthwise`, or a program, in a process and session of its own; used as a subprocess.Popen that has pipes."""

    def __init__(self, words: Sequence[str], program: str | None, cwd: Path, environment: Mapping[str, str]) -> None:
        (out, its_out), (err, its_err) = CONTEXT.Pipe(duplex=False), CONTEXT.Pipe(duplex=False)
        given = (its_out, its_err, words, program, cwd, dict(environment))
        self._process = CONTEXT.Process(target=_run, args=given)
        self._process.start()
        its_out.close()
        its_err.close()
        self.args, self.pid = words, self._process.pid or 0
        self.stdout, self.stderr = (os.fdopen(os.dup(stream.fileno())) for stream in (out, err))

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self) -> int | None:
        self._process.join()
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        with ThreadPoolExecutor(1) as beside:
            err = beside.submit(self.stderr.read)
            out = self.stdout.read()
        self.wait()
        return out, err.result()


def _run(out: Connection, err: Connection, words: Sequence[str], program: str | None, cwd: Path, env: dict) -> None:
    os.setsid()
    for file, number in ((os.open(os.devnull, os.O_RDONLY), 0), (out.fileno(), 1), (err.fileno(), 2)):
        os.dup2(file, number)
    out.close()
    err.close()
    sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir, sys.argv = None, ["lengthwise", *words]
    from tests.startup import sitecustomize

    sitecustomize.begin()
    try:
        exec(program or "from orchestrator.__main__ import command; command()", {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()
