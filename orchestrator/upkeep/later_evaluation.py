"""Evaluate kept weights of configurations again, with other lengths, samples or task settings than the sweep."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orchestrator.engine.engine import Engine
from orchestrator.errors import DamagedCurves, DamagedWeights, StorageError, SweepLocked, UserError
from orchestrator.interface.measurements import Measurements
from orchestrator.mirror.mirrored_ledger import open_ledger
from orchestrator.plan.recorded_configurations import refuse_changed_results
from orchestrator.record.files.curves import make_evaluation_table, read_part, write_part
from orchestrator.record.files.recorded_modules import import_recorded
from orchestrator.record.files.weights import WeightsLocation, list_kept_weights, open_weights
from orchestrator.record.ledger.lock import describe_running_driver
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.lineage import refuse_imported
from orchestrator.record.state.state import SweepState
from orchestrator.results.later_evaluations import make_evaluation_key
from orchestrator.running.schedulers.inline import use_worker_settings
from orchestrator.text.wording import format_label
from orchestrator.trainer_choice import refuse_program
from search_spaces import ABSENT, SweepFileError
from search_spaces.grammar.parse import apply_override
from search_spaces.grammar.problems import Findings
from search_spaces.grammar.sections import read_key
from trainers.config.member import MemberConfig
from trainers.config.recorded_members import build_recorded_member
from trainers.errors import ConfigError, Problem, WeightsError
from trainers.evaluation.weights_file import list_stored_averages
from trainers.settings.fields import settings_fields

if TYPE_CHECKING:
    from trainers.evaluation.stored import StoredCurves  # imports torch
    from trainers.tasks.task import Task

OPTION_BY_KEY = {"evaluation.lengths": "--lengths", "evaluation.samples": "--samples", "task": "--task "}
LONGER_INPUTS_HINT = (
    "longer inputs may need other settings of the task: --task KEY=VALUE (for the keys: lengthwise list task)"
)


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """The evaluation of a configuration: members with the new settings by seed, None for failed seeds.

    `fields` are the fields of its record that do not depend on the results. `weights` has the kept weights by seed.
    """

    configuration: ConfigurationState
    members: Mapping[int, MemberConfig | None]
    weights: Mapping[int, WeightsLocation]
    fields: Mapping[str, Any]


def evaluate_later(
    folder: Path,
    configurations: Sequence[str | int],
    *,
    lengths: Sequence[int] | None = None,
    samples: int | None = None,
    task: Sequence[str] = (),
) -> list[tuple[str, str, int, tuple[int, ...]]]:
    """Evaluate all seeds and averages of configurations from their kept weights, and record the curves in the ledger.

    `lengths`, `samples` and `task`, such as ("vocabulary=40",), replace the settings of the sweep. Recorded evaluations
    are not repeated. Returns the keys (`make_evaluation_key`) of the evaluations. Nothing is written unless all
    evaluations are possible. Raises UserError for unknown configurations, missing weights and settings that the task or
    model refuses, SweepLocked while the sweep runs, and DamagedWeights with the file.
    """
    # Only one process may write the ledger, and only weights of the engine can be evaluated.
    if owner := describe_running_driver(folder):
        raise SweepLocked(f"{folder}: another driver is running: {owner}; evaluate when it has ended")
    state = SweepState.load(folder)
    refuse_imported(state)
    refuse_program(state.spec, "evaluate")

    # A configuration may be named twice, by number and by config_id.
    named_configurations = [find_configuration(state, name) for name in configurations]
    distinct_configurations = list(
        {configuration.config_id: configuration for configuration in named_configurations}.values()
    )
    import_recorded(state)
    refuse_changed_results(distinct_configurations, "kept weights cannot be evaluated again")
    requests = [
        _make_request(state, configuration, lengths, samples, task) for configuration in distinct_configurations
    ]

    # Evaluate all requests before any record is written, so that a failure leaves the sweep as it was.
    if new_requests := [request for request in requests if not _is_recorded(state, request)]:
        with open_ledger(folder) as ledger:  # also locks out drivers
            results = [_run_request(state, request) for request in new_requests]
            for request, (curves, environment) in zip(new_requests, results, strict=True):
                members = [(request.configuration.config_id, seed) for seed in request.members]
                name = f"later-{request.configuration.config_id}"
                file, sha256 = write_part(folder, name, curves.step, make_evaluation_table(name, members, curves))
                ledger.append("later_evaluation", **request.fields, environment=environment, file=file, sha256=sha256)
        if ledger.problem is not None:
            raise StorageError(ledger.problem)
    return [make_evaluation_key(request.fields) for request in requests]


def _run_request(state: SweepState, request: EvaluationRequest) -> tuple["StoredCurves", dict[str, Any]]:
    """Evaluate a request in this process; return the curves, NaN for members without weights, and its environment."""
    import torch

    from orchestrator.engine.environment import read_environment
    from trainers.evaluation.stored import evaluate_stored

    # Evaluate with the resources of a pack, so that the environment is comparable with the training's.
    resources = state.spec.get("resources", {})
    gpus = float(resources.get("gpus") or 0.0) if torch.cuda.is_available() else 0.0
    members = {seed: member for seed, member in request.members.items() if member is not None}
    averages = request.fields["averages"]
    with use_worker_settings(int(resources.get("cpus") or 1)):
        environment = read_environment(state.modules, gpus=gpus)
        try:
            weights = [{average: request.weights[seed].open(average) for average in averages} for seed in members]
            curves = evaluate_stored([*members.values()], weights, device="cuda" if gpus else "cpu")
        except WeightsError as error:
            raise DamagedWeights(str(error)) from error
        except ConfigError as error:
            raise _make_error(request.configuration, error) from error

    # A failed seed has a row of NaN, as in the curves of the sweep.
    values = np.full((len(request.members), *curves.values_MAKL.shape[1:]), np.nan, dtype=np.float32)
    values[[seed in members for seed in request.members]] = curves.values_MAKL
    return replace(curves, values_MAKL=values), environment


def _make_request(
    state: SweepState,
    configuration: ConfigurationState,
    lengths: Sequence[int] | None,
    samples: int | None,
    task: Sequence[str],
) -> EvaluationRequest:
    """Return the request to evaluate a configuration. Raises UserError if that is impossible."""
    # Lengths are given to each member below, after the task is built; "all" passes the checks until then.
    resolved = copy.deepcopy(configuration.resolved)
    changed_settings = _replace_task(resolved, task)
    evaluation = dict(resolved.get("evaluation", {}))
    evaluation |= {} if lengths is None else {"lengths": "all"}
    resolved["evaluation"] = evaluation | ({} if samples is None else {"samples": samples})

    # Build the members with these settings; failed members have no weights.
    weights = {
        seed: location
        for (config_id, seed), location in list_kept_weights(state).items()
        if config_id == configuration.config_id
    }
    members: dict[int, MemberConfig | None] = {}
    for seed, member in sorted(configuration.members.items()):
        if member.status == "failed":
            members[seed] = None
            continue
        open_weights(state, configuration, seed, "raw")  # raises for missing or damaged weights
        members[seed] = _build_member(configuration, resolved, seed, lengths)

    # Refuse what no member can do: all have the same task and data.
    trained_members = [member for member in members.values() if member is not None]
    if not trained_members:
        raise UserError(f"configuration {format_label(configuration.number)} has no weights: all of its seeds failed")
    first_member = trained_members[0]
    if problems := [*first_member.task.find_data_problems()]:
        raise _make_error(configuration, ConfigError(problem.with_key_prefix("task") for problem in problems))

    # These fields identify an evaluation, so that it is not repeated.
    fields = {
        "config_id": configuration.config_id,
        "seeds": list(members),
        "weights": [weights[seed].sha256 if member is not None else None for seed, member in members.items()],
        "task": changed_settings,
        "samples": first_member.evaluation.samples,
        "step": first_member.training.steps,
        "averages": list(list_stored_averages(first_member)),
        "measured": _list_measurements(first_member)
        .replace_trained_lengths(
            Measurements.from_recorded(state.measurements_by_digest[configuration.measurements_digest])
        )
        .to_fields(),
    }
    return EvaluationRequest(configuration=configuration, members=members, weights=weights, fields=fields)


def _build_member(
    configuration: ConfigurationState, resolved: Mapping[str, Any], seed: int, lengths: Sequence[int] | None
) -> MemberConfig:
    """Return a member with the new settings, evaluated at `lengths` if given. Raises UserError if it is refused."""
    try:
        member = build_recorded_member(resolved, seed)
    except ConfigError as error:
        raise _make_error(configuration, error) from error
    try:
        return member if lengths is None else member.with_evaluated_lengths(lengths)
    except ConfigError as error:
        raise _make_error(
            configuration, error, _suggest_setting(member.task, lengths or ()) or LONGER_INPUTS_HINT
        ) from error


def _replace_task(resolved: dict[str, Any], task: Sequence[str]) -> dict[str, Any]:
    """Replace settings of the task in place; return the changed values by dotted key."""
    # `sections` shares the task with `resolved`, which overrides therefore change.
    original = copy.deepcopy(resolved)
    findings = Findings("--task")
    sections = {"task": resolved["task"]}
    keys = [apply_override(f"task.{text.strip()}", sections, findings) for text in task]
    try:
        findings.raise_any()
    except SweepFileError as error:
        raise UserError(str(error).replace("--set task.", "--task ")) from None
    values = {key: read_key(resolved, key) for key in keys if key is not None}
    return {
        key.removeprefix("task."): value
        for key, value in values.items()
        if value is not ABSENT and value != read_key(original, key)
    }


def _list_measurements(member: MemberConfig) -> Measurements:
    """Return the measurements without metrics that are derived from earlier evaluations."""
    derived = member.task.derived_metrics
    measurements = Engine.list_measurements(member)
    metrics = {name: metric for name, metric in measurements.metrics.items() if metric.base not in derived}
    headline = tuple(name for name in measurements.headline if name not in derived)
    return replace(measurements, averages=list_stored_averages(member), metrics=metrics, headline=headline)


def _is_recorded(state: SweepState, request: EvaluationRequest) -> bool:
    """Return whether the last record of this evaluation has the same weights, and undamaged curves."""
    key = make_evaluation_key(request.fields)
    records = [fields for fields in state.later_evaluations if make_evaluation_key(fields) == key]
    if not records or any(records[-1][name] != request.fields[name] for name in ("seeds", "weights", "averages")):
        return False
    try:
        read_part(state.folder, records[-1]["file"], records[-1]["sha256"])
    except DamagedCurves:
        return False
    return True


def _make_error(configuration: ConfigurationState, error: ConfigError, hint: str = LONGER_INPUTS_HINT) -> UserError:
    """Return an error with the problems under the names of the command's options, and a hint for missing lengths."""
    lines = [str(_rename_to_option(problem)) for problem in error.problems]
    lines += [hint] if any(problem.key == "evaluation.lengths" for problem in error.problems) else []
    return UserError(
        f"configuration {format_label(configuration.number)} cannot be evaluated with these settings:\n  "
        + "\n  ".join(lines)
    )


def _suggest_setting(task: "Task", lengths: Sequence[int]) -> str | None:
    """Return a hint with the setting that gives a task these lengths and the same tokens; None if there is none."""
    # Tasks name the setting of their largest length differently, so try to raise each number.
    for item in settings_fields(type(task)):
        value = getattr(task, item.name)
        if isinstance(value, tuple) and value and all(type(entry) is int for entry in value):
            value = sorted({*value, *lengths} - {*task.trained_lengths})
        elif type(value) is int:
            value += max(lengths) - max(task.lengths)
        with suppress(ConfigError):
            changed_task = replace(task, **{item.name: value})
            formats = [(version.inputs, version.outputs, version.trained_lengths) for version in (task, changed_task)]
            if formats[0] == formats[1] and {*lengths} <= {*changed_task.lengths}:
                return f"for these lengths add --task '{item.name}={value}'"
    return None


def _rename_to_option(problem: Problem) -> Problem:
    """Return a problem with its key replaced by the option of the command that sets it."""
    for key, option in OPTION_BY_KEY.items():
        if problem.key == key:
            return replace(problem, key=option.strip())
        if problem.key.startswith(f"{key}."):
            return replace(problem, key=f"{option}{problem.key.removeprefix(key + '.')}")
    return problem
