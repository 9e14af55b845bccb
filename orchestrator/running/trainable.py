"""The Ray trainable: one pack, trained in one worker process, its evaluations sent to the driver as packed bytes.

Everything a worker needs comes as one string (`encode_work`), because Ray Tune copies and keeps every value of a
configuration separately. The worker writes nothing but checkpoints and, where they are kept, final weights; what it
finds is recorded by the driver, and `tune.report` returns only when the driver has done so.
"""

import base64
import faulthandler
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from trainers.results import Evaluation, Progress

HEARTBEAT_SECONDS = 1.0  # a report costs the driver a few milliseconds; a person looks at most once a second


def encode_work(members: Sequence[Mapping[str, Any]], ids: Sequence[tuple[str, int]], **settings: Any) -> str:
    """Everything `run_pack` needs, as one short string: members of a pack share most of their text.

    `members` are their resolved sections and `ids` their names in the ledger, (config_id, seed).
    """
    text = json.dumps({"members": list(members), "ids": list(ids), **settings}, separators=(",", ":"))
    return base64.b85encode(zlib.compress(text.encode())).decode()


def decode_work(work: str) -> dict[str, Any]:
    """Read back what `encode_work` wrote."""
    return dict(json.loads(zlib.decompress(base64.b85decode(work))))


def run_pack(config: Mapping[str, Any]) -> None:
    """Train the members of `config["work"]`, resuming from the pack's newest good checkpoint if there is one.

    Reports `evaluation` (bytes), `progress` (a dictionary, at most every second) and `notices` (for the user).
    """
    work = decode_work(config["work"])
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lengthwise" / "inductor"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
    import torch

    import trainers
    from trainers.config.recorded import recorded_member
    from trainers.files.checkpoint import Checkpoints

    torch.set_num_threads(max(1, int(work["cpus"])))
    ids = [(config_id, seed) for config_id, seed in work["ids"]]
    members = [recorded_member(resolved, seed) for resolved, (_, seed) in zip(work["members"], ids, strict=True)]
    folder = Path(work["folder"]) / "checkpoints"
    checkpoints = Checkpoints(
        folder=folder / work["pack_id"],
        every_steps=work["checkpoint_steps"],
        every_seconds=work["checkpoint_seconds"],
    )
    folder.mkdir(parents=True, exist_ok=True)
    with Watchdog(work["watchdog_seconds"], stuck_file(Path(work["folder"]), work["pack_id"])) as watchdog:
        device = "cuda" if work["gpus"] else "cpu"
        weights = Path(work["weights"]) if work["weights"] else None
        reporter = TuneReporter(watchdog)
        trainers.train(members, reporter, ids=ids, checkpoints=checkpoints, weights=weights, device=device)


def stuck_file(folder: Path, pack_id: str) -> Path:
    """Where the watchdog of a pack writes what hung; empty while the pack is running."""
    return folder / "checkpoints" / f"{pack_id}.stuck.txt"


class Watchdog:
    """Ends the process when nothing is heard for `seconds`, after writing where every thread stood to `path`.

    Ray then sees a dead worker and the pack is tried again; a thread that hangs in a library can be ended no other way.
    """

    def __init__(self, seconds: float, path: Path) -> None:
        self._seconds, self._path = seconds, path
        self._file: IO[str] | None = None

    def __enter__(self) -> "Watchdog":
        self._file = self._path.open("w")
        self.heard()
        return self

    def heard(self) -> None:
        """Start waiting anew."""
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._file or 2)

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Wait for somebody else, for however long it takes."""
        faulthandler.cancel_dump_traceback_later()
        try:
            yield
        finally:
            self.heard()

    def __exit__(self, *_: object) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


class TuneReporter:
    """Carries what `trainers.train` reports to the driver."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._notices: list[str] = []
        self._last = float("-inf")

    def report(self, evaluation: Evaluation) -> None:
        """Send an evaluation; returns when the driver has recorded it."""
        self._send({"evaluation": evaluation.to_bytes()})

    def progress(self, progress: Progress) -> None:
        """Feed the watchdog, and send where the pack is when a second has passed."""
        self._watchdog.heard()
        if time.monotonic() - self._last >= HEARTBEAT_SECONDS:
            self._send({"progress": asdict(progress)})

    def notice(self, text: str) -> None:
        """Keep a sentence for the next message."""
        self._notices.append(text)

    def _send(self, message: dict[str, Any]) -> None:
        from ray import tune

        if self._notices:
            message["notices"], self._notices = self._notices, []
        with self._watchdog.asleep():
            tune.report(message)
        self._last = time.monotonic()
