"""Extend a sweep: more seeds, configurations or grid values; trained members stay as they are.

A sweep that is extended ends with the curves, bit for bit, of one that had this size from its beginning, because no
member depends on any other, and the first draws of random and qmc do not depend on how many follow. What tpe draws
depends on scores, and so on the number of seeds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.code.provenance import provenance
from orchestrator.ending.ending import Outcome, open_session
from orchestrator.errors import UserError
from orchestrator.mirror.fetch import fetch_storage
from orchestrator.mirror.mirrored import open_ledger
from orchestrator.plan import search
from orchestrator.plan.checks.soundness import build_first_generation
from orchestrator.plan.extension import Extension, refuse_configurations, require_extension
from orchestrator.plan.recorded import refuse_changed as refuse_changed_defaults
from orchestrator.plan.recorded import refuse_without_start, with_recorded_defaults
from orchestrator.record.kept.code import find_program
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.lineage import CONFIRMS, find_seeds_of_others, refuse_imported
from orchestrator.record.state.race import read_common_seeds
from orchestrator.record.state.state import SweepState
from orchestrator.results.summarise import summarise
from orchestrator.running.schedulers.choice import find_missing_resources
from orchestrator.sweep.confirm import refuse_many_seeds
from orchestrator.sweep.selection import choose_best_rows, refuse_top_with_names, refuse_unfinished
from orchestrator.sweep.specification import (
    SETTINGS,
    SPEC_FILE,
    copy_settings,
    get_section,
    is_earlier,
    read_recorded_spec,
    refuse_changed,
    refuse_fixed,
    rewrite_spec,
)
from orchestrator.sweep.sweep import import_code_to_resume, resume_sweep
from orchestrator.sweep.train import train_missing
from orchestrator.text.wording import command, counted, label, read_numbers, spans
from search_spaces import SweepSpec, load_sweep, parse_recorded
from search_spaces.grammar.parse import overridden_key
from search_spaces.grammar.values import LARGEST_SEED
from trainers.settings.descriptions import as_yaml

SEEDS_ALLOWED = "a number such as 12 (12 in all), +6 (6 more), or different seeds such as 20-29 or 20,23-25"


@dataclass(frozen=True, kw_only=True)
class PlannedExtension:
    """The extended specification, its additions, and by config_id the seeds that single configurations get.

    `lines` say what is added and what is kept.
    """

    spec: SweepSpec
    added: Extension
    seeds: dict[str, tuple[int, ...]]
    lines: list[str]


def extend_sweep(
    folder: Path,
    console: Console,
    *,
    seeds: str | None = None,
    configurations: int | None = None,
    top: int | None = None,
    only: Sequence[str] = (),
    overrides: Sequence[str] = (),
    accept_code_change: bool = False,
    max_seconds: float | None = None,
) -> Outcome:
    """Extend the sweep in `folder`, then train all missing members; stop after `max_seconds`.

    The same options again resume an extension that was interrupted or killed.

    Raises what `plan_extension` and `resume_sweep` raise; then nothing is written.
    """

    fetch_storage(folder.resolve().parent)  # other sweeps may have used seeds
    passive = [override for override in overrides if get_section(override) in SETTINGS]
    asked = {"seeds": seeds, "configurations": configurations, "top": top, "only": list(only)}
    asked["set"] = [override for override in overrides if override not in passive]
    if SweepState.load(folder).asked == asked:
        return resume_sweep(folder, console, passive, accept_code_change=accept_code_change, max_seconds=max_seconds)
    with open_session(lambda: open_ledger(folder), console) as session:
        state = session.read_state()
        planned = plan_extension(
            state, seeds=seeds, configurations=configurations, top=top, only=only, overrides=overrides
        )
        spec = planned.spec
        session.notice.set_address(spec.notify)
        find_missing_resources(spec).raise_any()
        code = import_code_to_resume(state, console, accept_change=accept_code_change)
        of_known, added = planned.seeds, planned.added.seeds
        starting = [(state.configurations[name], {*added, *of_known.get(name, ())}) for name in state.configurations]
        refuse_without_start(starting, f"{folder} cannot be extended")
        if planned.added.configurations or planned.added.grids:
            recorded = list(state.configurations.values())
            refuse_changed_defaults(
                with_recorded_defaults(spec, recorded), recorded, f"{folder} cannot draw more configurations"
            )
            build_first_generation(spec)
        for line in planned.lines:
            session.say(line)

        # From this record on, resume trains what was added, too.
        fields: dict[str, Any] = {"spec": spec.resolved(), "spec_hash": spec.spec_hash, "provenance": provenance()}
        fields["asked"] = asked
        if planned.seeds:
            fields["seeds"] = {name: list(added) for name, added in planned.seeds.items()}
        with session.interrupts.held():
            state.apply(session.ledger.append("extend", **fields, code=code.fields))
            backup = rewrite_spec(spec.resolved(), folder)
        if backup is not None:
            session.say(f"the edited sweep.yaml is kept as {backup}")
        session.outcome = train_missing(session, spec, state, max_seconds=max_seconds)
    return session.outcome


def plan_extension(
    state: SweepState,
    *,
    seeds: str | None = None,
    configurations: int | None = None,
    top: int | None = None,
    only: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> PlannedExtension:
    """Return how a sweep is to be extended; writes nothing.

    `seeds` are written as SEEDS_ALLOWED says. With `top` (how many of those ranked first) or `only` (labels) they are
    added to these configurations only. Raises UserError for what cannot be added, or if nothing is added;
    SweepFileError for a wrong override; SpecChanged when sweep.yaml was changed to something else.
    """
    # Options that contradict one another, or a part of the file that never changes.
    refuse_imported(state)
    sweep, recorded = str(state.folder), read_recorded_spec(state)
    refuse_fixed(overrides, f"{', '.join(SETTINGS)}, space, search, seeds")
    added_by = {"seeds": seeds, "configurations": configurations}
    for option, keys in (("seeds", {"seeds"}), ("configurations", {"search", "search.configurations"})):
        if added_by[option] is not None and (same := keys & set(map(overridden_key, overrides))):
            raise UserError(f"--{option} and --set {same.pop()} both say how many {option} there are; give one of them")
    chosen = _find_named(state, top, only, seeds)
    if configurations is not None:
        refuse_configurations(recorded, configurations, sweep)

    # The wanted seeds and configurations, as changes of the recorded specification.
    used_elsewhere = find_seeds_of_others(state, strict=CONFIRMS in state.provenance)
    changes, seeds_of = list(overrides), dict[str, tuple[int, ...]]()
    if configurations is not None:
        changes.append(f"search.configurations={configurations}")
    if seeds is not None and chosen:
        seeds_of = {
            name: new for name in chosen if (new := _choose_new_seeds(seeds, state.planned_seeds(name), used_elsewhere))
        }
    elif seeds is not None:
        changes.append(f"seeds={[*recorded.seeds, *_choose_new_seeds(seeds, recorded.seeds, used_elsewhere)]}")
    racing = recorded.search.racing
    if racing is not None and racing.keep is None and racing.test is None and seeds is not None and not chosen:
        raise UserError(f"--seeds {seeds}: {sweep} does not say which configurations stay in its race; give --top, too")
    spec = parse_recorded(state.spec, f"{state.folder / SPEC_FILE} (to extend)", changes)

    # What is added must change nothing that is trained, and decide no race again.
    added = require_extension(recorded, spec, sweep)
    if (state.decisions or state.rungs) and (added.configurations or added.grids):
        raise UserError(
            f"{sweep}: its race has decided a round, so only seeds can be added; for more configurations: "
            "lengthwise run FILE --name NAME"
        )
    new_seeds = dict.fromkeys([*added.seeds, *(seed for new in seeds_of.values() for seed in new)])
    if used := [seed for seed in new_seeds if seed in used_elsewhere]:
        names = ", ".join(dict.fromkeys(used_elsewhere[seed] for seed in used))
        if CONFIRMS in state.provenance:
            raise UserError(f"--seeds: {spans(used)} were used by {names}; a score on a used seed confirms nothing")
    if added == Extension() and not seeds_of:
        raise UserError(
            f"{sweep}: nothing to add to its {search.count_configurations(recorded)} configurations with seeds "
            f"{spans(recorded.seeds)}{_describe_own_seeds(state)}; to finish them: {command('resume', state.folder)}"
        )

    # Settings that change no results are those of sweep.yaml, which may have been edited since.
    path = state.folder / SPEC_FILE
    if path.exists():
        file = load_sweep(path, recorded=True)
        if spec.spec_hash != file.spec_hash and not is_earlier(file, state):
            refuse_changed(file, state)
        passive = [override for override in overrides if get_section(override) in SETTINGS]
        spec = copy_settings(spec, load_sweep(path, passive, recorded=True) if passive else file)
    spec = spec.in_folder(find_program(state) or spec.folder)

    # What the user reads before anything is trained.
    lines = _describe_extension(state, spec, added, seeds_of)
    if used:
        used = sorted(used)
        names = ", ".join(dict.fromkeys(used_elsewhere[seed] for seed in used))
        lines.append(f"note: seeds {spans(used)} were used by {names}, which confirms nothing on them from now on")
    if new_seeds and spec.search.sampler == "tpe":
        lines.append(
            "note: tpe drew these configurations by scores over fewer seeds; a sweep of this size from the "
            "beginning would have drawn others"
        )
    if added.seeds and state.race is not None:
        lines.append(
            f"note: the race continues after round {len(state.race.rounds)} with its {len(state.race.seeds)} seeds; a "
            "sweep with more seeds from the beginning may have had other rounds"
        )
    return PlannedExtension(spec=spec, added=added, seeds=seeds_of, lines=lines)


def _describe_extension(
    state: SweepState, spec: SweepSpec, added: Extension, seeds_of: dict[str, tuple[int, ...]]
) -> list[str]:
    """Return sentences on the added and the kept members."""
    before = read_recorded_spec(state)
    trained = sum(member.status in ("complete", "failed") for member in state.members)
    lines = [f"sweep {state.name} in {state.folder.resolve()} is extended"]
    if added.seeds:
        which = (
            "the configurations that stay in the race"
            if state.race
            else counted(search.count_configurations(before), "configuration")
        )
        lines.append(f"added: seeds {spans(added.seeds)} of {which}{_describe_own_seeds(state)}")
    for name, seeds in seeds_of.items():
        lines.append(f"added: seeds {spans(seeds)} of {label(state.configurations[name].number)}")
    if new := search.count_configurations(spec) - search.count_configurations(before):
        grids = "".join(f", {key}: {as_yaml(domain['grid'])}" for key, domain in added.grids.items())
        first = spans(read_common_seeds([*state.specs, spec.resolved()]))
        lines.append(f"added: {counted(new, 'configuration')} with seeds {first}{grids}")
    lines.append(f"kept: {counted(trained, 'member')} trained so far, as they are")
    return lines


def _describe_own_seeds(state: SweepState) -> str:
    """Return the seeds that single configurations have beside those of all, as the end of a sentence."""
    shared, labels = set(read_common_seeds(state.specs)), dict[str, list[str]]()
    for configuration in state.configurations.values():
        if seeds := set(state.planned_seeds(configuration.config_id)) - shared:
            labels.setdefault(spans(sorted(seeds)), []).append(label(configuration.number))
    words = [f"{seeds} of {', '.join(names)}" for seeds, names in labels.items()]
    return f" (already planned: {'; '.join(words)})" if words else ""


def _find_named(state: SweepState, top: int | None, only: Sequence[str], seeds: str | None) -> list[str]:
    """Return the config_ids that --seeds names; none if it applies to all."""
    if top is None and not only:
        return []
    if seeds is None:
        raise UserError("--top and --configuration say which configurations get more seeds; give --seeds, too")
    refuse_top_with_names(top, only, "get more seeds")
    if top is None:
        configurations = {name: find_configuration(state, name) for name in only}
        for name, configuration in configurations.items():
            if configuration.pruned_at is not None:
                subject = f"{state.folder}: --configuration {name}: {label(configuration.number)}"
                raise UserError(
                    f"{subject} was pruned at step {configuration.pruned_at}; allowed: a configuration that was not"
                )
        return list(dict.fromkeys(configuration.config_id for configuration in configurations.values()))
    result = summarise(state)
    refuse_unfinished(result, f"{state.folder}: --top {top}", "or name them by --configuration")
    return [row.config_id for row in choose_best_rows(result, top)]


def _choose_new_seeds(option: str, present: Sequence[int], used_elsewhere: dict[int, str]) -> tuple[int, ...]:
    """Return the seeds to add; a number of seeds is reached with the smallest unused ones."""
    text = "".join(option.split())
    if re.fullmatch(r"\+?[0-9]{1,10}", text):
        number = int(text) if text.startswith("+") else int(text) - len(present)
        if number < 0:
            raise UserError(f"--seeds {option}: there are {len(present)} already; allowed: {len(present)} or more")
        refuse_many_seeds(option, len(present) + number)
        used = {*present, *used_elsewhere}
        return tuple(islice((seed for seed in count() if seed not in used), number))
    seeds = read_numbers(option)
    if not seeds or max(seeds) > LARGEST_SEED:
        raise UserError(f"--seeds {option!r}: not seeds; allowed: {SEEDS_ALLOWED}")
    return tuple(seed for seed in seeds if seed not in present)
