"""A pack: members of equal structure, with their hyperparameters as tensors.

Shapes: M members, S distinct seeds, P parameters of one member.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from trainers.config.member import MemberConfig
from trainers.errors import PackError
from trainers.optimization.averaging import Average
from trainers.settings.fields import Settings, settings_fields
from trainers.settings.nested import is_nested
from trainers.tasks.task import EvaluationBatch
from trainers.tensors.parameters import ParameterLayout


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

        # Weights of all parameters are one row per member (`ParameterLayout`).
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

        # Without any dropout, no random numbers are drawn for it.
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
            values = [getattr(item, field.name) for item in settings]
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


def __getattr__(name: str) -> Any:
    """Return a name of `training_state`, which was in this module in version 2.0.0."""
    if name not in ("TrainingState", "Averages", "compute_averages", "compute_average", "collect_weights"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("trainers.packs.training_state"), name)
