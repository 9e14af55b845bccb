"""Train one pack: `train_pack` under every scheduler, and `train_pack_on_ray`, which calls it as a trainable of Tune.

Everything a worker needs comes as one string (`PackWork.encode`), because Ray Tune copies and keeps every value of a
configuration separately. The worker writes only checkpoints and, if they are kept, final weights; it sends
evaluations as packed bytes, and `tune.report` returns only when the driver has recorded them.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestrator.engine.heap import keep_freed_memory
from orchestrator.interface.work import PackWork, get_checkpoint_folder
from orchestrator.machine.exhaustion import convert_full_disk_errors, find_out_of_space
from orchestrator.mirror.worker_files import MirroredCheckpoints, StopPoll, fetch_files, move_folders, send_weights
from orchestrator.program.exit_causes import RetryRule
from orchestrator.record.files.recorded_modules import import_on_worker, list_imported_files, map_copies
from orchestrator.record.ledger.folders import STOP_FILE
from orchestrator.running.pack.retries import make_death
from orchestrator.running.pack.watchdog import LocalWatchdog, Watchdog, prepare_stack_file
from trainers.evaluation.results import Evaluation, Progress
from trainers.files.checkpoint import Checkpoints

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
PROGRESS_SECONDS = 1.0  # a report costs the driver a few milliseconds


class PackReporter:
    """Sends the worker's environment and the reports of `trainers.training.loop` to the driver.

    `send` gets the kind of a message (`protocol.deliver_message`) and its content; it returns once an evaluation is
    recorded. Progress is sent at most every `progress_interval` seconds.
    """

    def __init__(
        self,
        work: PackWork,
        send: Callable[[str, Any], None],
        watchdog: Watchdog | LocalWatchdog,
        progress_interval: float = PROGRESS_SECONDS,
    ) -> None:
        self._work = work
        self._send = send
        self._watchdog = watchdog
        self._progress_interval = progress_interval
        self._last_progress = float("-inf")
        self._stop_poll = StopPoll(work.address) if work.address else None

    def report_environment(self, environment: dict[str, Any]) -> None:
        """Report the worker's environment, once in every attempt."""
        self._send_message("environment", environment)

    def report(self, evaluation: Evaluation) -> bool:
        """Report an evaluation, and return whether the pack is to stop: at `pause_at`, or with the sweep."""
        # Weights are at the address before the ledger names them.
        if self._stop_poll is not None and evaluation.weights:
            send_weights(self._work, evaluation)
        self._send_message("evaluation", evaluation.to_bytes())

        # A resumed pack reports recorded evaluations again. If it stopped there, a command that is shorter than the
        # start of its workers would train nothing.
        if evaluation.step == self._work.pause_at:
            return True
        if evaluation.step <= self._work.recorded_step:
            return False

        # A worker on another machine does not see the stop file, so it polls the address.
        if (Path(self._work.folder) / STOP_FILE).exists():
            return True
        return self._stop_poll is not None and self._stop_poll.is_stopped()

    def progress(self, progress: Progress) -> None:
        """Restart the timeout of the watchdog, and report the progress if the last report is old enough."""
        self._watchdog.beat()
        if time.monotonic() - self._last_progress >= self._progress_interval:
            self._send_message("progress", asdict(progress))
            self._last_progress = time.monotonic()

    def notice(self, text: str) -> None:
        """Report a sentence for the user."""
        self._send_message("notice", text)

    def _send_message(self, kind: str, content: Any) -> None:
        """Send a message; the watchdog is paused, because the driver may take long to record it."""
        self._watchdog.beat()
        with self._watchdog.paused():
            self._send(kind, content)


def decode_work(text: str) -> PackWork:
    """Return a decoded `PackWork`, with its folders on this machine."""
    work = PackWork.decode(text)
    return move_folders(work) if work.address else work


def train_pack_on_ray(config: Mapping[str, Any]) -> None:
    """Train the members of `config["work"]` in a Ray worker.

    Reports `messages` of a PackReporter, and `death` for an exception. Raises PackRaised for an exception that may be
    retried, OutOfSpace if the disk is full.
    """
    work = decode_work(config["work"])
    use_inductor_cache()
    from ray import tune

    # Each report is a round trip through Tune, so small messages wait for the next one.
    messages = list[tuple[str, Any]]()

    def send(kind: str, content: Any) -> None:
        messages.append((kind, content))
        if kind not in ("environment", "notice"):
            send_messages()

    def send_messages() -> None:
        tune.report({"messages": messages.copy()})
        messages.clear()

    # Tune retries a pack that raises, so a death that must not be retried is only reported. Others are reported before
    # they are raised: the driver decides whether smaller packs replace this pack, or whether it has raised before.
    folder = Path(work.folder)
    with convert_full_disk_errors(folder), Watchdog(work.heartbeat_timeout, prepare_stack_file(work)) as watchdog:
        try:
            train_pack(work, PackReporter(work, send, watchdog))
            if messages:
                with watchdog.paused():
                    send_messages()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            death = make_death(error, list_imported_files(work.modules), map_copies(work.modules))
            if find_out_of_space(error, folder) is not None:
                raise
            with watchdog.paused():
                tune.report({"messages": messages, "death": asdict(death)})
            if death.retry != "never":
                raise PackRaised(death.message, death.trace, death.retry) from None


class PackRaised(Exception):  # noqa: N818 - named by what happened to the pack
    """The text of an exception of a pack, which can be sent to the driver for every class of exception."""

    def __init__(self, message: str, trace: str | None, retry: RetryRule) -> None:
        self.message = message
        self.trace = trace
        self.retry = retry
        super().__init__(message, trace, retry)


def train_pack(work: PackWork, reporter: PackReporter) -> None:
    """Train the members of decoded work here, resuming from the pack's newest good checkpoint if there is one.

    If the sweep has an address, code and checkpoints come from there, and written files are copied there.
    """
    from orchestrator.trainer_choice import get_trainer

    # Report the environment only after the import of the user's code, which may change it.
    if work.address:
        fetch_files(work)
    import_on_worker(work.modules)
    keep_freed_memory()
    trainer = get_trainer(work.members[0])
    reporter.report_environment(trainer.read_environment(work))

    # Rebuild the members from their recorded settings; checkpoints of a sweep at an address are copied there.
    pairs = zip(work.members, work.member_ids, strict=True)
    members = [trainer.rebuild(resolved, seed) for resolved, (_, seed) in pairs]
    checkpoints_class = MirroredCheckpoints if work.address else Checkpoints
    checkpoints = checkpoints_class(
        folder=get_checkpoint_folder(Path(work.folder), work.pack_id),
        every_steps=work.checkpoint_steps,
        every_seconds=work.checkpoint_seconds,
    )

    trainer.train_members(work, members, reporter, checkpoints)
    if isinstance(checkpoints, MirroredCheckpoints) and (problem := checkpoints.finish()):
        reporter.notice(problem)


def use_inductor_cache() -> None:
    """Use a persistent cache for compiled programs if it is writable, unless the user has chosen a cache folder."""
    from trainers.files.cache_folder import make_cache_folder

    with suppress(OSError):
        cache = make_cache_folder("inductor")
        if os.access(cache, os.W_OK | os.X_OK):
            os.environ.setdefault(CACHE_VARIABLE, str(cache))
