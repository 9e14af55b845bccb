"""A plugin of pytest: tests in several processes that are forked once all tests are collected.

`python -m pytest -p tests.parallel --processes 3` imports and collects once; with pytest-xdist every process does. A
process takes the tests of one file after another, so that it makes the fixtures of a module once. What tests begin in
processes of their own (tests/forks.py) are forks of one server for all.
"""

import atexit
import os
import signal
import traceback
import warnings
from itertools import groupby
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import pytest

NUMBER_BYTES = 4  # of a file in the pipe from which the processes take them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="number of processes that run tests")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests and report them as if they ran here."""
    count = session.config.getoption("--processes")
    if count < 2 or session.testsfailed or session.config.option.collectonly:
        return None
    files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    # The numbers of the files, in a pipe that is closed, so that a process finds its end behind the last one.
    numbers, write_end = os.pipe()
    os.write(write_end, b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in range(len(files))))
    os.close(write_end)
    forkserver.ensure_running()

    processes = dict[Connection, int]()
    for number in range(count):
        receiver, sender = Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of threads, such as those of OpenBLAS
            pid = os.fork()
        if not pid:
            _run_and_exit(Runner(session, files, numbers, sender), folder / f"process{number}")
        sender.close()
        processes[receiver] = pid
    try:
        _report(session, processes, numbers)
    finally:
        for pid in processes.values():  # after an interrupt, or another exception
            os.kill(pid, signal.SIGINT)
            os.waitpid(pid, 0)
        os.close(numbers)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def _report(session: pytest.Session, processes: dict[Connection, int], numbers: int) -> None:
    """Report what the processes send until all have ended; these are removed from `processes`."""
    hook, running = session.config.hook, dict[Connection, str]()
    while processes:
        ready = wait(list(processes), timeout=1.0)
        for receiver in ready or list(processes):
            try:
                # One that was killed may leave a process behind, with its end of the pipe.
                if not ready and not os.waitpid(processes[receiver], os.WNOHANG)[0]:
                    continue
                kind, *given = receiver.recv() if ready else ("end", "")
            except EOFError:
                kind, given = "end", [""]
            if kind == "start":
                (running[receiver],) = given
            elif kind == "reports":
                reports, location = given
                for one in reports:
                    report = hook.pytest_report_from_serializable(config=session.config, data=one)
                    hook.pytest_runtest_logreport(report=report)
                hook.pytest_runtest_logfinish(nodeid=running.pop(receiver), location=location)
                while session.shouldfail and os.read(numbers, 2**16):
                    pass  # -x, --maxfail: no process takes another file
            else:
                pid = processes.pop(receiver)
                if ready:
                    os.waitpid(pid, 0)
                (problem,) = given
                if (name := running.get(receiver)) or problem:
                    where = name or "tests/parallel.py"
                    text = problem or f"the process that ran {where} has died"
                    place = (where.partition("::")[0], None, where)
                    hook.pytest_runtest_logreport(report=pytest.TestReport(where, place, {}, "failed", text, "call"))


class Runner:
    """Runs tests in a process and sends reports of them."""

    def __init__(self, session: pytest.Session, files: list[list[Any]], numbers: int, sender: Connection) -> None:
        self.session, self._files, self._numbers, self.sender = session, files, numbers, sender
        self._reports: list[Any] = []

    def run(self) -> None:
        items = self._take()
        while items:
            for item, following in zip(items, [*items[1:], None], strict=True):
                # Fixtures that the next test needs live on, so the next file is taken before the last test of this one.
                more = self._take() if following is None else []
                next_item = following or (more[0] if more else None)
                self.session.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
                if self.session.shouldfail or self.session.shouldstop:
                    return
            items = more

    def _take(self) -> list[Any]:
        number = os.read(self._numbers, NUMBER_BYTES)
        return self._files[int.from_bytes(number, "big")] if number else []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.sender.send(("start", nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self.session.config
        self._reports.append(config.hook.pytest_report_to_serializable(config=config, report=report))

    def pytest_runtest_logfinish(self, location: Any) -> None:
        self.sender.send(("reports", self._reports, location))
        self._reports = []


def _run_and_exit(runner: Runner, folder: Path) -> None:
    """Run tests in this process, which has just been forked, with files and output of its own."""
    problem = ""
    try:
        atexit._clear()  # what is to be done at the end of the first process
        atexit.register(util._exit_function)
        config = runner.session.config
        manager = config.pluginmanager
        capture, terminal = manager.getplugin("capturemanager"), manager.getplugin("terminalreporter")
        terminal._tw._file = Path(os.devnull).open("w")  # noqa: SIM115
        capture.stop_global_capturing()
        capture.start_global_capturing()
        manager.register(runner)

        folder.mkdir()
        config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        os.environ["PYTEST_XDIST_WORKER"] = folder.name  # as pytest-xdist: tests share what is beside this folder
        if "XDG_STATE_HOME" in os.environ:  # tests/conftest.py
            os.environ["XDG_STATE_HOME"] += f"/{folder.name}"
        forkserver._forkserver.ensure_running = lambda: None  # it is no child of this process
        try:
            runner.run()
        finally:
            runner.session._setupstate.teardown_exact(None)
    except BaseException:
        problem = traceback.format_exc()
    finally:
        try:
            runner.sender.send(("end", problem))
            atexit._run_exitfuncs()
        finally:
            os._exit(0)
