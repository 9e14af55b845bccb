"""What training reports: evaluations of a whole pack, progress, and the final result of each member."""

import json
import struct
from dataclasses import asdict, dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from trainers.config.member import MemberConfig


@dataclass(frozen=True, kw_only=True)
class WeightsFile:
    """A file that was written: its name, the SHA-256 of its header line, its size."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One metric of one member against length, for one weight average after `step` steps."""

    average: str
    metric: str
    step: int
    lengths: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The curves of every member of a pack after `step` steps.

    values_MAKL: float32 (members, averages, metrics, lengths), NaN for failed members.
    loss_M: float64, mean training loss since the previous evaluation. failed_at_M: int64, the step at which a member
    became non-finite, -1 while it is alive. seconds: time this pack has trained and evaluated so far. weights: in the
    final evaluation the file with each member's weights, None for failed ones; empty where weights are not kept.
    """

    step: int
    final: bool
    averages: tuple[str, ...]
    metrics: tuple[str, ...]
    lengths: tuple[int, ...]
    values_MAKL: NDArray[np.float32]
    loss_M: NDArray[np.float64]
    failed_at_M: NDArray[np.int64]
    seconds: float
    form: str
    compiled: bool
    weights: tuple[WeightsFile | None, ...] = ()

    def to_bytes(self) -> bytes:
        """Header length, JSON header, then the three arrays, little-endian."""
        plain = {
            "step": self.step,
            "final": self.final,
            "averages": self.averages,
            "metrics": self.metrics,
            "lengths": self.lengths,
            "members": len(self.loss_M),
            "seconds": self.seconds,
            "form": self.form,
            "compiled": self.compiled,
            "weights": [asdict(file) if file else None for file in self.weights],
        }
        header = json.dumps(plain).encode()
        arrays = (self.values_MAKL.astype("<f4"), self.loss_M.astype("<f8"), self.failed_at_M.astype("<i8"))
        return struct.pack("<I", len(header)) + header + b"".join(array.tobytes() for array in arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read back what `to_bytes` wrote. Raises ValueError when the length does not fit the header."""
        (size,) = struct.unpack_from("<I", data)
        header = json.loads(data[4 : 4 + size])
        averages, metrics, lengths = (tuple(header[key]) for key in ("averages", "metrics", "lengths"))
        shape = (header["members"], len(averages), len(metrics), len(lengths))
        cells, members, offset = int(np.prod(shape)), header["members"], 4 + size
        if len(data) != offset + 4 * cells + 16 * members:
            raise ValueError(f"an evaluation of {len(data)} bytes does not fit its header")
        values = np.frombuffer(data, "<f4", cells, offset).reshape(shape).astype(np.float32)
        loss = np.frombuffer(data, "<f8", members, offset + 4 * cells).astype(np.float64)
        failed = np.frombuffer(data, "<i8", members, offset + 4 * cells + 8 * members).astype(np.int64)
        return cls(
            step=header["step"],
            final=header["final"],
            averages=averages,
            metrics=metrics,
            lengths=lengths,
            values_MAKL=values,
            loss_M=loss,
            failed_at_M=failed,
            seconds=header["seconds"],
            form=header["form"],
            compiled=header["compiled"],
            weights=tuple(WeightsFile(**file) if file else None for file in header.get("weights", ())),
        )


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A heartbeat: where the pack is. `phase` is compile, train or evaluate."""

    step: int
    steps: int
    members: int
    failed: int
    seconds: float
    member_steps_per_second: float
    phase: str


@dataclass(frozen=True, kw_only=True)
class MemberResult:
    """How one member ended: its status (complete or failed) and its curves after the last step."""

    member: MemberConfig
    status: str
    failed_at: int | None
    form: str
    compiled: bool
    curves: tuple[Curve, ...]


class Reporter(Protocol):
    """Where `train` sends what happens. Exceptions raised here end the training of the pack."""

    def report(self, evaluation: Evaluation) -> None:
        """Curves of the whole pack; the last one has final=True. Resumed packs report earlier ones again."""

    def progress(self, progress: Progress) -> None:
        """A heartbeat, about once a second."""

    def notice(self, text: str) -> None:
        """Something the user should know, for example that a damaged checkpoint was passed over."""
