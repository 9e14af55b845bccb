"""The state of a pack that training changes, and the weight averages that are computed from it.

Shapes: M members, S distinct seeds, P parameters of one member.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import suggest_nearest
from trainers.files.checkpoint import Snapshot
from trainers.files.stored_state import fit_state
from trainers.packs.pack import Pack
from trainers.tensors.memory import may_share_memory

Averages = tuple[tuple[Tensor, ...], ...]  # the buffers of every `Pack.buffer_sources`


@dataclass(kw_only=True)
class TrainingState:
    """Tensors that training changes: weights, optimizer state, averages, failures and stops, recent losses."""

    step: Tensor  # () int64, optimizer steps so far
    theta: Tensor  # (M, P)
    optimizer: Mapping[str, Tensor]  # by name, (M, ...) each
    averages: Averages  # (M, P) each
    failed_at: Tensor  # (M,) int64, step at which it became non-finite, -1 before
    stopped_at: Tensor  # (M,) int64, step of the evaluation at which it stopped early, -1 before
    stage: Tensor  # (M,) int64, of the curriculum
    loss_sum: Tensor  # (M,) float64
    loss_steps: Tensor  # (M,) int64

    @classmethod
    def make_initial(cls, pack: Pack, *, use_initial_files: bool = False) -> "TrainingState":
        """Return the state before the first step, with weights drawn from each member's init stream.

        use_initial_files: whether members with `training.initial` start with the weights of their files instead. Raises
        WeightsError for a file that cannot be used.
        """
        # Initial weights depend on the seed only, so draw them once per seed.
        initial_values = pack.model.make_initial_values(pack.task, pack.seeds_S)
        theta = pack.layout.draw_initial_weights(pack.seeds_S, pack.dtype, initial_values)
        theta = theta if pack.seed_index_M is None else theta[pack.seed_index_M]
        theta = _read_initial_weights(pack, theta) if use_initial_files else theta

        count = len(pack)
        return cls(
            step=torch.zeros((), dtype=torch.int64, device=pack.device),
            theta=theta,
            optimizer=_start_optimizer(pack, theta),
            averages=tuple(source.make_initial_buffers(theta) for source in pack.buffer_sources),
            failed_at=torch.full((count,), -1, dtype=torch.int64, device=pack.device),
            stopped_at=torch.full((count,), -1, dtype=torch.int64, device=pack.device),
            stage=torch.zeros(count, dtype=torch.int64, device=pack.device),
            loss_sum=torch.zeros(count, dtype=torch.float64, device=pack.device),
            loss_steps=torch.zeros(count, dtype=torch.int64, device=pack.device),
        )

    def select(self, indices: Sequence[int]) -> "TrainingState":
        """Return a copy of the state of the members with these indices."""
        index = torch.tensor(indices, dtype=torch.int64, device=self.theta.device)
        return self._map_rows(lambda tensor: tensor[index])

    def to(self, device: torch.device | str) -> "TrainingState":
        """Return the state on a device."""
        return self._map_rows(lambda tensor: tensor.to(device), step=self.step.to(device))

    def concatenate(self, other: "TrainingState") -> "TrainingState":
        """Return a state with the members of this state, then the members of `other`, at the step of `other`."""
        return self._map_rows(lambda first, second: torch.cat([first, second]), other, step=other.step.clone())

    def _map_rows(
        self, change: Callable[..., Tensor], *others: "TrainingState", step: Tensor | None = None
    ) -> "TrainingState":
        """Return the state with `change` applied to every tensor (M, ...) and the same tensors of `others`."""
        states = (self, *others)
        tensor_fields = [state._collect_tensor_fields() for state in states]
        tensors = {
            name: change(*(values[name] for values in tensor_fields))
            for name, tensor in tensor_fields[0].items()
            if tensor.dim()
        }
        averages = tuple(
            tuple(map(change, *buffers)) for buffers in zip(*(state.averages for state in states), strict=True)
        )
        optimizer = {name: change(*(state.optimizer[name] for state in states)) for name in self.optimizer}
        step = self.step.clone() if step is None else step
        return replace(self, **tensors, averages=averages, optimizer=optimizer, step=step)

    def list_tensors(self) -> list[Tensor]:
        """Return every tensor; the first dimension of all but `step` is M."""
        return [
            *self._collect_tensor_fields().values(),
            *(buffer for buffers in self.averages for buffer in buffers),
            *self.optimizer.values(),
        ]

    def make_snapshot(self, pack: Pack, evaluations: Sequence[bytes], compiled: bool) -> Snapshot:
        """Return this state of a pack, and its evaluations so far, as the content of a checkpoint."""
        return Snapshot(
            step=int(self.step),
            arrays=self._name_arrays(pack),
            evaluations=evaluations,
            parameters=pack.layout.shapes,
            compiled=compiled,
        )

    def restore(self, stored: Snapshot, pack: Pack) -> "TrainingState":
        """Return the stored state; called on the initial state of the same pack.

        Raises CheckpointError that names the difference between the stored state and the pack.
        """
        # This initial state has the names and shapes that the stored state must have.
        arrays = fit_state(stored, self._name_arrays(pack), pack.layout.shapes)
        tensors = {name: torch.from_numpy(np.array(value)).to(pack.device) for name, value in arrays.items()}

        # Shared buffers are stored under every label that uses them; the first label is enough.
        labels = [pack.average_labels[pack.buffer_source_indices.index(source)] for source in range(len(self.averages))]
        averages = tuple(
            tuple(tensors[_name_buffer(label, j)] for j in range(len(buffers)))
            for label, buffers in zip(labels, self.averages, strict=True)
        )
        optimizer = {name: tensors[name] for name in self.optimizer}
        return type(self)(
            averages=averages, optimizer=optimizer, **{name: tensors[name] for name in self._collect_tensor_fields()}
        )

    def _collect_tensor_fields(self) -> dict[str, Tensor]:
        """Return the fields that are tensors, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _name_arrays(self, pack: Pack) -> dict[str, NDArray[Any]]:
        """Return every tensor as a named array; buffers that averages share are listed under each of these averages."""
        tensors = {**self._collect_tensor_fields(), **self.optimizer}
        for label, source in zip(pack.average_labels, pack.buffer_source_indices, strict=True):
            tensors.update({_name_buffer(label, j): buffer for j, buffer in enumerate(self.averages[source])})
        return {name: value.cpu().numpy() for name, value in tensors.items()}


