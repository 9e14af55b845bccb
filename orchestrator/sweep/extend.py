"""Extend a sweep by seeds, configurations or grid values; trained members are not changed.

An extended sweep ends with the same curves, bit for bit, as a sweep of this size from the beginning: members do not
depend on each other, and the first draws of random and qmc do not depend on the number of draws. Draws of tpe depend on
scores, and therefore on the number of seeds.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.code.provenance import read_provenance
from orchestrator.errors import UserError
from orchestrator.mirror.fetch import fetch_storage
from orchestrator.mirror.mirrored_ledger import open_ledger
from orchestrator.plan import optuna_draws
from orchestrator.plan.checks.sweep_file_checks import build_first_generation
from orchestrator.plan.extension import Extension, refuse_configurations, require_extension
from orchestrator.plan.recorded_configurations import (
    refuse_changed_defaults,
    refuse_missing_initial_weights,
    set_recorded_defaults,
)
from orchestrator.record.add_records import add_record
from orchestrator.record.files.recorded_modules import find_program
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.lineage import CONFIRMS, find_seeds_of_other_sweeps, refuse_imported
from orchestrator.record.state.race import read_common_seeds
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.running.schedulers.choice import find_missing_resources
from orchestrator.session.session import Outcome, open_session
from orchestrator.sweep.confirm import refuse_many_seeds
from orchestrator.sweep.run_and_resume import import_code_to_resume, resume_sweep
from orchestrator.sweep.selection import choose_best_rows, refuse_top_and_configurations, refuse_unfinished
from orchestrator.sweep.specification import (
    CHANGEABLE_SECTIONS,
    SPEC_FILE,
    copy_settings,
    equals_earlier_spec,
    get_section,
    read_recorded_spec,
    refuse_changed_sweep_yaml,
    refuse_fixed_sections,
    rewrite_spec,
)
from orchestrator.sweep.train_missing import train_missing
from orchestrator.text.wording import (
    describe_wrong_numbers,
    format_command,
    format_count,
    format_label,
    format_ranges,
    read_numbers,
)
from search_spaces import SweepSpec, load_sweep, parse_recorded
from search_spaces.grammar.parse import read_override_key
from search_spaces.grammar.values import LARGEST_SEED
from trainers.settings.descriptions import format_yaml

SEEDS_ALLOWED = "a number such as 12 (12 in all), +6 (6 more), or different seeds such as 20-29 or 20,23-25"


@dataclass(frozen=True, kw_only=True)
class PlannedExtension:
    """The extended specification, its additions, and the new seeds of single configurations by config_id.

    `messages` describe the additions and the existing members to the user.
    """

    spec: SweepSpec
    added: Extension
    seeds_by_id: dict[str, tuple[int, ...]]
    messages: list[str]


def extend_sweep(
    folder: Path,
    console: Console,
    *,
    seeds: str | None = None,
    configurations: int | None = None,
    top: int | None = None,
    labels: Sequence[str] = (),
    overrides: Sequence[str] = (),
    accept_code_change: bool = False,
    max_seconds: float | None = None,
) -> Outcome:
    """Extend the sweep in `folder`, then train all missing members; stop after `max_seconds`.

    The same options again resume an interrupted extension. Raises what `plan_extension` and `resume_sweep` raise,
    before anything is written.
    """
    fetch_storage(folder.resolve().parent)  # other sweeps may have used seeds

    # Settings, such as resources, add nothing, so they are not among the recorded options of an extension.
    settings = [override for override in overrides if get_section(override) in CHANGEABLE_SECTIONS]
    options = {"seeds": seeds, "configurations": configurations, "top": top, "only": list(labels)}
    options["set"] = [override for override in overrides if override not in settings]
    if SweepState.load(folder).pending_extension == options:
        return resume_sweep(folder, console, settings, accept_code_change=accept_code_change, max_seconds=max_seconds)
    with open_session(lambda: open_ledger(folder), console) as session:
        state = session.read_state()
        planned = plan_extension(
            state, seeds=seeds, configurations=configurations, top=top, labels=labels, overrides=overrides
        )
        spec = planned.spec
        session.notifier.set_address(spec.notify)

        # Check everything that training needs, before the extension is recorded.
        find_missing_resources(spec).raise_any()
        code = import_code_to_resume(state, console, accept_change=accept_code_change)
        new_seeds = [
            (configuration, {*planned.added.seeds, *planned.seeds_by_id.get(config_id, ())})
            for config_id, configuration in state.configurations.items()
        ]
        refuse_missing_initial_weights(new_seeds, f"{folder} cannot be extended")
        if planned.added.configurations or planned.added.grids:
            recorded_configurations = list(state.configurations.values())
            refuse_changed_defaults(
                set_recorded_defaults(spec, recorded_configurations),
                recorded_configurations,
                f"{folder} cannot draw more configurations",
            )
            build_first_generation(spec)
        for message in planned.messages:
            session.say(message)

        # Record the extension; from now on `resume` trains the additions, too.
        fields: dict[str, Any] = {"spec": spec.resolved(), "spec_hash": spec.spec_hash, "provenance": read_provenance()}
        fields["asked"] = options
        if planned.seeds_by_id:
            fields["seeds"] = {config_id: list(added_seeds) for config_id, added_seeds in planned.seeds_by_id.items()}
        with session.interrupts.hold_signals():
            add_record(session.ledger, state, "extend", **fields, code=code.fields)
            backup = rewrite_spec(spec.resolved(), folder)
        if backup is not None:
            session.say(f"edited sweep.yaml saved as {backup}")
        session.outcome = train_missing(session, spec, state, max_seconds=max_seconds)
    return session.outcome


def plan_extension(
    state: SweepState,
    *,
    seeds: str | None = None,
    configurations: int | None = None,
    top: int | None = None,
    labels: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> PlannedExtension:
    """Return the plan of an extension; writes nothing.

    `seeds` has the format of SEEDS_ALLOWED. With `top` (a number of best configurations) or `labels` they are
    added to these configurations only. Raises UserError for additions that are impossible or empty; SweepFileError for
    an invalid override; SpecChanged if sweep.yaml was edited to compute something else.
    """
    refuse_imported(state)
    sweep, recorded = str(state.folder), read_recorded_spec(state)
    refuse_fixed_sections(overrides, f"{', '.join(CHANGEABLE_SECTIONS)}, space, search, seeds")

    # An option and --set of the same key would contradict each other.
    values = {"seeds": seeds, "configurations": configurations}
    for option, keys in (("seeds", {"seeds"}), ("configurations", {"search", "search.configurations"})):
        if values[option] is not None and (conflicts := keys & set(map(read_override_key, overrides))):
            raise UserError(f"--{option} and --set {conflicts.pop()} both set the {option}; give only one of them")
    selected_ids = _find_selected_ids(state, top, labels, seeds)
    if configurations is not None:
        refuse_configurations(recorded, configurations, sweep)

    # Express the additions as changes of the recorded specification, so that they are checked like a sweep file.
    sweep_by_seed = find_seeds_of_other_sweeps(state, strict=CONFIRMS in state.provenance)
    changes, seeds_by_id = list(overrides), dict[str, tuple[int, ...]]()
    if configurations is not None:
        changes.append(f"search.configurations={configurations}")
    if seeds is not None and selected_ids:
        seeds_by_id = {
            config_id: new
            for config_id in selected_ids
            if (new := _choose_new_seeds(seeds, state.list_planned_seeds(config_id), sweep_by_seed))
        }
    elif seeds is not None:
        changes.append(f"seeds={[*recorded.seeds, *_choose_new_seeds(seeds, recorded.seeds, sweep_by_seed)]}")

    # The changed specification is checked like any sweep file, and must add something.
    racing = recorded.search.racing
    if racing is not None and racing.keep is None and racing.test is None and seeds is not None and not selected_ids:
        raise UserError(f"--seeds {seeds}: the race of {sweep} has neither keep nor test; give --top, too")
    spec = parse_recorded(state.spec, f"{state.folder / SPEC_FILE} (to extend)", changes)
    added = require_extension(recorded, spec, sweep)

    # The user reads what is added before anything is trained.
    new_seeds = {*added.seeds, *(seed for new in seeds_by_id.values() for seed in new)}
    reused_seeds = sorted(new_seeds & set(sweep_by_seed))
    users = ", ".join(dict.fromkeys(sweep_by_seed[seed] for seed in reused_seeds))
    _refuse_unusable_additions(state, recorded, added, seeds_by_id, reused_seeds, users)
    spec = _copy_edited_settings(spec, state, overrides)
    messages = _describe_extension(state, spec, added, seeds_by_id)
    if reused_seeds:
        messages.append(
            f"note: seeds {format_ranges(reused_seeds)} were used by {users}, which they can no longer confirm"
        )
    if new_seeds and spec.search.sampler == "tpe":
        messages.append(
            "note: tpe drew these configurations from scores over fewer seeds; a new sweep would draw others"
        )
    if added.seeds and state.race is not None:
        messages.append(
            f"note: the race continues after round {len(state.race.rounds)} with its {len(state.race.seeds)} seeds; "
            "a new sweep with more seeds may have other rounds"
        )
    return PlannedExtension(spec=spec, added=added, seeds_by_id=seeds_by_id, messages=messages)


def _refuse_unusable_additions(
    state: SweepState,
    recorded: SweepSpec,
    added: Extension,
    seeds_by_id: Mapping[str, Sequence[int]],
    reused_seeds: Sequence[int],
    users: str,
) -> None:
    """Raise UserError for additions that change decided rounds, reuse seeds in a confirmation, or are empty.

    `reused_seeds` are used by the sweeps `users`.
    """
    # A decided round compared all configurations; a new one has missed it.
    sweep = state.folder
    if (state.decisions or state.rungs) and (added.configurations or added.grids):
        raise UserError(
            f"{sweep}: configurations cannot be added after a race has decided a round; allowed: more seeds, or a new "
            "sweep: lengthwise run FILE --name NAME"
        )

    # A confirmation is unbiased only on seeds that the search has not used.
    if reused_seeds and CONFIRMS in state.provenance:
        raise UserError(
            f"--seeds: {format_ranges(reused_seeds)} were used by {users}; allowed in a confirmation: unused seeds"
        )
    if added == Extension() and not seeds_by_id:
        advice = f"for more: --seeds {2 * len(recorded.seeds)}"
        if state.end_status != "complete":
            advice = f"to finish them: {format_command('resume', state.folder)}"
        raise UserError(
            f"{sweep}: nothing to add: it has {optuna_draws.count_configurations(recorded)} configurations with seeds "
            f"{format_ranges(recorded.seeds)}{_describe_additional_seeds(state)}; {advice}"
        )


def _copy_edited_settings(spec: SweepSpec, state: SweepState, overrides: Sequence[str]) -> SweepSpec:
    """Return `spec` with the CHANGEABLE_SECTIONS of sweep.yaml, which the user may have edited, and of `overrides`.

    Raises SpecChanged if sweep.yaml was edited to compute something else.
    """
    path = state.folder / SPEC_FILE
    if path.exists():
        file_spec = load_sweep(path, recorded=True)
        if spec.spec_hash != file_spec.spec_hash and not equals_earlier_spec(file_spec, state):
            refuse_changed_sweep_yaml(file_spec, state)
        settings = [override for override in overrides if get_section(override) in CHANGEABLE_SECTIONS]
        spec = copy_settings(spec, load_sweep(path, settings, recorded=True) if settings else file_spec)
    return spec.set_folder(find_program(state) or spec.folder)


def _describe_extension(
    state: SweepState, spec: SweepSpec, added: Extension, seeds_by_id: dict[str, tuple[int, ...]]
) -> list[str]:
    """Return sentences about the added and the trained members."""
    recorded = read_recorded_spec(state)
    trained = sum(member.status in ("complete", "failed") for member in state.members)
    messages = [f"extending sweep {state.name} in {state.folder.resolve()}"]

    # Configurations that a race has eliminated get no more seeds.
    if added.seeds:
        subject = (
            "the remaining configurations of the race"
            if state.race
            else format_count(optuna_draws.count_configurations(recorded), "configuration")
        )
        messages.append(f"added: seeds {format_ranges(added.seeds)} of {subject}{_describe_additional_seeds(state)}")
    for config_id, seeds in seeds_by_id.items():
        label = format_label(state.configurations[config_id].number)
        messages.append(f"added: seeds {format_ranges(seeds)} of {label}")
    if new := optuna_draws.count_configurations(spec) - optuna_draws.count_configurations(recorded):
        grids = "".join(f", {key}: {format_yaml(domain['grid'])}" for key, domain in added.grids.items())
        common_seeds = format_ranges(read_common_seeds([*state.specs, spec.resolved()]))
        messages.append(f"added: {format_count(new, 'configuration')} with seeds {common_seeds}{grids}")
    messages.append(f"unchanged: {format_count(trained, 'member')} trained so far")
    return messages


def _describe_additional_seeds(state: SweepState) -> str:
    """Return the end of a sentence about additional seeds of single configurations; empty without any."""
    common_seeds = set(read_common_seeds(state.specs))
    labels = dict[str, list[str]]()
    for configuration in state.configurations.values():
        if seeds := set(state.list_planned_seeds(configuration.config_id)) - common_seeds:
            labels.setdefault(format_ranges(sorted(seeds)), []).append(format_label(configuration.number))
    descriptions = [f"{seeds} of {', '.join(names)}" for seeds, names in labels.items()]
    return f" (already planned: {'; '.join(descriptions)})" if descriptions else ""


def _find_selected_ids(state: SweepState, top: int | None, labels: Sequence[str], seeds: str | None) -> list[str]:
    """Return the config_ids that --top or --configuration selects for --seeds; empty if it applies to all."""
    if top is None and not labels:
        return []
    if seeds is None:
        raise UserError("--top and --configuration select the configurations that get more seeds; give --seeds, too")

    # Named configurations need no scores, so the sweep may be unfinished; pruned ones have left the race.
    refuse_top_and_configurations(top, labels, "get more seeds")
    if top is None:
        configurations = {label: find_configuration(state, label) for label in labels}
        for label, configuration in configurations.items():
            if configuration.pruned_at is not None:
                subject = f"{state.folder}: --configuration {label}: {format_label(configuration.number)}"
                raise UserError(
                    f"{subject} was pruned at step {configuration.pruned_at}; allowed: unpruned configurations"
                )
        return list(dict.fromkeys(configuration.config_id for configuration in configurations.values()))

    # The best are known only when all have their scores.
    summary = summarize(state)
    refuse_unfinished(summary, f"{state.folder}: --top {top}", "or select them with --configuration")
    return [row.config_id for row in choose_best_rows(summary, top)]


def _choose_new_seeds(option: str, planned_seeds: Sequence[int], sweep_by_seed: dict[int, str]) -> tuple[int, ...]:
    """Return the seeds to add: listed, or the smallest unused seeds up to a number."""
    # A number of seeds: the total, or with + the number of new seeds.
    text = "".join(option.split())
    if re.fullmatch(r"\+?[0-9]{1,10}", text):
        number = int(text) if text.startswith("+") else int(text) - len(planned_seeds)
        if number < 0:
            present = len(planned_seeds)
            raise UserError(f"--seeds {option}: already {present} seeds; allowed: more than {present}")
        refuse_many_seeds(option, len(planned_seeds) + number)
        used = {*planned_seeds, *sweep_by_seed}
        return tuple(islice((seed for seed in count() if seed not in used), number))

    # A list of seeds.
    seeds = read_numbers(option)
    if not seeds or max(seeds) > LARGEST_SEED:
        raise UserError(f"--seeds {option!r}: {describe_wrong_numbers(option)}; allowed: {SEEDS_ALLOWED}")
    return tuple(seed for seed in seeds if seed not in planned_seeds)
