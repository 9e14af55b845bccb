"""The engine of `trainers/` as a trainer: packs of stacked members, kept weights, exact resumption."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.code.user_code import DATA, CodeSource
from orchestrator.engine.environment import read_environment
from orchestrator.engine.initial_shares import InitialWeightShares, describe_initial_shares
from orchestrator.errors import UserError
from orchestrator.interface.measurements import Measurements
from orchestrator.interface.trainer import DeclaredObjective, PackCost
from orchestrator.interface.work import PackWork
from orchestrator.machine.processors import limit_gpu_memory
from search_spaces.grammar.sections import ENGINE_SECTIONS
from trainers.check import check_metrics, check_model, check_optimizer, check_task
from trainers.config.member import EvaluationConfig, MemberConfig, TrainingConfig
from trainers.config.recorded_members import build_recorded_member, describe_revisions
from trainers.errors import ConfigError, Problem, describe_briefly
from trainers.evaluation.weights_file import list_stored_averages
from trainers.metrics.recorded_metrics import list_recorded_metrics
from trainers.optimization.averaging import LARGE_SHARE
from trainers.settings import registry
from trainers.settings.fields import Settings, list_technical_keys
from trainers.settings.fields_by_key import walk_settings
from trainers.settings.identity import make_identity
from trainers.training.compiling import estimate_seconds
from trainers.training.cost import Cost, count_training_state_bytes, estimate_member_cost, use_one_thread

if TYPE_CHECKING:
    from trainers.evaluation.results import Reporter
    from trainers.metrics.metric import Metric
    from trainers.models.model import Model
    from trainers.tasks.task import Task

# Beyond this a stacked step gains little, and a lost worker costs more. On an H100 a pack of 1,024 members of a small
# model trained 2.9 times as many members per second as a pack of 64 (tests/benchmarks/README.md). Smaller packs would
# reach their first evaluation sooner but take longer in all: on a CPU 12 members of the quickstart train a fifth fewer
# member-steps per second than 24.
LARGEST_PACK_CPU, LARGEST_PACK_GPU = 64, 1024
MIN_MEMBER_BYTES_GPU = 8 * 2**20  # temporary memory of draws and evaluations, also of the smallest member
# The fixed time of a step, in operations: 2 ms on a CPU, half a millisecond on an H100. In this time a captured step on
# an H100 trains 150 members of a small model (benchmark W1 with 1 to 256 members).
STEP_FLOPS_CPU, STEP_FLOPS_GPU = 1.5e7, 4e8
EVALUATED_ROW_COST = 0.1  # in trained rows: an evaluated row has no gradient, and members share their batches
MAX_MEMBER_BYTES = 64 * 2**30  # several times the memory of a small transformer
MAX_DATA_COPY_BYTES = 64 * 2**20  # larger data files are not copied into the sweep


class Engine:
    """A trainer that stacks all members of a structural key in a single program.

    See `orchestrator.interface.trainer.Trainer` for the methods.
    """

    sections: tuple[str, ...] = ENGINE_SECTIONS
    is_local = False
    inline_curves = False
    max_equal_failures: int | None = None
    member_class: type[Settings] = MemberConfig

    # Functions of `trainers` that already do what the interface asks for.
    rebuild = staticmethod(build_recorded_member)
    list_corrections = staticmethod(describe_revisions)
    estimate_seconds = staticmethod(estimate_seconds)

    # Sections and members ---------------------------------------------------------------------------------------------

    def build(self, sections: Mapping[str, Any], *, recorded: bool) -> MemberConfig:
        """Return the member of these sections with seed 0. Raises ConfigError."""
        return MemberConfig.from_dict({**sections, "seed": 0}, recorded=recorded).pin_data()

    @staticmethod
    def list_measurements(member: MemberConfig) -> Measurements:
        """Return the metrics, lengths and averages of a member, as the current code computes them."""
        # A distribution without trained lengths, such as a test set of its own, is only evaluated.
        task = member.task
        trained_lengths = {
            distribution.name: tuple(sorted(distribution.trained_lengths))
            for distribution in task.distributions
            if distribution.trained_lengths
        }
        return Measurements(
            lengths=member.evaluated_lengths,
            averages=tuple(member.training.averages),
            metrics=member.metrics,
            longest_trained={name: lengths[-1] for name, lengths in trained_lengths.items()},
            headline=(*task.headline, *member.model.recorded_metrics, *member.evaluation.added_metrics),
            trained=trained_lengths,
            technical=tuple(list_technical_keys(member)),
            axis=member.evaluation.axis,
            start_shares=_compute_initial_shares(member),
            task_module=type(task).__module__.partition(".")[0],
        )

    def read_declared_objective(self, sections: Mapping[str, Any]) -> DeclaredObjective | None:
        """Return the metrics, averages and lengths of these sections; None if the task cannot be built."""
        try:
            task = registry.build("task", _expand_class_name(sections["task"]))
        except ConfigError:
            return None

        # `build` reports problems of these sections; the direction of the metric is known without them.
        averages = lengths = None
        added_metrics: Mapping[str, Metric] = {}
        with suppress(ConfigError, TypeError, AttributeError, ValueError):  # a section that is no mapping
            keys = [node.key for node in walk_settings(TrainingConfig, sections["training"], [])]
            averages = tuple(key.removeprefix("averages.") for key in keys if key.startswith("averages.")) or ("raw",)
            evaluation = EvaluationConfig.from_mapping(sections["evaluation"])
            lengths = tuple(sorted(task.lengths if isinstance(evaluation.lengths, str) else evaluation.lengths))
            added_metrics = evaluation.added_metrics

        metrics = list_recorded_metrics(
            task, _read_model_metrics(sections["model"]), added_metrics, lengths or task.lengths
        )
        trained_distribution = task.distributions[0].name
        return DeclaredObjective(metrics=metrics, averages=averages, lengths=lengths, distribution=trained_distribution)

    # Before a sweep starts --------------------------------------------------------------------------------------------

    def find_local_problems(self, members: Iterable[MemberConfig]) -> list[Problem]:
        """Return a problem for each data file that is missing on this machine or differs from the record."""
        tasks = dict.fromkeys(member.task for member in members)
        return [problem.with_key_prefix("task") for task in tasks for problem in task.find_data_problems()]

    def find_initial_weight_problems(self, member: MemberConfig, seeds: Collection[int]) -> list[Problem]:
        """Return a problem for each seed whose file of initial weights is missing or does not fit."""
        return list(member.find_initial_weight_problems(seeds))

    @use_one_thread()
    def find_trial_problems(self, member: MemberConfig, folder: Path | None) -> list[tuple[str, str]]:
        """Return (key, problem) of the user's classes and added metrics, each run for a step."""
        if problems := self._try_parts(member):
            return problems
        return [(f"evaluation.metrics.{label}", problem) for label, problem in check_metrics(member)]

    def _try_parts(self, member: MemberConfig) -> list[tuple[str, str]]:
        """Return the problems of the first of the user's classes that has any; later ones may fail because of it."""
        # Try task and optimizer alone first, so that their problems are not blamed on the model.
        task, model = member.task, member.model
        if _is_user_code(task) and (problems := check_task(task, member.evaluated_lengths)):
            return [("task.name", f"task {task.name}: {problem}") for problem in problems]
        optimizer = member.training.optimizer
        if _is_user_code(optimizer) and (problems := check_optimizer(optimizer)):
            return [("training.optimizer", f"optimizer {optimizer.name}: {problem}") for problem in problems]

        # The model is tried without added metrics, which `find_trial_problems` reports under their own keys.
        without_metrics = replace(member, evaluation=replace(member.evaluation, metrics=None)).to_dict()
        loss = member.training.loss
        if loss is not None and _is_user_code(loss) and (problems := check_model(without_metrics)):
            return [("training.loss", f"loss {loss.name}: {problem}") for problem in problems]
        parts = [model, *(value for value in vars(model).values() if isinstance(value, Settings))]
        if not any(map(_is_user_code, (task, *parts))):
            return []
        names = " with ".join(part.name for part in parts)
        return [("model.name", f"model {names}: {problem}") for problem in check_model(without_metrics)]

    def find_sources(self, members: Iterable[MemberConfig], folder: Path | None) -> list[CodeSource]:
        """Return the data files of all tasks; up to MAX_DATA_COPY_BYTES of a folder are copied, else read in place."""
        files: dict[Path, dict[str, str]] = {}
        for task in dict.fromkeys(member.task for member in members):
            root, stored = task.stored_files()
            files.setdefault(root, {}).update(stored)
        return [
            CodeSource(module=DATA, root=root, installed=not _can_be_copied(root, stored), files=stored)
            for root, stored in files.items()
            if stored
        ]

    def find_warnings(self, members: Iterable[MemberConfig], folder: Path | None) -> list[tuple[str, str]]:
        """Return (key, warning) pairs.

        They are about slow packs, settings without effect, averages still close to the initial weights, and parameters
        missing from `training.initial`.
        """
        # N members that are not stacked take N times as long, which the user would notice only after hours.
        members = list(members)
        models_and_tasks = dict.fromkeys((member.model, member.task) for member in members)
        reasons = ((model, model.explain_loop(task)) for model, task in models_and_tasks)
        loop_warnings = [
            (
                "model",
                f"model {getattr(model, 'module', model.name)}: {reason}: members of a pack are trained one after "
                "another; N members take about N times as long as 1",
            )
            for model, reason in reasons
            if reason is not None
        ]

        # A setting without effect is a mistake only if no member uses it: the optimizer may be searched.
        keys = [set(member.training.list_unused_keys()) for member in members]
        unused_warnings = [
            (f"training.{key}", f"training.{key} has no effect with the optimizers of this sweep")
            for key in sorted(set.intersection(*keys) if keys else ())
        ]
        explanations = [
            loss.explain_no_effect(getattr(member.model, "dropout", 0.0) > 0 or member.model.draws_random_numbers)
            for member in members
            if (loss := member.training.loss)
        ]
        if explanations and len(explanations) == len(members) and all(explanations):
            unused_warnings.append(("training.loss", explanations[0]))

        # An average of initial weights and a partly read file train without an error; only the curves would show them.
        shares = describe_initial_shares((member.steps, _compute_initial_shares(member)) for member in members)
        average_warnings = ((f"training.averages.{label}", sentence) for label, sentence in shares.items())
        partial_starts = filter(None, (member.describe_partial_initial_weights() for member in members))
        return [
            *loop_warnings,
            *unused_warnings,
            *average_warnings,
            *(("training.initial", text) for text in partial_starts),
        ]

    # Costs ------------------------------------------------------------------------------------------------------------

    def find_oversized_parts(self, member: MemberConfig) -> list[Problem]:
        """Return a problem if a model with its optimizer state, or a batch, takes more than MAX_MEMBER_BYTES.

        A batch is counted with a single token in each row, because drawing it could take minutes.
        """
        rows = math.ceil(member.training.batch_size / member.training.accumulation)
        sizes = {
            "model": (
                _count_training_state_bytes_or_zero(member),
                "with this task, the weights, gradient and optimizer state of one seed take",
            ),
            "training.batch_size": (8 * rows, "the inputs of one batch take at least"),
        }

        allowed = f"at most {MAX_MEMBER_BYTES / 2**30:.0f} GiB"
        return [
            Problem(key=key, message=f"{description} {size / 2**30:,.0f} GiB of memory", allowed=allowed)
            for key, (size, description) in sizes.items()
            if size > MAX_MEMBER_BYTES
        ]

    def count_kept_bytes(self, member: MemberConfig) -> int:
        """Return the bytes of a member's kept weights, over all of its averages."""
        weights_bytes = member.training.itemsize * _count_parameters(member.model, member.task)
        return weights_bytes * len(list_stored_averages(member))

    def estimate_pack_cost(self, member: MemberConfig, gpus: float) -> PackCost:
        """Return the cost of packs of a structure in operations: a fixed part, and a part for each member."""
        # A stacked pack pays the fixed time of a step once; a model that loops over members pays it for each.
        min_bytes, max_members = (MIN_MEMBER_BYTES_GPU, LARGEST_PACK_GPU) if gpus else (1, LARGEST_PACK_CPU)
        cost = estimate_cost_or_refuse(member)
        fixed_flops = (STEP_FLOPS_GPU if gpus else STEP_FLOPS_CPU) * member.training.steps
        looped_flops = fixed_flops if member.model.explain_loop(member.task) else 0.0
        return PackCost(
            max_members=max_members,
            bytes_per_member=max(min_bytes, cost.bytes_per_member),
            per_pack=fixed_flops - looped_flops,
            per_member=cost.flops_per_step * count_equivalent_steps(member) + looped_flops,
        )

    # Comparisons ------------------------------------------------------------------------------------------------------

    def describe_parameters(self, resolved: Mapping[str, Any]) -> str | None:
        """Return the declared parameters of a model; None if it cannot be built or overrides `make_initial_values`."""
        from trainers.models.model import Model

        # A bug fix since the recording may have changed the parameters.
        try:
            if describe_revisions(resolved):
                return None
            member = build_recorded_member(resolved, 0)
        except ConfigError:
            return None

        # With `make_initial_values` of its own, a model may draw other weights for the same parameters.
        if type(member.model).make_initial_values is not Model.make_initial_values:
            return None
        initial = member.training.initial
        return repr((tuple(member.model.parameters(member.task)), initial and make_identity(initial)))

    # Training ---------------------------------------------------------------------------------------------------------

    def read_environment(self, work: PackWork) -> dict[str, str | int | bool]:
        """Return the environment of this process: versions, device, and the threads that `train_members` will use."""
        return {**read_environment(work.modules, gpus=work.gpus), "threads": work.cpus}

    def train_members(self, work: PackWork, members: list[MemberConfig], reporter: Reporter, checkpoints: Any) -> None:
        """Train a pack in this process, resuming from its newest good checkpoint if there is one."""
        import torch  # takes a second or more

        from trainers.training.loop import train

        # Use only this pack's share of threads and GPU memory; other packs run on the same machine.
        torch.set_num_threads(work.cpus)
        if work.gpus and torch.cuda.is_available():
            limit_gpu_memory(work.gpus)

        train(
            members,
            reporter,
            ids=[(config_id, seed) for config_id, seed in work.member_ids],
            checkpoints=checkpoints,
            weights=Path(work.weights_folder) if work.weights_folder else None,
            device="cuda" if work.gpus else "cpu",
            start_checkpoints=choose_start_checkpoints(work.checkpoint_sources),
            prune_at=work.prune_at,
        )


