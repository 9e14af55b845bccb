"""Results that training reports: evaluations of a pack, progress, and the final result of each member."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from trainers.config.member import MemberConfig
from trainers.files.container import decode, encode

# Fields of an Evaluation in the header of its bytes, and those stored as arrays.
_PLAIN_FIELDS = ("step", "final", "averages", "metrics", "lengths", "seconds", "form", "compiled")
ARRAYS = ("values_MAKL", "loss_M", "failed_at_M", "stopped_at_M", "stage_M")


@dataclass(frozen=True, kw_only=True)
class WeightsFile:
    """A written weights file: its name, the SHA-256 of its header, its size in bytes."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A metric of a member against length, for a weight average after `step` steps."""

    average: str
    metric: str
    step: int
    lengths: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation:
    """The scores for early stopping and the curriculum at an evaluation, on inputs of the validation stream.

    decisions: the (metric, average) of each score; metrics by the names of the task or model. lengths: the trained
    lengths. values_MDL: float32 (members, decisions, lengths), NaN for failed members and missing values.
    """

    decisions: tuple[tuple[str, str], ...]
    lengths: tuple[int, ...]
    values_MDL: NDArray[np.float32]

    def mean(self, metric: str, average: str) -> NDArray[np.float32]:
        """Return the mean score of every member over the lengths with a value, (M,); NaN if no length has a value."""
        # In float64, because the mean decides whether a member stops.
        values = self.values_MDL[:, self.decisions.index((metric, average))].astype(np.float64)
        valid = ~np.isnan(values)
        sums = np.where(valid, values, 0.0).sum(axis=1)
        counts = valid.sum(axis=1)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)

    def select_scores(self, metric: str, average: str, lengths: Sequence[int]) -> NDArray[np.float32]:
        """Return the score of every member at these lengths, (M, lengths)."""
        columns = [self.lengths.index(length) for length in lengths]
        return self.values_MDL[:, self.decisions.index((metric, average))][:, columns]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The curves of every member of a pack after `step` steps.

    Shapes: M members, A averages, K metrics, L lengths.
    """

    step: int
    final: bool  # whether this is the last evaluation
    averages: tuple[str, ...]
    metrics: tuple[str, ...]
    lengths: tuple[int, ...]
    values_MAKL: NDArray[np.float32]  # NaN for failed members
    loss_M: NDArray[np.float64]  # mean training loss since the previous evaluation
    failed_at_M: NDArray[np.int64]  # step at which a member became non-finite, -1 if it did not
    seconds: float  # time this pack has trained and evaluated so far
    form: str  # which of several equivalent computations the model used
    compiled: bool  # whether steps were compiled

    # The file of each member in the final evaluation, None for failed or pruned members; empty if weights are not kept.
    weights: tuple[WeightsFile | None, ...] = ()

    # Early stopping and curricula, None without; later evaluations repeat the values and the loss of a stopped member.
    stopped_at_M: NDArray[np.int64] | None = None  # step at which a member stopped early, -1 if it did not
    stage_M: NDArray[np.int64] | None = None  # stage of the curriculum before this evaluation
    validation: Validation | None = None  # scores for both

    # Only of programs: the number of reports repeated with other values, and defaults that the sweep does not set, if
    # they are new in this process.
    repeated: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def final_loss_M(self) -> NDArray[np.float64]:  # noqa: N802 - a shape suffix
        """The loss of each member, NaN for failed members."""
        return np.where(self.failed_at_M >= 0, np.nan, self.loss_M)

    def select_metrics(self, metrics: Sequence[str]) -> NDArray[np.float32]:
        """Return the values of these metrics, (M, A, metrics, L), in this order; NaN for metrics not measured."""
        m, a, _, lengths = self.values_MAKL.shape
        values = np.full((m, a, len(metrics), lengths), np.nan, dtype=np.float32)
        for index, name in enumerate(metrics):
            if name in self.metrics:
                values[:, :, index] = self.values_MAKL[:, :, self.metrics.index(name)]
        return values

    def to_bytes(self) -> bytes:
        """Return the evaluation as one container (trainers.files.container).

        The bytes are cached for reports and later checkpoints, so the arrays must not change.
        """
        return self._encoded

    @cached_property
    def _encoded(self) -> bytes:
        header = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        header["weights"] = [asdict(file) if file else None for file in self.weights]
        header |= {"repeated": self.repeated} if self.repeated else {}
        header |= {"defaults": self.defaults} if self.defaults else {}

        # Absent arrays are left out, because a container has no value for None.
        arrays: dict[str, NDArray[Any] | None] = {name: getattr(self, name) for name in ARRAYS}
        if self.validation is not None:
            header |= {"decided": self.validation.decisions, "trained_lengths": self.validation.lengths}
            arrays["validation"] = self.validation.values_MDL
        return bytes(encode(header, {name: array for name, array in arrays.items() if array is not None}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the evaluation that `to_bytes` encoded. Raises ValueError if the bytes are damaged."""
        header, arrays = decode(data)
        validation = None
        if "validation" in arrays:
            decisions = tuple((metric, average) for metric, average in header["decided"])
            lengths = tuple(header["trained_lengths"])
            validation = Validation(decisions=decisions, lengths=lengths, values_MDL=arrays.pop("validation"))

        # JSON has lists where the evaluation has tuples.
        plain = {name: tuple(value) if isinstance(value := header[name], list) else value for name in _PLAIN_FIELDS}
        fields: dict[str, Any] = {**plain, **arrays}
        weights = tuple(WeightsFile(**file) if file else None for file in header["weights"])
        program_fields = {name: header[name] for name in ("repeated", "defaults") if name in header}
        return cls(**fields, **program_fields, weights=weights, validation=validation)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a pack, sent as a heartbeat.

    step: steps so far. steps: all steps. failed, stopped: how many of the `members` failed or stopped early. seconds:
    time so far. phase: compile, train or evaluate.
    """

    step: int
    steps: int
    members: int
    failed: int
    seconds: float
    member_steps_per_second: float
    phase: str
    stopped: int = 0


@dataclass(frozen=True, kw_only=True)
class MemberResult:
    """The result of a member: its status (complete or failed) and its curves after the last step.

    failed_at, stopped_at: the steps at which it failed or stopped early, else None; a stopped member is complete.
    """

    member: MemberConfig
    status: str
    failed_at: int | None
    form: str
    compiled: bool
    curves: tuple[Curve, ...]
    stopped_at: int | None = None


def make_member_results(members: Sequence[MemberConfig], last: Evaluation) -> list[MemberResult]:
    """Return the result of each member, from the final evaluation of its pack."""
    return [
        # A member that stopped early is complete: it reached its goal.
        MemberResult(
            member=member,
            status="failed" if last.failed_at_M[i] >= 0 else "complete",
            failed_at=_get_step_or_none(last.failed_at_M[i]),
            form=last.form,
            compiled=last.compiled,
            curves=tuple(
                Curve(
                    average=average,
                    metric=metric,
                    step=last.step,
                    lengths=last.lengths,
                    values=tuple(map(float, last.values_MAKL[i, a, k])),
                )
                for a, average in enumerate(last.averages)
                for k, metric in enumerate(last.metrics)
            ),
            stopped_at=None if last.stopped_at_M is None else _get_step_or_none(last.stopped_at_M[i]),
        )
        for i, member in enumerate(members)
    ]


def _get_step_or_none(number: np.int64) -> int | None:
    """Return a step as an int; None for a negative number."""
    return int(number) if number >= 0 else None


class Reporter(Protocol):
    """The receiver of the reports of `train`. An exception raised by it ends the training of the pack."""

    def report(self, evaluation: Evaluation) -> bool | None:
        """Receive an evaluation of the pack; the last has final=True. A resumed pack reports earlier evaluations again.

        Return True to stop the pack here; its state is then saved in a checkpoint.
        """

    def progress(self, progress: Progress) -> None:
        """Receive a heartbeat, about once a second."""

    def notice(self, text: str) -> None:
        """Receive a warning for the user, for example that a damaged checkpoint was skipped."""