def _read_initial_weights(pack: Pack, theta: Tensor) -> Tensor:
    """Return theta (M, P), with stored weights in the rows of members that have `training.initial`."""
    views = pack.layout.split(theta)
    for row, member in enumerate(pack.members):
        initial = member.training.initial
        for name, tensor in initial.read(pack.model, pack.task, member.seed).items() if initial is not None else ():
            views[name][row] = tensor.to(pack.device, pack.dtype)
    # Stored weights may be below a bound that training enforces.
    theta = pack.layout.flatten(views)
    return theta if pack.lower_bounds is None else torch.maximum(theta, pack.lower_bounds)


def _start_optimizer(pack: Pack, theta: Tensor) -> dict[str, Tensor]:
    """Return the state of the optimizer before the first step. Raises ValueError for a reserved name."""
    # A step overwrites the weights in place, and would change a state that shares their memory.
    state = pack.optimizer.make_initial_state(theta, pack.layout)
    state = {name: tensor.clone() if may_share_memory(tensor, [theta]) else tensor for name, tensor in state.items()}

    # A checkpoint has these arrays beside others, so no names may be equal.
    reserved = {field.name for field in fields(TrainingState)}
    if clashing := [name for name in state if name in reserved or name.startswith("averages.")]:
        raise ValueError(
            f"optimizer {pack.optimizer.name}: its state has reserved names {', '.join(clashing)}; "
            f"allowed: all except {', '.join(sorted(reserved))} and averages.*"
        )
    return state


def _name_buffer(label: str, index: int) -> str:
    """Return the name of a buffer of an average in a checkpoint."""
    return f"averages.{label}.{index}"


def compute_averages(pack: Pack, state: TrainingState) -> dict[str, Tensor]:
    """Return the weights (M, P) of every weight average of the pack, by label."""
    return {label: compute_average(pack, label, state.averages, state.theta) for label in pack.average_labels}


def compute_average(pack: Pack, label: str, averages: Averages, theta: Tensor) -> Tensor:
    """Return the weights (M, P) of a weight average. Raises ValueError for a label that the pack does not have."""
    if label not in pack.average_labels:
        hint = suggest_nearest(label, pack.average_labels)
        raise ValueError(f"there is no weight average {label!r}; allowed: {', '.join(pack.average_labels)}{hint}")

    index = pack.average_labels.index(label)
    return pack.averages[index].compute_weights(averages[pack.buffer_source_indices[index]], theta, pack.layout)


def collect_weights(pack: Pack, state: TrainingState) -> Mapping[str, Tensor]:
    """Return weights (M, P) by label: every weight average of the pack, and the training weights as `raw`."""
    return {"raw": state.theta, **compute_averages(pack, state)}
