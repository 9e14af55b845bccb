"""Models of your own as plain torch modules, called for all members at once by torch.func.vmap if it works.

A module takes tokens (B, T) and returns logits (B, T, V) of a member. A module that vmap cannot run, such as nn.GRU, is
called for one member after another. Further parameters of `forward` are passed by name: ids, groups and lengths of the
batch, and training, whether this is a training step. nn.Dropout and `trainers.dropout` draw keyed random numbers; a
module that draws torch's random numbers, which members would share, is rejected before training. Values recorded by
`trainers.record` can be metrics.
Shapes: S seeds, M members, B rows, T positions, V output tokens.
"""

import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import lru_cache

import torch
from torch import Tensor, nn

from trainers.errors import Problem, describe_briefly, find_nearest, locate_in_user_code
from trainers.models.keyed_dropout import replace_dropout
from trainers.models.model import Model
from trainers.models.vmap_call import call_members, find_batch_parameters
from trainers.models.vmap_trial import ModuleSizes, Trial, try_module
from trainers.positions.context import Recorder
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter

_STACKED, _LOOPED = "vmapped", "looped"


class Vmapped(Model):
    """Base of models that are a torch module; a subclass declares settings, and `build` makes the module.

    A member starts with the weights of the module built after `torch.manual_seed(seed)`. Weight decay acts on matrices
    except torch.nn.Embedding. Every dropout has its own rate, or the rate of the member if the subclass has the field
    `dropout`, declared with `trainers.models.dropout.dropout_rate()`. metrics: the recorded values that are metrics,
    with their better direction.
    """

    compiling = "never"  # a module may have graph breaks
    supports_groups = True  # if the module asks for them, which `find_task_problems` checks
    supports_bfloat16 = False  # the module chooses its dtypes itself

    @abstractmethod
    def build(self, inputs: int, outputs: int, positions: int) -> nn.Module:
        """Return the module for these numbers of input tokens, output tokens and positions."""

    def choose_form(self, task: Task) -> str:
        """Return how members are computed and the sizes of the module, as text for `logits`, which has no task."""
        return " ".join(map(str, (_STACKED if self.explain_loop(task) is None else _LOOPED, *_get_sizes(task))))

    def explain_loop(self, task: Task) -> str | None:
        """Return why vmap cannot run the module, None if it can."""
        return _try_build(self, _get_sizes(task), task.causal).loop_reason

    def find_task_problems(self, task: Task) -> Iterator[Problem]:
        """Yield problems of the module with this task, by calling it on a few tokens."""
        key = "module" if "module" in type(self).__dataclass_fields__ else "name"
        trial = _try_build(self, _get_sizes(task), task.causal)
        for message in trial.problems:
            yield Problem(key=key, message=message)
        if trial.problems:
            return

        # The trial passes only tokens, so it cannot check what this task and these settings need.
        if task.has_groups and "groups" not in find_batch_parameters(_build_template(self, _get_sizes(task))):
            message = f"its forward has no parameter groups, but the task {task.name} has token groups"
            yield Problem(key=key, message=message, allowed="forward(self, tokens, groups)")
        rate = getattr(self, "dropout", 0.0) if self._has_member_dropout else 0.0
        if rate > 0.0 and not trial.has_dropout:
            message = f"is {rate:g}, but the module drops nothing"
            allowed = "0, or a module with nn.Dropout"
            yield Problem(key="dropout", given=rate, message=message, allowed=allowed)
        yield from self._find_metric_problems(key, task, trial.recorded)

    def _find_metric_problems(self, key: str, task: Task, recorded: Mapping[str, str | None]) -> Iterator[Problem]:
        """Yield problems of `metrics`; recorded: as in `Trial.recorded`."""
        if self.recorded_metrics and type(task).score_batch is not Task.score_batch:
            message = f"has metrics of a pass over a batch, but the task {task.name} scores generated texts"
            yield Problem(key=key, message=message, allowed="a module without metrics")
        for name in self.recorded_metrics:
            message = f"the metric {name} {recorded.get(name)}"
            allowed = "(), (rows,) or (rows, length)"
            close = None
            if name not in recorded:
                message = f"does not record its metric {name}"
                allowed = f"record({name!r}, value) in `forward`"
                close = find_nearest(name, recorded)
            elif recorded[name] is None:
                continue
            yield Problem(key=key, message=message, allowed=allowed, nearest=close)

    @property
    def recorded_metrics(self) -> tuple[str, ...]:
        """The metrics of the module, unless a subclass overrides `measure_rows`."""
        return tuple(self.metrics) if type(self).measure_rows is Model.measure_rows else ()

    @property
    def draws_random_numbers(self) -> bool:
        """Whether dropouts may have rates of their own."""
        return not self._has_member_dropout

    @property
    def _has_member_dropout(self) -> bool:
        return "dropout" in type(self).__dataclass_fields__

    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """Return the parameters of the module, by their names in it."""
        module = _build_template(self, _get_sizes(task))
        # A table of embeddings is a matrix, but no map between layers.
        tables = {id(layer.weight) for layer in module.modules() if isinstance(layer, nn.Embedding)}
        return tuple(
            Parameter(name=name, shape=tuple(value.shape), std=0.0, decay=is_map, hidden=is_map)
            for name, value in module.named_parameters()
            for is_map in (value.dim() > 1 and id(value) not in tables,)
        )

    def make_initial_values(self, task: Task, seeds_S: Tensor) -> Mapping[str, Tensor]:
        """Return the initial weights of the module built after `torch.manual_seed(seed)`, for every seed."""
        sizes = _get_sizes(task)
        # The module draws from torch's own generator, so every seed needs a build.
        weights_of_seeds = [dict(_build_seeded(self, sizes, seed).named_parameters()) for seed in seeds_S.tolist()]
        return {
            name: torch.stack([parameters[name].detach() for parameters in weights_of_seeds]).to(seeds_S.device)
            for name in weights_of_seeds[0]
        }

    def other_tensors(self, task: Task) -> Mapping[str, Tensor | str]:
        """Return the buffers in the state_dict of the module, and the further names of tied parameters."""
        module = _build_template(self, _get_sizes(task))
        # A tied parameter has several names in the state_dict, and only the first in `named_parameters`.
        first = {id(value): name for name, value in module.named_parameters()}
        stored: Mapping[str, Tensor] = module.state_dict(keep_vars=True)
        return {
            name: first.get(id(value), value)
            for name, value in stored.items()
            if first.get(id(value)) != name and isinstance(value, Tensor)
        }

    def count_operations(self, task: Task, rows: int, positions: int) -> float:
        """Return roughly twice the parameters at every token, without embedding tables."""
        return 2.0 * rows * positions * sum(parameter.size for parameter in self.parameters(task) if parameter.decay)

    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        """Return logits (M, B, T, V) at every position.

        Raises ValueError for a batch with groups if `forward` has no such parameter.
        """
        # A module without the parameter would silently let tokens see other groups.
        sizes = ModuleSizes(*map(int, form.split()[1:]))
        module = _build_template(self, sizes)
        if batch.groups is not None and "groups" not in find_batch_parameters(module):
            raise ValueError(f"{self.name}: forward has no parameter groups, but the batch has groups; use a decoder")

        # In evaluation a module has no random numbers, unlike the encodings of a transformer.
        weight = next(iter(weights.values()))
        buffers = _copy_buffers(self, sizes, weight.device, weight.dtype)
        training = noise is None or noise.training
        stacked = form.startswith(_STACKED)
        noise = noise if training else None
        return call_members(module, weights, buffers, batch, noise, record, training=training, stacked=stacked)


