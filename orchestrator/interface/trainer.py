"""The interface between what runs a sweep and what trains its members.

A member is one configuration with one seed. A trainer builds members from the sections of a sweep file, says what they
measure and cost, and trains packs of them. `orchestrator.trainer` chooses between the two that there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from orchestrator.interface.measured import Measured
from trainers.errors import Problem
from trainers.tasks.metrics import RecordedMetric

if TYPE_CHECKING:
    from orchestrator.code.own_code import Source
    from trainers.config.slots import Slot
    from trainers.evaluation.results import Evaluation, Progress


WITHOUT_LAST = "its last report"  # part of the error of a member that ended by itself before its last report
MEMBERS_FOLDER = "members"  # of a sweep of programs: reports, logs and checkpoints


class Member(Protocol):
    """One configuration with one seed; a frozen dataclass with the fields of its sections and `seed`."""

    @property
    def config_id(self) -> str: ...  # noqa: D102
    @property
    def structural_key(self) -> str: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def every(self) -> int | None: ...  # noqa: D102
    def to_dict(self) -> dict[str, Any]: ...  # noqa: D102


class Reporter(Protocol):
    """Receives the reports of a pack; an exception raised here ends the pack."""

    def report(self, evaluation: Evaluation) -> bool | None:
        """Record an evaluation; True asks the trainer to save its state and return."""

    def progress(self, progress: Progress) -> None:
        """Receive a heartbeat."""

    def notice(self, text: str) -> None:
        """Receive a message for the user."""


@dataclass(frozen=True, kw_only=True)
class DeclaredObjective:
    """The objective's metrics and directions as the sections declare them.

    `averages` and `lengths` are None where the sections that name them cannot be built. `distribution` is the one that
    is trained on, whose metrics have no suffix.
    """

    metrics: Mapping[str, RecordedMetric]
    averages: tuple[str, ...] | None
    lengths: tuple[int, ...] | None
    distribution: str = ""


@dataclass(frozen=True, kw_only=True)
class PackCost:
    """The cost of packs of one structure: their largest size, a member's bytes of memory, and their work.

    A pack of n members costs per_pack + n * per_member, in a unit in which the packs of a sweep can be compared.
    """

    largest: int
    bytes_per_member: int
    per_pack: float
    per_member: float


class Trainer(Protocol):
    """Trains members, and knows the meaning of their sections."""

    sections: tuple[str, ...]
    is_local: bool  # packs run in processes of this machine unless told otherwise, GPUs included
    inline_curves: bool  # small curves are written to the ledger itself: packs are too many for a file each
    equal_failures: int | None  # a sweep stops when the first packs, so many, fail alike

    def build(self, sections: Mapping[str, Any], *, recorded: bool) -> Any:
        """Return the member of seed 0 with these sections. Raises ConfigError with dotted keys."""

    def rebuild(self, resolved: Mapping[str, Any], seed: int) -> Any:
        """Return a member of a recorded configuration, perhaps of an older version. Raises ConfigError."""

    def corrections(self, resolved: Mapping[str, Any]) -> list[str]:
        """Return why a recorded configuration would give other numbers today, a sentence for each reason."""

    def measured(self, member: Any) -> Measured:
        """Return the metrics, lengths and averages that a member reports."""

    def declared(self, sections: Mapping[str, Any]) -> DeclaredObjective | None:
        """Return the objective as sections declare it, None if they cannot be built far enough."""

    def single_problems(self, sections: Mapping[str, Any]) -> list[Problem]:
        """Return problems of single values, key by key."""

    def slot(self, sections: Mapping[str, Any], key: str) -> Slot | None:
        """Return the typed field that a dotted key sets, None if there is none."""

    def problems_here(self, members: Iterable[Any]) -> list[Problem]:
        """Return problems of data or scripts that this machine lacks; keys are dotted."""

    def start_problems(self, member: Any, seeds: Collection[int]) -> list[Problem]:
        """Return why members of this configuration cannot start from step 0 here with these seeds; keys are dotted."""

    def try_out(self, member: Any, folder: Path | None) -> list[tuple[str, str]]:
        """Try code of the user's own for a moment; return (dotted key, message) of everything that is wrong.

        `folder` has the sweep file, None without one.
        """

    def sources(self, members: Iterable[Any], folder: Path | None) -> list[Source]:
        """Return files of the user's own, beside the modules of `imports`, that the sweep keeps copies of."""

    def warnings(self, members: Iterable[Any], folder: Path | None) -> list[tuple[str, str]]:
        """Return warnings of settings that are allowed but seldom meant, as (dotted key, message)."""

    def too_large(self, member: Any) -> list[Problem]:
        """Return problems of parts that need more memory than any machine has; keys are dotted."""

    def kept_bytes(self, member: Any) -> int:
        """Return the bytes of the weights that are kept of a member at its end."""

    def pack_cost(self, member: Any, gpus: float) -> PackCost:
        """Return the cost of packs of members like this one."""

    def rough_seconds(self, member: Any) -> float:
        """Return a rough estimate of the seconds that a member trains alone on one core; 0 if unknown."""

    def parameters(self, resolved: Mapping[str, Any]) -> str | None:
        """Return the parameters of a model and their initial values as text; None if unknown."""

    def environment(self, work: Mapping[str, Any]) -> dict[str, str | int | bool]:
        """Return the settings of this process that may change numbers."""

    def run(self, work: Mapping[str, Any], members: list[Any], reporter: Reporter, checkpoints: Any) -> None:
        """Train a pack, resuming from its newest saved state; `work` is what `describe_work` wrote.

        `checkpoints` is the `trainers.files.checkpoint.Checkpoints` of the pack.
        """
