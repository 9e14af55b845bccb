"""The story of a sweep: plan it, record where it came from, run its packs, score, publish, draw.

`run_sweep` begins a sweep and `resume_sweep` continues one; from then on both are the same. Every event is
in the ledger before anything else uses it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.claims.registration import KEPT, register
from orchestrator.code.code_record import CodeRecord, begin_reading, record_code, recorded_folders
from orchestrator.code.own_code import import_for
from orchestrator.code.provenance import provenance
from orchestrator.consoles import say
from orchestrator.ending.ending import Outcome, finish, interruption_recorded, record_end, run_and_record_end
from orchestrator.ending.notice import Notice
from orchestrator.ending.publisher import Publisher
from orchestrator.ending.running_page import RunningPage
from orchestrator.errors import SpecChanged
from orchestrator.interface import Member
from orchestrator.mirror.fetch import fetch_sweep, refuse_deleted
from orchestrator.mirror.mirrored import create_ledger, open_ledger, wait_for_copy
from orchestrator.plan.checks.soundness import check, drawn_configurations
from orchestrator.plan.configurations import Configuration, warnings_for
from orchestrator.plan.packing.packs import Packer
from orchestrator.plan.recorded import member_of, refuse_corrected, refuse_too_large, refuse_without_data
from orchestrator.plan.rounds import SMALL_WEIGHTS, planned_bytes
from orchestrator.record.kept.code import import_to_resume
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import INLINE_SCHEMA
from orchestrator.record.state.imported import refuse_imported
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.search_design import count_planned
from orchestrator.running.driving.driver import SweepDriver
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.running.driving.sampler import is_finished
from orchestrator.running.schedulers.choice import (
    choose_scheduler,
    describe_hidden_gpus,
    find_missing_resources,
    open_scheduler,
)
from orchestrator.running.watching.meter import Meter
from orchestrator.running.watching.progress import Progress
from orchestrator.sweep.children import SweepChildren
from orchestrator.sweep.specification import (
    SETTINGS,
    SPEC_FILE,
    differing_settings,
    load_spec,
    refuse_changed_file,
    refuse_existing,
    refuse_fixed,
    with_settings_of,
    with_store,
    write_spec,
)
from orchestrator.trainer import trainer_of
from orchestrator.trust import trust_sweep
from orchestrator.wording import counted
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

    `children` were started ahead for this sweep, and the caller ends them; by default they are started when needed.

    After `max_seconds` it stops, to be resumed.

    Raises SweepFileError for anything in the spec that cannot be built, including resources that this machine lacks,
    SweepExists or SpecChanged when the folder holds a sweep already, LedgerError when it cannot be written. All but
    LedgerError are raised before anything is written.
    """
    spec, folder = with_store(spec), storage / spec.name
    fetch_sweep(folder)
    refuse_deleted(folder)
    with _mistakes_first(spec):
        refuse_existing(spec, folder)
    find_missing_resources(spec).raise_any()
    registered = register(spec)
    with begin_reading(spec.folder) as reading:  # git, beside what follows
        sources = import_for(spec)
        configurations = check(spec)
        for warning in warnings_for(spec, [one.member(spec.seeds[0]) for one in configurations]):
            say(console, f"warning: {warning}")
        members = [configuration.member(spec.seeds[0]) for configuration in configurations]
        sources = (*sources, *trainer_of(spec.sections).sources(members, spec.folder))
        code = record_code(reading.read(), sources)
    first: dict[str, Any] = {
        "name": spec.name,
        "study": spec.study,
        "spec": spec.resolved(),
        "spec_hash": spec.spec_hash,
        "provenance": {**provenance(), **(origin or {})},
        "small_weights": planned_bytes(spec, configurations) <= SMALL_WEIGHTS,
        "code": code.fields,
    }
    if registered:
        first["claims"] = registered[0]
    if trainer_of(spec.sections).inline_curves:
        first["schema"] = INLINE_SCHEMA

    def drive(ledger: Ledger, interrupts: Interrupts) -> Outcome:
        write_spec(spec.resolved(), folder)
        if registered:
            write_atomic(folder / KEPT, [registered[1]])
            say(console, f"{counted(len(registered[0]), 'claim')} registered")
        code.write_copies(folder)
        say(console, f"sweep {spec.name} in {folder.resolve()}")
        state = SweepState.load(folder)
        trust_sweep(state)
        return drive_packs(spec, ledger, state, console, interrupts, configurations, children, max_seconds=max_seconds)

    return run_and_record_end(lambda: create_ledger(folder, first), console, drive, Notice(spec.notify))


