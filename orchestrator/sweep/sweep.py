"""The story of a sweep: plan it, record where it came from, run its packs, score, publish, draw.

`run_sweep` begins one and `resume_sweep` goes on with one; from then on they are the same, and whatever happens is in
the ledger before anything else hears of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.claims.registration import KEPT, register
from orchestrator.code.code_record import begin_reading, record_code, recorded_folders
from orchestrator.code.own_code import import_for
from orchestrator.code.provenance import provenance
from orchestrator.consoles import say
from orchestrator.errors import DamagedLedger, LedgerError, SpecChanged, SweepExists
from orchestrator.plan import search
from orchestrator.plan.configurations import Configuration, warnings_for
from orchestrator.plan.packs import packing
from orchestrator.plan.recorded import member_of, refuse_corrected, refuse_too_large, refuse_without_data
from orchestrator.plan.soundness import check
from orchestrator.record.kept.code import import_to_resume
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.redaction import masked_spec
from orchestrator.results.comparing.shared_streams import parameters_by_structure
from orchestrator.running.driving.driver import SweepDriver, is_finished
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.running.driving.sampler import as_configuration
from orchestrator.running.hosts.host import end_unused, hosted
from orchestrator.running.schedulers.choice import chosen, opened, refuse_what_cannot_run
from orchestrator.running.watching.meter import Meter
from orchestrator.running.watching.progress import Progress
from orchestrator.sweep.closing import closing_for
from orchestrator.sweep.ending import Outcome, drive_to_an_end, finish, interruption_recorded, publish_with, record_end
from orchestrator.tracking.publisher import SweepPublishing
from orchestrator.wording import command, counted
from search_spaces import SweepFileError, SweepSpec, differences, dump_yaml, load_sweep, parse_recorded
from trainers.config.member import MemberConfig
from trainers.files.atomic_file import write_whole

SPEC_FILE = "sweep.yaml"


def run_sweep(spec: SweepSpec, storage: Path, console: Console, origin: Mapping[str, Any] | None = None) -> Outcome:
    """Run a sweep in a new folder of `storage`; `origin` is added to what the ledger keeps of where it came from.

    Raises SweepFileError for anything in the spec that cannot be built, UserError for resources that are not here,
    SweepExists or SpecChanged when the folder holds a sweep already, LedgerError when it cannot be written. Nothing is
    written before all but the last are ruled out.
    """
    folder = storage / spec.name
    refuse_existing(spec, folder)
    refuse_what_cannot_run(spec.resources)
    registered = register(spec)
    with begin_reading(spec.folder) as reading:  # git, beside what follows
        sources = import_for(spec)
        configurations = check(spec)
        for warning in warnings_for(spec, configurations[0].member(spec.seeds[0])):
            say(console, f"warning: {warning}")
        code = record_code(reading.read(), sources)
    first: dict[str, Any] = {
        "name": spec.name,
        "study": spec.study,
        "spec": spec.resolved(),
        "spec_hash": spec.spec_hash,
        "provenance": {**provenance(), **(origin or {})},
        "code": code.fields,
    }
    if registered:
        first["claims"] = registered[0]

    def drive(ledger: Ledger, interrupts: Interrupts) -> Outcome:
        _write_spec(spec.resolved(), folder)
        if registered:
            write_whole(folder / KEPT, [registered[1]])
            say(console, f"{counted(len(registered[0]), 'claim')} registered")
        code.write_copies(folder)
        say(console, f"sweep {spec.name} in {folder.resolve()}")
        examples = (one.member(spec.seeds[0]) for one in configurations)
        return _drive(spec, ledger, SweepState.load(folder), console, interrupts, examples, configurations)

    return drive_to_an_end(lambda: Ledger.create(folder, first), console, drive)


def resume_sweep(
    folder: Path,
    console: Console,
    overrides: Sequence[str] = (),
    *,
    retry_failed: bool = False,
    accept_code_change: bool = False,
) -> Outcome:
    """Go on with the sweep in `folder`; what is finished is not done again.

    With `retry_failed` packs that were given up are tried again, from their newest checkpoints, and their
    configurations are scored anew; seeds that diverged stay failed. A sampler that learns from scores keeps what it
    has drawn.

    Where code that the sweep is trained with is missing or has changed, `accept_code_change` goes on all the same and
    records what it goes on with.

    Raises NotASweep, SweepLocked, DamagedLedger, OwnCodeError for such code, and SpecChanged when
    sweep.yaml or `overrides` change more than resources and tracking.
    """

    def drive(ledger: Ledger, interrupts: Interrupts) -> Outcome:
        if ledger.notice:
            say(console, ledger.notice)
        state = SweepState.load(folder)
        if not (folder / SPEC_FILE).exists():
            _write_spec(state.spec, folder)
        spec = load_sweep(folder / SPEC_FILE, overrides)
        _refuse_changed(spec, state)
        refuse_what_cannot_run(spec.resources)
        going_on = not is_finished(spec, state) or (retry_failed and bool(state.deaths))
        if going_on:
            sources, notes = import_to_resume(state, accept_change=accept_code_change)
            for note in notes:
                say(console, note)
            recorded = [as_configuration(one) for one in state.configurations.values()]
            refuse_corrected(recorded, f"{folder} cannot be resumed")
            refuse_without_data(recorded, f"{folder} cannot be resumed")
            refuse_too_large(recorded, f"{folder} cannot be resumed")
            with begin_reading(*recorded_folders(state.codes)) as reading:
                code = record_code(reading.read(), sources)
            code.write_copies(folder)
        if retry_failed:
            _reopen(ledger, state, console)
        done = sum(found.finished for found in state.configurations.values())
        share = f"{done} of {search.total(spec)} configurations are done"
        say(console, f"sweep {spec.name} in {folder.resolve()}: {share}")
        if going_on:
            state.apply(ledger.append("resume", provenance=provenance(), code=code.fields))
        return _drive(spec, ledger, state, console, interrupts, _recorded_members(spec, state))

    return drive_to_an_end(lambda: Ledger.open(folder), console, drive)


def _recorded_members(spec: SweepSpec, state: SweepState) -> Iterator[MemberConfig]:
    """A member of each recorded configuration; where there is none yet, of each that will be drawn first."""
    if state.configurations:
        yield from (member_of(one) for one in state.configurations.values())
    else:
        yield from (one.member(spec.seeds[0]) for one in check(spec))


def refuse_existing(spec: SweepSpec, folder: Path) -> None:
    """Raise SpecChanged with the differences, or SweepExists, when `folder` holds a sweep already."""
    if has_ledger(folder):
        _refuse_changed(spec, SweepState.load(folder))
        raise SweepExists(f"{folder} holds this sweep already; go on with it by: {command('resume', folder)}")


def _refuse_changed(spec: SweepSpec, state: SweepState) -> None:
    """Raise SpecChanged when a sweep was begun with what computes something else."""
    try:
        recorded = parse_recorded(state.spec, "the specification")
    except SweepFileError as error:
        raise DamagedLedger(state.folder / LEDGER_FILE, 1, f"this version cannot read\n{error}") from None
    if changes := differences(recorded, spec):
        raise SpecChanged(state.folder, changes)


def _reopen(ledger: Ledger, state: SweepState, console: Console) -> None:
    pack_ids = [pack_id for pack_id, _ in state.deaths]
    if pack_ids:
        state.apply(ledger.append("retry", pack_ids=pack_ids))
        say(console, f"{counted(len(pack_ids), 'pack')} that died will be tried again")
    else:
        say(console, "no pack has died; there is nothing to try again")


def _drive(
    spec: SweepSpec,
    ledger: Ledger,
    state: SweepState,
    console: Console,
    interrupts: Interrupts,
    examples: Iterator[MemberConfig],
    built: Sequence[Configuration] = (),
) -> Outcome:
    """From a ledger to the end of its sweep; its members are like `examples`.

    `built` are its first configurations, where they were just built.
    """
    progress, meter = Progress(console, spec.name), Meter(state)
    with ExitStack() as opens:
        publishing, closing = SweepPublishing(spec, ledger.folder, publish_with(spec, ledger.folder)), None

        def tick(driver: SweepDriver) -> None:
            interrupts.check()
            if progress.due:
                progress.show(meter.snapshot(driver))

        if not is_finished(spec, state):
            name, _ = chosen(spec, examples)
            host = opens.enter_context(hosted()) if name == "local" else None
            if name != "inline":
                closing = opens.enter_context(closing_for(spec, ledger.folder))
                publishing = SweepPublishing(spec, ledger.folder, publish_with(spec, ledger.folder, closing))
            end_unused()  # the host of workers, where auto came out as Ray
            with opened(name, spec.resources, host) as scheduler:
                interrupts.install()  # ray.init has put its own handlers in their place
                cluster = scheduler.cluster
                progress.say(f"{cluster.description}: up to {counted(cluster.workers, 'pack')} at once")
                driver = SweepDriver(
                    spec,
                    ledger,
                    state,
                    pack=packing(spec, cluster),
                    built=built,
                    held=interrupts.held,
                    seen=publishing.seen,
                    say=progress.say,
                    tick=tick,
                )
                with progress.showing(), interruption_recorded(ledger, state, interrupts):
                    scheduler.run(driver)
                    record_end(ledger, state, interrupts)
                if closing is not None:
                    publishing.stop()
                    closing.begin(console, parameters_by_structure(state))  # while the scheduler ends
        return finish(ledger, state, console, publishing, interrupts, closing)


def _write_spec(spec: dict[str, Any], folder: Path) -> None:
    path = folder / SPEC_FILE
    try:
        write_whole(path, [dump_yaml(masked_spec(spec)).encode()])
    except OSError as error:
        raise LedgerError(f"{path}: cannot be written: {error.strerror}") from error
