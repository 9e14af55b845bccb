"""Train configurations of a sweep for more steps, from their checkpoints, in a new sweep beside it.

The number of steps is part of a configuration's identity, so the new sweep has configurations of its own. Its members
equal, bit for bit, the members of a sweep with this many steps from the beginning; other cases are refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.errors import UserError
from orchestrator.interface.work import CHECKPOINTS_FOLDER, get_checkpoint_folder
from orchestrator.plan.configurations import Configuration, make_configurations
from orchestrator.plan.optuna_draws import count_configurations, draw_configurations
from orchestrator.plan.recorded_configurations import rebuild_member
from orchestrator.record.files.recorded_modules import import_recorded
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.lineage import CONTINUES, refuse_imported
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.session.session import Outcome
from orchestrator.storage import fetch_missing
from orchestrator.sweep.derived_sweep import DerivedSweep, make_listed_spec, run_derived
from orchestrator.sweep.selection import choose_rows, refuse_top_and_configurations, refuse_unfinished
from orchestrator.text.wording import format_count, format_label, format_ranges
from orchestrator.trainer_choice import refuse_program
from search_spaces import SweepSpec, dump_yaml, parse_sweep


def extend_steps(
    folder: Path,
    console: Console,
    plan: Callable[[SweepState], DerivedSweep],
    *,
    max_seconds: float | None = None,
) -> Outcome:
    """Train configurations of the sweep in `folder` for more steps, in a new sweep beside it.

    `plan` is `plan_more_steps` with its options bound. Raises what `plan` and `run_sweep` raise, before writing.
    """
    folder = folder.resolve()
    fetch_missing(folder / CHECKPOINTS_FOLDER)
    return run_derived(folder, console, plan, max_seconds=max_seconds)


def plan_more_steps(
    state: SweepState,
    steps: int,
    *,
    top: int | None = None,
    labels: Sequence[str] = (),
    name: str | None = None,
    overrides: Sequence[str] = (),
) -> DerivedSweep:
    """Return the sweep that trains configurations of this sweep up to `steps`; writes nothing.

    It trains the `top` best configurations, those with `labels`, or all. Raises what `make_listed_spec` raises, and
    UserError with the reason if the sweep is unfinished or has no checkpoints, or if more steps would change its first
    steps.
    """
    # Refuse sweeps that cannot be trained further, before anything is computed.
    refuse_imported(state)
    refuse_program(state.spec, f"--steps {steps}")
    import_recorded(state)
    summary = summarize(state)
    refuse_unfinished(summary, f"{state.folder}: --steps {steps}")
    refuse_top_and_configurations(top, labels, "get more steps")

    # More steps also help configurations with an infinite score, which the ranking of other commands leaves out.
    configurations = state.configurations
    succeeded_ids = {config_id for config_id in configurations if configurations[config_id].has_succeeded}
    if not succeeded_ids:
        raise UserError(f"{state.folder}: --steps {steps}: no configuration succeeded; nothing to train further")
    rows = choose_rows(summary, state, len(succeeded_ids) if top is None else top, labels, succeeded_ids)
    old_configurations = [state.configurations[row.config_id] for row in rows]

    # The longer training must begin like the shorter one: a schedule, for example, may depend on the number of steps.
    header = {
        "name": name or f"{state.name}-steps-{steps}",
        "description": f"{state.name} up to step {steps}: {', '.join(format_label(row.number) for row in rows)}.",
        "seeds": list(state.spec["seeds"]),
    }
    listed = make_listed_spec(state, rows, header, overrides, "extended")
    spec = _set_steps(listed, steps, f"{state.folder}: --steps {steps}", [format_label(row.number) for row in rows])
    new_configurations = make_configurations(
        spec, [(drawn.number, drawn.values) for drawn in draw_configurations(spec, range(count_configurations(spec)))]
    )
    device = "cuda" if spec.resources.gpus else "cpu"
    for old, new in zip(old_configurations, new_configurations, strict=True):
        _refuse_dependence(state, old, new, device)

    # Without a checkpoint all members would start from step 0: nothing would be gained over a new sweep.
    checkpoint_steps = sorted(
        {step for configuration in old_configurations for step in _list_checkpoint_steps(state, configuration)}
    )
    if not checkpoint_steps:
        raise UserError(
            f"{state.folder}: --steps {steps}: no checkpoints: not written (resources.checkpoint_seconds) or deleted; "
            f"{_describe_rerun(steps)}"
        )

    # The first record of the new sweep names the members that each of its members continues.
    origin = _make_origin(state, steps, list(zip(old_configurations, new_configurations, strict=True)))
    first, last = checkpoint_steps[0], checkpoint_steps[-1]
    at_steps = f"step {first}" if first == last else f"steps {first} to {last}"
    messages = (
        f"{format_count(len(rows), 'configuration')} of {state.name} with seeds {format_ranges(spec.seeds)} "
        f"will be trained up to step {steps}, from checkpoints at {at_steps}",
        f"sweep {state.name} stays as it is; the new one is {spec.name}",
    )
    return DerivedSweep(
        spec=spec,
        origin={CONTINUES: origin},
        messages=(*messages, *_describe_untrained(old_configurations, spec.seeds)),
    )


def _make_origin(
    state: SweepState, steps: int, pairs: Sequence[tuple[ConfigurationState, Configuration]]
) -> dict[str, Any]:
    """Return the provenance of a sweep that trains the second configuration of each pair from the first."""
    # If new configurations have the same id, the first one counts, so it is written last.
    continued = {
        new.config_id: {
            "config_id": old.config_id,
            "packs": {str(seed): member.pack_id for seed, member in old.members.items()},
        }
        for old, new in reversed(pairs)
    }
    return {
        "sweep": state.name,
        "spec_hash": state.spec_hash,
        "folder": state.folder.resolve().name,
        "steps": steps,
        "configurations": continued,
    }


def _describe_untrained(configurations: Sequence[ConfigurationState], seeds: Sequence[int]) -> list[str]:
    """Return notes about seeds that are not trained further, and members that start from step 0 because of a race."""
    skipped_seeds = {
        format_label(configuration.number): sorted(set(configuration.members) - set(seeds))
        for configuration in configurations
    }
    notes = [
        f"note: skipping seeds {format_ranges(skipped)} of {name}: not every configuration has them"
        for name, skipped in skipped_seeds.items()
        if skipped
    ]

    # A race eliminates configurations before they have all seeds.
    missing_counts = {
        format_label(configuration.number): sum(seed not in configuration.members for seed in seeds)
        for configuration in configurations
    }
    if not (number := sum(missing_counts.values())):
        return notes
    names = ", ".join(name for name, count in missing_counts.items() if count)
    return [
        *notes,
        f"note: {number} of {format_count(len(configurations) * len(seeds), 'member')} start from step 0: {names} were "
        "eliminated before the race had all seeds; exclude them with --top or --configuration",
    ]


def _set_steps(spec: SweepSpec, steps: int, subject: str, labels: Sequence[str]) -> SweepSpec:
    """Return the specification with this number of steps in every listed configuration.

    Raises UserError if two configurations differ only in steps; its message has `subject` and their `labels`.
    """
    resolved = spec.resolved()
    resolved["training"]["steps"] = steps
    for values in resolved["search"]["listed"]:
        if "training.steps" in values:
            values["training.steps"] = steps
        if "training" in values:
            values["training"]["steps"] = steps
    label_by_values = dict[str, str]()
    for name, values in zip(labels, resolved["search"]["listed"], strict=True):
        configuration = values if "training" in values else {**values, "training.steps": steps}
        if (twin := label_by_values.setdefault(dump_yaml(configuration), name)) != name:
            problem = f"{twin} and {name} differ only in training.steps"
            raise UserError(f"{subject}: {problem}; choose one with --configuration")
    return parse_sweep(dump_yaml(resolved), spec.format_location("training.steps"), name=spec.name).mark_recorded()


def _refuse_dependence(state: SweepState, old: ConfigurationState, new: Configuration, device: str) -> None:
    """Raise UserError if more steps would change the first steps of a configuration's training."""
    from trainers.training.start_checkpoints import explain_step_dependence

    member, steps = rebuild_member(old), new.build_member(0).training.steps
    subject = f"{state.folder}: --steps {steps}: {format_label(old.number)}"
    if steps <= member.training.steps:
        raise UserError(f"{subject} already has {member.training.steps} steps; allowed: > {member.training.steps}")
    if reasons := list(explain_step_dependence(member, replace(new.build_member(0), seed=member.seed), device)):
        raise UserError(f"{subject} cannot be trained further: {'; '.join(reasons)}; {_describe_rerun(steps)}")


def _list_checkpoint_steps(state: SweepState, configuration: ConfigurationState) -> list[int]:
    """Return the steps of the newest checkpoints of the members."""
    folders = [get_checkpoint_folder(state.folder, member.pack_id) for member in configuration.members.values()]
    newest = [max(folder.glob("step-*.ckpt"), default=None) for folder in folders]
    return [int(path.stem.removeprefix("step-")) for path in newest if path is not None]


def _describe_rerun(steps: int) -> str:
    """Return the advice to train with this number of steps from the beginning."""
    return "to train from step 0: lengthwise run FILE --name NAME --set training.steps=" + str(steps)
