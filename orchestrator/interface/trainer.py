"""Define the interface between the orchestrator and the trainers of members.

A trainer builds members from the sections of a sweep file, describes their measurements and cost, and trains packs of
them. `orchestrator.trainer_choice` chooses between the two trainers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from orchestrator.interface.measurements import Measurements
from orchestrator.interface.work import PackWork
from trainers.errors import Problem
from trainers.tasks.metric_descriptions import RecordedMetric

if TYPE_CHECKING:
    from orchestrator.code.user_code import CodeSource
    from trainers.evaluation.results import Reporter
    from trainers.settings.fields import Settings


# `equal_failures` looks for this text in the recorded error of a program that exits before its last report. A ledger
# has no other field for it, so the text must not change.
MISSING_REPORT_MARKER = "its last report"
MEMBERS_FOLDER = "members"  # has the reports and logs of programs; their checkpoints are in checkpoints/<pack_id>


class Member(Protocol):
    """A configuration with a seed; a frozen dataclass with the fields of its sections and `seed`."""

    @property
    def config_id(self) -> str: ...  # noqa: D102
    @property
    def structural_key(self) -> str: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def evaluation_interval(self) -> int | None: ...  # noqa: D102
    def to_dict(self) -> dict[str, Any]: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class DeclaredObjective:
    """The metrics, weight averages and lengths that an objective may name, as the sections declare them.

    `averages` and `lengths` are None if the sections that name them cannot be built. `distribution` is the trained
    distribution, whose metrics have no suffix.
    """

    metrics: Mapping[str, RecordedMetric]
    averages: tuple[str, ...] | None
    lengths: tuple[int, ...] | None
    distribution: str = ""


@dataclass(frozen=True, kw_only=True)
class PackCost:
    """The cost of packs of one structure: the maximum number of members, bytes of memory per member, and work.

    A pack of n members costs per_pack + n * per_member, in a unit that is the same for all packs of a sweep.
    """

    max_members: int
    bytes_per_member: int
    per_pack: float
    per_member: float


class Trainer(Protocol):
    """A class that builds, describes and trains members."""

    sections: tuple[str, ...]
    is_local: bool  # whether `scheduler: auto` uses local processes, also for packs with GPUs
    inline_curves: bool  # whether small curves are written to the ledger, because there are too many packs for files
    member_class: type[Settings]  # declares the sections; single values are checked against it
    max_equal_failures: int | None  # the number of first packs that end the sweep if all fail with the same error

    # Members: built from sections of a sweep file, or from a record
    def build(self, sections: Mapping[str, Any], *, recorded: bool) -> Any:
        """Return the member of seed 0 with these sections. Raises ConfigError with dotted keys."""

    def rebuild(self, resolved: Mapping[str, Any], seed: int) -> Any:
        """Return a member of a recorded configuration, also of an older version. Raises ConfigError."""

    def list_corrections(self, resolved: Mapping[str, Any]) -> list[str]:
        """Return a sentence for each bug fix that changes the results of a recorded configuration."""

    # Descriptions, which plans, records and comparisons need
    def list_measurements(self, member: Any) -> Measurements:
        """Return the metrics, lengths and averages that a member reports."""

    def read_declared_objective(self, sections: Mapping[str, Any]) -> DeclaredObjective | None:
        """Return the names that an objective may use; None if the sections do not declare enough of them."""

    def describe_parameters(self, resolved: Mapping[str, Any]) -> str | None:
        """Return the parameters of a model and their initial values as text; None if unknown."""

    # Checks of a sweep before it runs, of scripts, data and sizes
    def find_local_problems(self, members: Iterable[Any]) -> list[Problem]:
        """Return problems of data or scripts that are missing on this machine, under dotted keys."""

    def find_initial_weight_problems(self, member: Any, seeds: Collection[int]) -> list[Problem]:
        """Return the problems, under dotted keys, that keep members with these seeds from starting on this machine."""

    def find_trial_problems(self, member: Any, folder: Path | None) -> list[tuple[str, str]]:
        """Run the user's code briefly; return its problems as (dotted key, message).

        `folder` holds the sweep file, None without a file.
        """

    def find_sources(self, members: Iterable[Any], folder: Path | None) -> list[CodeSource]:
        """Return the user's files that the sweep copies, except the modules of `imports`."""

    def find_warnings(self, members: Iterable[Any], folder: Path | None) -> list[tuple[str, str]]:
        """Return warnings about settings that are allowed but seldom intended, as (dotted key, message)."""

    def find_oversized_parts(self, member: Any) -> list[Problem]:
        """Return problems of parts that need more memory than any machine has, under dotted keys."""

    # Costs, used to form packs and to estimate times
    def count_kept_bytes(self, member: Any) -> int:
        """Return the size in bytes of the weights that a finished member keeps."""

    def estimate_pack_cost(self, member: Any, gpus: float) -> PackCost:
        """Return the cost of packs of members like this one."""

    def estimate_seconds(self, member: Any) -> float:
        """Return a rough estimate of the seconds that a single member trains on one core; 0 if unknown."""

    # Training, in a process of a worker
    def read_environment(self, work: PackWork) -> dict[str, str | int | bool]:
        """Return the settings of this process that may change results."""

    def train_members(self, work: PackWork, members: list[Any], reporter: Reporter, checkpoints: Any) -> None:
        """Train a pack, resuming from its newest state in `checkpoints`, a `trainers.files.checkpoint.Checkpoints`."""
