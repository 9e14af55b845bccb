"""The work of a pack: everything that its worker needs to train it."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKPOINTS_FOLDER = "checkpoints"  # in the folder of a sweep


def get_checkpoint_folder(sweep_folder: Path, pack_id: str) -> Path:
    """Return the folder of a pack's checkpoints, which its first checkpoint makes."""
    return sweep_folder / CHECKPOINTS_FOLDER / pack_id


@dataclass(frozen=True, kw_only=True)
class PackWork:
    """The work of a pack of M members, in types that JSON can represent."""

    # The members, each with its resolved settings and its (config_id, seed).
    pack_id: str
    members: Sequence[Mapping[str, Any]]
    member_ids: Sequence[tuple[str, int]]

    # Files: the folder of the sweep and its address, and the user's modules (`make_worker_modules`).
    folder: str
    address: str = ""
    modules: Sequence[Mapping[str, Any]] = ()
    weights_folder: str | None = None  # of final weights, None if they are not kept
    stop_file: str = ""  # a file in `folder`: while it exists, packs stop after their next evaluation

    # Resources and limits: `gpus` may be a fraction; hours are for one member of a program.
    cpus: int
    gpus: float
    heartbeat_timeout: float
    grace_seconds: float
    member_hours: float | None = None
    checkpoint_steps: int | None = None
    checkpoint_seconds: float | None = None

    # Where to start: the last recorded step, the seconds trained up to it, and for each member checkpoints of other
    # packs or sweeps that it may continue.
    recorded_step: int = 0
    seconds: float = 0.0
    checkpoint_sources: Sequence[Sequence[Any]] = ()

    # Where to end: the step at which each member was pruned, the step at which the pack pauses, the judged metric.
    prune_at: Sequence[int | None] | None = None
    pause_at: int | None = None
    objective: Mapping[str, Any] | None = None

    def encode(self) -> str:
        """Return the work as one string, compressed because members share most of their text."""
        text = json.dumps(vars(self), separators=(",", ":"))
        return base64.b85encode(zlib.compress(text.encode())).decode()

    @classmethod
    def decode(cls, text: str) -> "PackWork":
        """Return the work that `encode` encoded."""
        return cls(**json.loads(zlib.decompress(base64.b85decode(text))))
