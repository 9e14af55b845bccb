"""Train the planned members that are not in the ledger, for `run`, `resume` and `extend`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext

from orchestrator.interface.trainer import Member
from orchestrator.mirror.mirrored_ledger import copy_at_start
from orchestrator.plan import optuna_draws
from orchestrator.plan.checks.sweep_file_checks import build_first_generation
from orchestrator.plan.configurations import Configuration
from orchestrator.plan.packing.packs import Packer
from orchestrator.plan.recorded_configurations import rebuild_member
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.driver import SweepDriver
from orchestrator.running.driving.racing import has_race_ended
from orchestrator.running.schedulers.choice import choose_scheduler, describe_hidden_gpus, open_scheduler
from orchestrator.running.watching.meter import SpeedMeter
from orchestrator.running.watching.progress import ProgressDisplay
from orchestrator.session.finish import finish_sweep
from orchestrator.session.running_page import RunningPage
from orchestrator.session.session import Outcome, Session
from orchestrator.sweep.children import SweepChildren
from orchestrator.sweep.specification import resolve_tracking_uri
from orchestrator.text.wording import format_count
from orchestrator.tracking.publisher import Publisher
from orchestrator.trainer_choice import name_pack
from search_spaces import SweepSpec


def is_sweep_complete(spec: SweepSpec, state: SweepState) -> bool:
    """Return whether all configurations are scored or pruned, and nothing is left to train."""
    all_scored = all(configuration.has_ended for configuration in state.configurations.values())
    return all_scored and is_training_complete(spec, state)


def is_training_complete(spec: SweepSpec, state: SweepState) -> bool:
    """Return whether all configurations are drawn, all their seeds and all packs ended, and no round follows."""
    all_drawn = len(state.draws) == optuna_draws.count_configurations(spec)
    all_trained = all(
        configuration.has_ended or state.have_all_seeds_ended(configuration)
        for configuration in state.configurations.values()
    )
    all_ended = all(pack.has_ended for pack in state.packs.values())  # also packs of pruned configurations
    return all_drawn and all_trained and all_ended and has_race_ended(state)


def _yield_sample_members(
    spec: SweepSpec, state: SweepState, first_generation: Sequence[Configuration]
) -> Iterator[Member]:
    """Yield a member of each recorded configuration, or of each first configuration if none is recorded."""
    if state.configurations:
        yield from (rebuild_member(configuration) for configuration in state.configurations.values())
    else:
        yield from (
            configuration.build_member(spec.seeds[0])
            for configuration in first_generation or build_first_generation(spec)
        )


def train_missing(
    session: Session,
    spec: SweepSpec,
    state: SweepState,
    first_generation: Sequence[Configuration] = (),
    children: SweepChildren | None = None,
    *,
    max_seconds: float | None = None,
) -> Outcome:
    """Train the members of `spec` that the session's ledger does not have, then end the sweep.

    `first_generation`: the configurations of the first generation, if the check of `spec` has built them. For
    `children` and `max_seconds` see `run_sweep`.
    """
    spec, publisher = resolve_tracking_uri(spec), None
    with ExitStack() as exit_stack:
        if not is_sweep_complete(spec, state):
            # Child processes import while the scheduler starts.
            scheduler_name, _ = choose_scheduler(spec, _yield_sample_members(spec, state, first_generation))
            if children is None:
                children = exit_stack.enter_context(SweepChildren(scheduler_name, tracking=spec.tracking.enabled))
            children.close_unneeded_host(scheduler_name)
            publisher = children.publisher
            if publisher is not None:
                publisher.start(session.folder, spec.tracking)

            _run_driver(session, spec, state, scheduler_name, children, first_generation, max_seconds)
        return finish_sweep(session, spec, state, publisher)


def _report_refusals(session: Session, publisher: Publisher) -> None:
    """Print why MLflow rejected the user, if it did since the last call."""
    for refusal in publisher.read_refusals():
        first_line, *details = f"not published: {refusal}".splitlines()
        session.say("\n".join([f"{first_line}; training continues", *details]))


def _run_driver(
    session: Session,
    spec: SweepSpec,
    state: SweepState,
    scheduler_name: str,
    children: SweepChildren,
    first_generation: Sequence[Configuration],
    max_seconds: float | None,
) -> None:
    """Run the driver of the sweep on a scheduler, show its progress, and record how the sweep ended."""
    # The scheduler is opened first: packs are made for the workers of its cluster.
    publisher = children.publisher
    start_worker = children.workers.start_worker if children.workers else None
    with open_scheduler(scheduler_name, spec.resources, start_worker) as scheduler:
        session.interrupts.install_handlers()  # again, because ray.init replaces handlers
        cluster = scheduler.cluster
        session.say(f"{cluster.description}: up to {format_count(cluster.workers, name_pack(spec.sections))} at once")
        if hidden := describe_hidden_gpus(spec, scheduler_name):
            session.say(f"note: {hidden}")
        display, meter = ProgressDisplay(session.console, spec.name), SpeedMeter(state)

        # A short sweep in this process needs no page until it ends.
        page = RunningPage(session.folder) if scheduler_name != "inline" else None

        def tick(driver: SweepDriver) -> None:
            """Redraw the display if due, and report rejections by MLflow. Raises KeyboardInterrupt after a signal."""
            session.interrupts.raise_if_interrupted()
            display.show_if_due(lambda: meter.make_rows(state, driver.running, page.interim_best if page else ""))
            if publisher is not None:
                _report_refusals(session, publisher)

        # The packer knows the recorded shortages, so that no pack runs out of memory a second time.
        driver = SweepDriver(
            spec,
            session.ledger,
            state,
            packer=Packer(spec, cluster, [repacking.shortage for repacking in state.repackings if repacking.shortage]),
            workers=cluster.workers,
            max_seconds=max_seconds,
            first_generation=first_generation,
            hold_signals=session.interrupts.hold_signals,
            say=session.say,
            tick=tick,
        )

        # A sweep at an address is copied there before it trains.
        if warning := copy_at_start(session.ledger):
            session.say(f"warning: {warning}")

        with page or nullcontext(), display.show_live(), session.record_if_interrupted(state):
            scheduler.run(driver)
            driver.remove_stop_file()
            session.record_end(state, () if is_sweep_complete(spec, state) else driver.stopped_by)
        if publisher is not None:
            publisher.announce("end")  # while the scheduler ends and the report is written