def _compute_initial_shares(member: MemberConfig) -> InitialWeightShares:
    """Return (share, remedy) of each average that consists mostly of initial weights even after the last step."""
    steps = member.steps
    averages = member.training.averages
    shares = {label: average.compute_initial_share(steps) for label, average in averages.items()}
    large_shares = {label: share for label, share in shares.items() if share > LARGE_SHARE}
    return {label: (share, averages[label].suggest_lower_share(steps)) for label, share in large_shares.items()}


def choose_start_checkpoints(
    checkpoint_sources: Sequence[Sequence[tuple[str, str, int]]],
) -> list[tuple[Path, tuple[str, int]]] | None:
    """Return (folder, (config_id, seed)) of the first sources whose folders all have a checkpoint, else of the last.

    checkpoint_sources: possible checkpoints, best first, as (folder, config_id, seed) of every member. None if empty.
    """
    paths = [
        [(Path(folder), (config_id, seed)) for folder, config_id, seed in members] for members in checkpoint_sources
    ]
    complete = (pairs for pairs in paths if all(any(folder.glob("step-*.ckpt")) for folder, _ in pairs))
    return next(complete, paths[-1] if paths else None)


def estimate_cost_or_refuse(member: MemberConfig) -> Cost:
    """Return the cost of a member. Raises UserError if its task and model cannot take a step."""
    try:
        return estimate_member_cost(member)
    except (Exception, SystemExit) as error:
        modules = sorted({type(part).__module__ for part in (member.task, member.model) if _is_user_code(part)})
        advice = f"; for the cause run python -m trainers.check {' '.join(modules)}" if modules else ""
        raise UserError(
            f"task {member.task.name} and model {member.model.name} cannot take a step: "
            f"{describe_briefly(error, line=-1)}{advice}"
        ) from error