@register("model", "vmapped")
class NamedModule(Vmapped):
    """A torch module of your own, by the name of its class, which is built as Net(inputs, outputs, positions)."""

    module: str = setting(help="the class, such as my_models.Net; list my_models under `imports`")

    @property
    def metrics(self) -> Mapping[str, str]:
        """The attribute `metrics` of the class if it is a mapping, else no metrics."""
        try:
            metrics = getattr(self._find_class(), "metrics", {})
        except (LookupError, TypeError):  # reported by `build`
            return {}
        return metrics if isinstance(metrics, Mapping) else {}

    def build(self, inputs: int, outputs: int, positions: int) -> nn.Module:
        """Return Net(inputs, outputs, positions). Raises LookupError or TypeError if `module` names no torch module."""
        built: nn.Module = self._find_class()(inputs, outputs, positions)
        return built

    def _find_class(self) -> type[nn.Module]:
        """Return the class. Raises LookupError or TypeError."""
        module, _, name = self.module.rpartition(".")
        if module not in sys.modules:
            raise LookupError(f"{module or self.module!r} is not imported; list the module under `imports`")
        cls = getattr(sys.modules[module], name, None)
        if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
            raise TypeError(f"{module} has no class {name} that derives from torch.nn.Module")
        return cls


def _get_sizes(task: Task) -> ModuleSizes:
    """Return the sizes with which the module of a task is built."""
    return ModuleSizes(task.inputs, task.outputs, task.positions)


def _build_seeded(model: Vmapped, sizes: ModuleSizes, seed: int) -> nn.Module:
    """Return the module built after `torch.manual_seed(seed)`, with keyed dropout."""
    # The user's own random numbers must not depend on how often modules are built.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return replace_dropout(model.build(*sizes))


@lru_cache(maxsize=32)
def _build_template(model: Vmapped, sizes: ModuleSizes) -> nn.Module:
    """Return a module of these sizes, cached; its own weights are not used."""
    return _build_seeded(model, sizes, 0)


@lru_cache(maxsize=32)
def _copy_buffers(model: Vmapped, sizes: ModuleSizes, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the buffers, which all members share, on a device; floating-point buffers in the dtype of the weights."""
    buffers = _build_template(model, sizes).named_buffers()
    return {name: buffer.to(device, dtype if buffer.is_floating_point() else buffer.dtype) for name, buffer in buffers}


@lru_cache(maxsize=256)
def _try_build(model: Vmapped, sizes: ModuleSizes, causal: bool) -> Trial:
    """Return the result of a trial of the module, cached; an error of `build` is a problem."""
    try:
        # The second module shows which buffers are random.
        module = _build_template(model, sizes)
        second_module = _build_seeded(model, sizes, 1)
    except (Exception, SystemExit) as error:  # any error of the user's code
        return Trial((f"the module cannot be built: {describe_briefly(error)}{locate_in_user_code(error)}",))
    trial = try_module(module, second_module, sizes, causal, model._has_member_dropout)
    return trial._replace(problems=tuple(f"{type(module).__name__}: {problem}" for problem in trial.problems))
