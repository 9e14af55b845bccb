"""Run and resume sweeps: plan, record provenance, train, score, publish, report.

`run_sweep` begins a sweep and `resume_sweep` continues it; both then call `train_missing`. Every event is in the ledger
before anything else uses it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.addresses import find_address
from orchestrator.claims.registration import CLAIMS_COPY, digest_claims
from orchestrator.code.code_record import CodeRecord, list_recorded_folders, record_code, start_repository_reader
from orchestrator.code.provenance import read_provenance
from orchestrator.code.trust import trust_sweep
from orchestrator.code.user_code import import_spec_modules
from orchestrator.errors import SpecChanged
from orchestrator.mirror.fetch import fetch_sweep
from orchestrator.mirror.mirrored_ledger import create_ledger, open_ledger
from orchestrator.plan.checks.sweep_file_checks import build_first_generation, build_sample_configurations
from orchestrator.plan.configurations import list_warnings
from orchestrator.plan.optuna_draws import describe_size
from orchestrator.plan.recorded_configurations import (
    refuse_changed_results,
    refuse_missing_data,
    refuse_missing_initial_weights,
    refuse_oversized_members,
)
from orchestrator.plan.rounds import MAX_AUTO_WEIGHTS_BYTES, count_weights_bytes
from orchestrator.record.add_records import add_record
from orchestrator.record.files.recorded_modules import import_to_resume
from orchestrator.record.ledger.records import INLINE_SCHEMA
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.lineage import has_checkpoint, refuse_imported
from orchestrator.record.state.state import SweepState
from orchestrator.results.seed_failures import describe_retry, describe_retry_start
from orchestrator.running.schedulers.choice import find_missing_resources
from orchestrator.running.watching.meter import count_seeds
from orchestrator.session.session import Outcome, Session, open_session
from orchestrator.sweep.children import SweepChildren
from orchestrator.sweep.specification import (
    CHANGEABLE_SECTIONS,
    SPEC_FILE,
    copy_settings,
    list_differing_settings,
    load_spec,
    refuse_changed_user_file,
    refuse_existing,
    refuse_fixed_sections,
    resolve_tracking_uri,
    write_spec,
)
from orchestrator.sweep.train_missing import is_sweep_complete, is_training_complete, train_missing
from orchestrator.text.consoles import say
from orchestrator.text.wording import format_count
from orchestrator.trainer_choice import get_trainer, name_pack
from search_spaces import SweepSpec
from trainers.files.atomic_file import write_atomic


def run_sweep(
    spec: SweepSpec,
    storage: Path,
    console: Console,
    origin: Mapping[str, Any] | None = None,
    children: SweepChildren | None = None,
    *,
    max_seconds: float | None = None,
) -> Outcome:
    """Run a sweep in a new folder of `storage`; `origin` is added to its provenance in the ledger.

    The caller has started `children` for this sweep and ends them; by default they are started when needed. After
    `max_seconds` the sweep stops and can be resumed.

    Raises SweepFileError for everything in the specification that cannot be built, including resources that this
    machine lacks, SweepExists or SpecChanged if the folder already has a sweep, LedgerError if it cannot be written.
    All except LedgerError are raised before anything is written.
    """
    # A sweep that exists here, or at the address, is refused.
    spec, folder = resolve_tracking_uri(spec), storage / spec.name
    fetch_sweep(folder)
    with _report_problems_first(spec):
        refuse_existing(spec, folder)
    find_missing_resources(spec).raise_any()

    # Building the first configurations finds problems before anything is written, and the code that they need.
    claims, claims_file = digest_claims(spec) or ({}, b"")
    with start_repository_reader(spec.folder) as repository_reader:  # git runs in parallel
        sources = import_spec_modules(spec)
        configurations = build_first_generation(spec)
        members = [configuration.build_member(spec.seeds[0]) for configuration in configurations]
        for warning in list_warnings(spec, members):
            say(console, f"warning: {warning}")
        sources = (*sources, *get_trainer(spec.sections).find_sources(members, spec.folder))
        code = record_code(repository_reader.read(), sources)

    # From the first record on `resume` can continue the sweep.
    first_fields: dict[str, Any] = {
        "name": spec.name,
        "study": spec.study,
        "spec": spec.resolved(),
        "spec_hash": spec.spec_hash,
        "provenance": {**read_provenance(), **(origin or {})},
        "small_weights": count_weights_bytes(spec, configurations) <= MAX_AUTO_WEIGHTS_BYTES,
        "code": code.fields,
    }
    if claims:
        first_fields["claims"] = claims
    if get_trainer(spec.sections).inline_curves:
        first_fields["schema"] = INLINE_SCHEMA

    # The first record makes the folder a sweep, so all other files are written after it.
    with open_session(lambda: create_ledger(folder, first_fields), console, spec.notify) as session:
        state = session.read_state()
        write_spec(spec.resolved(), folder)
        if claims:
            write_atomic(folder / CLAIMS_COPY, [claims_file])
            session.say(f"{format_count(len(claims), 'claim')} registered")
        code.write_copies(folder)
        repeated = sum(configuration.duplicate_of is not None for configuration in configurations)
        session.say(f"sweep {spec.name} in {folder.resolve()}: {describe_size(spec, repeated)}")
        trust_sweep(state)
        session.outcome = train_missing(session, spec, state, configurations, children, max_seconds=max_seconds)
    return session.outcome


@contextmanager
def _report_problems_first(spec: SweepSpec) -> Iterator[None]:
    """Within the block, raise SweepFileError for an invalid `spec` instead of SpecChanged.

    SpecChanged would show the invalid value as a difference from the recorded sweep.
    """
    try:
        yield
    except SpecChanged:
        build_sample_configurations(spec)
        raise


def resume_sweep(
    folder: Path,
    console: Console,
    overrides: Sequence[str] = (),
    *,
    settings: SweepSpec | None = None,
    retry_failed: bool = False,
    accept_code_change: bool = False,
    max_seconds: float | None = None,
) -> Outcome:
    """Resume the sweep in `folder`; finished packs are not trained again.

    Resources, budget, tracking and notify come from `settings`, by default from sweep.yaml with `overrides`.

    With `retry_failed` failed packs are retried from their newest checkpoints, and their configurations are scored
    again; seeds that diverged stay failed. Draws of a sampler that reads scores are not repeated.

    If code of the sweep is missing or has changed, `accept_code_change` resumes it with the current code, which is
    recorded. After `max_seconds` it stops again.

    Whether `run` comes here is decided by `cli.main.run`, whether anything is left to train by `is_sweep_complete`,
    which packs run again by `SweepDriver._resume_recorded`, and from which step by `trainers.files.checkpoint`.

    Raises NotASweep, SweepLocked, DamagedLedger, UserCodeError for changed code, and SpecChanged or UserError if
    sweep.yaml or `overrides` change more than resources, budget, tracking and notify.
    """
    refuse_fixed_sections(overrides, ", ".join(CHANGEABLE_SECTIONS))

    with open_session(lambda: open_ledger(folder), console) as session:
        state = session.read_state()
        refuse_imported(state)
        # Read now, because a `retry` record clears it. Failures that are retried are no news.
        is_news = state.end_status == "interrupted" and not (retry_failed and state.failed_packs)
        interruption = f"; it was interrupted: {state.end_message}" if is_news else ""
        spec = load_spec(state, overrides)
        if settings is not None:
            if differing := list_differing_settings(spec, settings):
                session.say(f"note: {', '.join(differing)}: taken from this command and its file, not from {SPEC_FILE}")
            spec = copy_settings(spec, settings)
        session.notifier.set_address(spec.notify)
        find_missing_resources(settings or spec).raise_any()

        # Only unfinished sweeps need their code and a `resume` record.
        is_unfinished = not is_sweep_complete(spec, state) or (retry_failed and bool(state.failed_packs))
        if is_unfinished:
            code = import_code_to_resume(state, console, accept_change=accept_code_change)
        if retry_failed:
            _record_retries(session, state)
        ended_count = sum(member.status in ("complete", "failed") for member in state.members)
        progress = f"{ended_count} of {format_count(count_seeds(state), 'seed')} done"
        retry = ""
        if is_training_complete(spec, state):
            progress, retry = f"{progress}, so nothing is left to train", describe_retry(state)
        session.say(f"sweep {spec.name} in {folder.resolve()}: {progress}{interruption}")
        if retry:
            session.say(retry)
        if is_unfinished:
            add_record(session.ledger, state, "resume", provenance=read_provenance(), code=code.fields)
        session.outcome = train_missing(session, spec, state, max_seconds=max_seconds)
    return session.outcome


def import_code_to_resume(state: SweepState, console: Console, *, accept_change: bool) -> CodeRecord:
    """Import the code of a sweep, and return the record of its current version.

    Raises UserCodeError for code that is missing or changed without `accept_change`, UserError if its configurations
    cannot be trained to the same results here.
    """
    sources, notes = import_to_resume(state, accept_change=accept_change)
    for note in notes:
        say(console, note)

    # Refuse configurations that cannot be trained to the same results here.
    recorded = list(state.configurations.values())
    for refuse in (refuse_changed_results, refuse_missing_data, refuse_oversized_members):
        refuse(recorded, f"{state.folder} cannot be resumed")
    refuse_missing_initial_weights(_find_untrained_seeds(state), f"{state.folder} cannot be resumed")

    with start_repository_reader(*list_recorded_folders(state.codes)) as repository_reader:
        code = record_code(repository_reader.read(), sources)
    code.write_copies(state.folder)
    return code


def _find_untrained_seeds(state: SweepState) -> Iterator[tuple[ConfigurationState, list[int]]]:
    """Yield every configuration with its seeds that will start from step 0; nothing for a sweep at an address."""
    # Checkpoints at an address may not be on this machine yet.
    if find_address(state.folder) is not None:
        return
    starts_from_zero = {
        pack_id: not pack.has_ended and not has_checkpoint(state, pack) for pack_id, pack in state.packs.items()
    }
    for configuration in state.configurations.values():
        planned_seeds = () if configuration.has_ended else state.list_planned_seeds(configuration.config_id)
        members = configuration.members
        yield (
            configuration,
            [seed for seed in planned_seeds if seed not in members or starts_from_zero[members[seed].pack_id]],
        )


def resume_with_spec(spec: SweepSpec, storage: Path, console: Console, *, max_seconds: float | None = None) -> Outcome:
    """Resume the sweep that was begun with `spec`, with the resources, budget, tracking and notify of `spec`.

    Raises what `resume_sweep` raises, and SpecChanged if the sweep file computes something else.
    """
    spec, folder = resolve_tracking_uri(spec), storage / spec.name
    state = SweepState.load(folder)
    with _report_problems_first(spec):
        refuse_changed_user_file(spec, state)
    return resume_sweep(folder, console, settings=spec, max_seconds=max_seconds)


def _record_retries(session: Session, state: SweepState) -> None:
    """Record that failed packs are retried; seeds that diverged are results, which stay."""
    diverged = sum(member.status == "failed" and not member.has_crashed for member in state.members)
    pack_ids = [pack_id for pack_id, _ in state.failed_packs]
    noun = f"failed {name_pack(state.spec)}"
    if pack_ids:
        start = f", {text}" if (text := describe_retry_start(state)) else ""
        add_record(session.ledger, state, "retry", pack_ids=pack_ids)
        session.say(f"retrying {format_count(len(pack_ids), noun)}{start}")
    else:
        session.say(f"no {noun}s to retry")
    if diverged:
        session.say(
            f"not retried: {format_count(diverged, 'seed')} diverged, which is a result; to train with changed code "
            "instead, run the sweep file under another --name"
        )