@contextmanager
def _mistakes_first(spec: SweepSpec) -> Iterator[None]:
    """Raise SweepFileError for a mistake in `spec` in place of SpecChanged, which would show it as a difference."""
    try:
        yield
    except SpecChanged:
        drawn_configurations(spec)
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

    Resources, budget, tracking and notify are those of `settings`, by default those of sweep.yaml with `overrides`.

    With `retry_failed` packs that were given up are tried again, from their newest checkpoints, and their
    configurations are scored anew; seeds that diverged stay failed. A sampler that learns from scores keeps what it
    has drawn.

    If code that the sweep is trained with is missing or has changed, `accept_code_change` resumes it all the same and
    records the code as it is now. After `max_seconds` it stops again.

    Raises NotASweep, SweepLocked, DamagedLedger, OwnCodeError for such code, and SpecChanged or UserError when
    sweep.yaml or `overrides` change more than resources, budget, tracking and notify.
    """
    refuse_fixed(overrides, ", ".join(SETTINGS))

    def drive(ledger: Ledger, interrupts: Interrupts) -> Outcome:
        if ledger.notice:
            say(console, ledger.notice)
        state = SweepState.load(folder)
        refuse_imported(state)
        why = f"; {state.ended}: {state.message}" if state.ended == "interrupted" else ""
        spec = load_spec(state, overrides)
        if settings is not None:
            if differing := differing_settings(spec, settings):
                say(console, f"note: {', '.join(differing)}: as in this command and its file, not as in {SPEC_FILE}")
            spec = with_settings_of(spec, settings)
        notice.set(spec.notify)
        find_missing_resources(settings or spec).raise_any()
        going_on = not is_finished(spec, state) or (retry_failed and bool(state.deaths))
        if going_on:
            code = code_to_resume(state, console, accept_change=accept_code_change)
        if retry_failed:
            _reopen(ledger, state, console)
        done = sum(found.is_done for found in state.configurations.values())
        share = f"{done} of {count_planned(state)} configurations are done"
        say(console, f"sweep {spec.name} in {folder.resolve()}: {share}{why}")
        if going_on:
            state.apply(ledger.append("resume", provenance=provenance(), code=code.fields))
        return drive_packs(spec, ledger, state, console, interrupts, max_seconds=max_seconds)

    notice = Notice()
    return run_and_record_end(lambda: open_ledger(folder), console, drive, notice)


def code_to_resume(state: SweepState, console: Console, *, accept_change: bool) -> CodeRecord:
    """Import the code that a sweep is trained with, and return what its ledger keeps of the code as it is now.

    Raises OwnCodeError for code that is missing or changed without `accept_change`, UserError where its configurations
    cannot be trained here to the same numbers.
    """
    sources, notes = import_to_resume(state, accept_change=accept_change)
    for note in notes:
        say(console, note)
    recorded = list(state.configurations.values())
    for refuse in (refuse_corrected, refuse_without_data, refuse_too_large):
        refuse(recorded, f"{state.folder} cannot be resumed")
    with begin_reading(*recorded_folders(state.codes)) as reading:
        code = record_code(reading.read(), sources)
    code.write_copies(state.folder)
    return code


def resume_same(spec: SweepSpec, storage: Path, console: Console, *, max_seconds: float | None = None) -> Outcome:
    """Resume the sweep that was begun with `spec`, with the resources, budget, tracking and notify of `spec`.

    Raises what `resume_sweep` raises, SpecChanged also if the sweep file has changed since.
    """
    spec, folder = with_store(spec), storage / spec.name
    state = SweepState.load(folder)
    with _mistakes_first(spec):
        refuse_changed_file(spec, state)
    return resume_sweep(folder, console, settings=spec, max_seconds=max_seconds)


def _examples(spec: SweepSpec, state: SweepState, built: Sequence[Configuration]) -> Iterator[Member]:
    """Return a member of each recorded configuration; if none is recorded yet, of each that will be drawn first."""
    if state.configurations:
        yield from (member_of(one) for one in state.configurations.values())
    else:
        yield from (one.member(spec.seeds[0]) for one in built or check(spec))


def _reopen(ledger: Ledger, state: SweepState, console: Console) -> None:
    pack_ids = [pack_id for pack_id, _ in state.deaths]
    if pack_ids:
        state.apply(ledger.append("retry", pack_ids=pack_ids))
        say(console, f"{counted(len(pack_ids), 'pack')} that died will be tried again")
    else:
        say(console, "no pack has died; there is nothing to try again")


def drive_packs(
    spec: SweepSpec,
    ledger: Ledger,
    state: SweepState,
    console: Console,
    interrupts: Interrupts,
    built: Sequence[Configuration] = (),
    children: SweepChildren | None = None,
    *,
    max_seconds: float | None = None,
) -> Outcome:
    """Run the sweep of a ledger to its end.

    `built` are its first configurations, if they were just built; `children` and `max_seconds` are as for `run_sweep`.
    """
    spec, progress, meter = with_store(spec), Progress(console, spec.name), Meter(state)
    publisher: Publisher | None = None
    with ExitStack() as opens:

        def tick(driver: SweepDriver) -> None:
            interrupts.check()
            if progress.due:
                progress.show(meter.rows(driver.state, driver.running))
                for notice in publisher.read_notices() if publisher is not None else ():
                    say(console, "; training continues; ".join(f"not published: {notice}".splitlines()))

        if not is_finished(spec, state):
            name, _ = choose_scheduler(spec, _examples(spec, state, built))
            if children is None:
                children = opens.enter_context(SweepChildren(name, tracking=spec.tracking.enabled))
            children.end_unneeded(name)
            publisher, host = children.publisher, children.workers
            if publisher is not None:
                publisher.follow(ledger.folder, spec.tracking)
            with open_scheduler(name, spec.resources, host.start_worker if host is not None else None) as scheduler:
                interrupts.install()  # ray.init has put its own handlers in their place
                cluster = scheduler.cluster
                say(console, f"{cluster.description}: up to {counted(cluster.workers, 'pack')} at once")
                if hidden := describe_hidden_gpus(spec, name):
                    say(console, f"note: {hidden}")
                packer = Packer(spec, cluster, [one.shortage for one in state.recuts if one.shortage])
                driver = SweepDriver(
                    spec,
                    ledger,
                    state,
                    packer=packer,
                    workers=cluster.workers,
                    max_seconds=max_seconds,
                    built=built,
                    held=interrupts.held,
                    say=partial(say, console),
                    tick=tick,
                )
                if late := wait_for_copy(ledger):
                    say(console, f"warning: {late}")
                page = RunningPage(ledger.folder) if name != "inline" else nullcontext()
                with page, progress.showing(), interruption_recorded(ledger, state, interrupts):
                    scheduler.run(driver)
                    driver.remove_stop_file()
                    record_end(ledger, state, interrupts, () if is_finished(spec, state) else driver.stopped_by)
        return finish(spec, ledger, state, console, interrupts, publisher)
