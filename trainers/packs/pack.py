"""A pack: the hyperparameters of its members as tensors, and the state that training changes.

Shapes: M members, S distinct seeds, P parameters of one member.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.errors import PackError, find_nearest
from trainers.files.checkpoint import Snapshot
from trainers.files.stored_state import fit_state
from trainers.optimization.averaging import Average
from trainers.settings.fields import Settings, settings_fields
from trainers.settings.nested import is_nested
from trainers.tasks.task import EvaluationBatch
from trainers.tensors.parameters import ParameterLayout

Averages = tuple[tuple[Tensor, ...], ...]  # the buffers of every `Pack.buffer_sources`


class Pack:
    """Members of equal structure, ready to be trained as one program."""

    def __init__(self, members: Sequence[MemberConfig], device: torch.device) -> None:
        keys = {member.structural_key for member in members}
        if len(keys) != 1:
            raise PackError(f"a pack of {len(members)} members has {len(keys)} structural keys; allowed: 1")

        # Members have the same structural key, so any of them has the settings that all share.
        first = members[0]
        self.device = device
        self.task = first.task
        self.model = first.model
        self.schedule = first.training.schedule
        self.optimizer = first.training.optimizer
        self.loss = first.training.loss
        self.training = first.training
        self.evaluation = first.evaluation
        self.average_labels = tuple(first.training.averages)
        self.stop_criterion = first.training.stop
        self.curriculum = first.training.curriculum
        self.criteria = tuple(first.criteria.values())
        self.lengths = first.evaluated_lengths
        self.metrics = first.metrics
        self.dtype = torch.float64 if first.training.dtype == "float64" else torch.float32
        self.form: str = self.model.choose_form(self.task)
        self.layout = ParameterLayout(self.model.parameters(self.task))
        self.decay_mask = self.layout.make_decay_mask(device)
        self.lower_bounds = self.layout.make_lower_bounds(device, self.dtype)

        # Hyperparameters that may differ between members become columns (M, 1), so that one program serves all values.
        self._set_members(members)
        self.hyperparameters = self._make_member_columns([member.training for member in members])
        betas = torch.tensor([member.training.betas for member in members], dtype=torch.float64, device=device)
        self.hyperparameters["beta1"], self.hyperparameters["beta2"] = (
            beta.contiguous() for beta in (betas[:, :1], betas[:, 1:])
        )
        self.optimizer_hyperparameters = self._make_member_columns([member.training.optimizer for member in members])
        losses = [member.training.loss for member in members if member.training.loss is not None]
        self.loss_hyperparameters = self._make_member_columns(losses) if losses else {}
        rates = self._make_member_columns([member.model for member in members]).get("dropout")
        has_dropout = rates is not None and any(getattr(member.model, "dropout", 0.0) > 0 for member in members)
        self.dropout_rates = rates[:, 0] if rates is not None and has_dropout else None  # (M,)

        # Buffers are as large as the weights, so averages with the same `source` in every member share them.
        self.averages = tuple(first.training.averages[label] for label in self.average_labels)
        sources = [tuple(member.training.averages[label].source for member in members) for label in self.average_labels]
        distinct_sources = list(dict.fromkeys(sources))
        self.buffer_source_indices = tuple(distinct_sources.index(source) for source in sources)  # by label
        self.buffer_sources = tuple(member_sources[0] for member_sources in distinct_sources)
        self.average_hyperparameters = tuple(map(self._make_average_columns, distinct_sources))
        self.cached_inputs: dict[str, tuple[EvaluationBatch, ...]] = {}  # filled by trainers.packs.evaluation_inputs

    def __len__(self) -> int:
        return len(self.members)

    def _set_members(self, members: Sequence[MemberConfig]) -> None:
        """Set the members, their distinct seeds, and the index of each member's seed."""
        seeds = sorted({member.seed for member in members})
        self.members = tuple(members)
        self.seeds_S = torch.tensor(seeds, dtype=torch.int64, device=self.device)
        self.seeds_M = torch.tensor([member.seed for member in members], dtype=torch.int64, device=self.device)
        seed_indices = [seeds.index(member.seed) for member in members]
        self.seed_index_M = (
            None if seed_indices == list(range(len(seeds))) else torch.tensor(seed_indices, device=self.device)
        )
        # A compiled program serves all packs, so it needs at least two seeds, and always an index.
        self.compiled_seeds_S = self.seeds_S.repeat(2) if len(seeds) == 1 else self.seeds_S
        self.compiled_seed_index_M = torch.tensor(seed_indices, device=self.device)

    def select(self, indices: Sequence[int]) -> "Pack":
        """Return a pack of the members with these indices, which may repeat; the same program serves both packs."""
        # The copy shares settings and layout with this pack; everything per member is replaced below.
        pack = copy(self)
        index = torch.tensor(indices, dtype=torch.int64, device=self.device)
        pack._set_members([self.members[number] for number in indices])

        def select_rows(columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: column[index] for name, column in columns.items()}

        pack.hyperparameters = select_rows(self.hyperparameters)
        pack.optimizer_hyperparameters = select_rows(self.optimizer_hyperparameters)
        pack.loss_hyperparameters = select_rows(self.loss_hyperparameters)
        pack.average_hyperparameters = tuple(map(select_rows, self.average_hyperparameters))
        pack.dropout_rates = None if self.dropout_rates is None else self.dropout_rates[index]
        pack.cached_inputs = {}
        return pack

    @property
    def directions(self) -> dict[str, str]:
        """The better direction of each metric of the task and of the model, by name."""
        return {**self.task.metrics, **self.model.metrics}

    def list_tensors(self) -> list[Tensor]:
        """Return the member hyperparameters and the compiled seeds: tensors whose first dimension is M or S."""
        tables = (self.hyperparameters, self.optimizer_hyperparameters, self.loss_hyperparameters)
        columns = [column for table in (*tables, *self.average_hyperparameters) for column in table.values()]
        seeds = [self.compiled_seeds_S, self.compiled_seed_index_M]
        return [*columns, *seeds, *([] if self.dropout_rates is None else [self.dropout_rates])]

    def _make_member_columns(self, settings: Sequence[Settings]) -> dict[str, Tensor]:
        """Return every scalar member hyperparameter as a column (M, 1): float64, or int64 if all are integers."""
        columns = {}
        for field in settings_fields(type(settings[0])):
            values = [getattr(member, field.name) for member in settings]
            # Nested parts have columns of their own, and `betas` becomes two columns in `__init__`.
            is_plain = not is_nested(field) and not isinstance(values[0], tuple)
            if field.metadata["member"] and is_plain and values[0] is not None:
                dtype = torch.int64 if all(isinstance(value, int) for value in values) else torch.float64
                columns[field.name] = torch.tensor(values, dtype=dtype, device=self.device)[:, None]
        return columns

    def _make_average_columns(self, members: Sequence[Average]) -> dict[str, Tensor]:
        """Return the columns (M, 1) of an average, without hyperparameters that are neutral in all members."""
        defined_in = next(cls for cls in type(members[0]).__mro__ if "update" in vars(cls))
        neutral = vars(defined_in).get("neutral", {})  # a subclass that overrides `update` may need these columns
        unused = {name for name, value in neutral.items() if all(getattr(member, name) == value for member in members)}
        return {name: column for name, column in self._make_member_columns(members).items() if name not in unused}


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
        return self._map_rows(lambda tensor: tensor.to(device), self.step.to(device))

    def concatenate(self, other: "TrainingState") -> "TrainingState":
        """Return a state with the members of this state, then those of `other`, at the step of `other`."""
        first = iter([tensor for tensor in self.list_tensors() if tensor.dim()])
        return other._map_rows(lambda tensor: torch.cat([next(first), tensor]))

    def _map_rows(self, change: Callable[[Tensor], Tensor], step: Tensor | None = None) -> "TrainingState":
        """Return the state with `change` applied to every tensor (M, ...), in the order of `list_tensors`."""
        tensors = {name: change(value) for name, value in self._collect_tensor_fields().items() if value.dim()}
        averages = tuple(tuple(change(buffer) for buffer in buffers) for buffers in self.averages)
        optimizer = {name: change(value) for name, value in self.optimizer.items()}
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
    memory = theta.untyped_storage().data_ptr()
    state = {
        name: tensor.clone() if tensor.untyped_storage().data_ptr() == memory else tensor
        for name, tensor in state.items()
    }

    # Names must differ from those of other arrays in a checkpoint.
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
        close = find_nearest(label, pack.average_labels)
        hint = f"; did you mean {close!r}?" if close else ""
        raise ValueError(f"there is no weight average {label!r}; allowed: {', '.join(pack.average_labels)}{hint}")

    index = pack.average_labels.index(label)
    return pack.averages[index].compute_weights(averages[pack.buffer_source_indices[index]], theta, pack.layout)


def collect_weights(pack: Pack, state: TrainingState) -> Mapping[str, Tensor]:
    """Return weights (M, P) by label: every weight average of the pack, and the training weights as `raw`."""
    return {"raw": state.theta, **compute_averages(pack, state)}