def count_equivalent_steps(member: MemberConfig) -> float:
    """Return the training steps of a member, plus its evaluations expressed in steps of the same cost."""
    steps = member.training.steps
    evaluation = member.evaluation
    rows = evaluation.samples * len(member.evaluated_lengths) * len(member.training.averages) * member.evaluation_count
    return steps + EVALUATED_ROW_COST * member.evaluation_passes * rows / member.training.batch_size


@lru_cache(maxsize=1024)
def _count_parameters(model: Model, task: Task) -> int:
    """Return the number of parameters of a model; 0 if user code raises, which the trial of the model reports."""
    try:
        return sum(math.prod(parameter.shape) for parameter in model.parameters(task))
    except Exception:
        return 0


def _read_model_metrics(section: Any) -> Mapping[str, str]:
    """Return the metrics of a model with their directions; empty if it cannot be built."""
    try:
        return dict(registry.build("model", _expand_class_name(section)).metrics)
    except ConfigError:
        return {}


def _expand_class_name(value: Any) -> Any:
    """Return a section as a mapping; a section that the space draws may be a class name alone."""
    return {"name": value} if isinstance(value, str) else value


def _can_be_copied(root: Path, names: Iterable[str]) -> bool:
    """Return whether all files are below `root`, and together at most MAX_DATA_COPY_BYTES large."""
    paths = [Path(name) for name in names]
    is_below = not any(path.is_absolute() or ".." in path.parts for path in paths)
    return is_below and sum((root / path).stat().st_size for path in paths) <= MAX_DATA_COPY_BYTES


def _is_user_code(settings: Settings) -> bool:
    """Return whether a task, model or other part is of a class outside of `trainers`."""
    return not type(settings).__module__.startswith("trainers.")


def _count_training_state_bytes_or_zero(member: MemberConfig) -> int:
    """Return the bytes of one member in training; 0 if they are unknown, which the trial of the model reports."""
    try:
        return count_training_state_bytes(member)
    except Exception:  # an error of user code, or a missing corpus
        return 0
