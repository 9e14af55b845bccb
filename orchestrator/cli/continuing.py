"""Define the commands that train more of an existing sweep: resume, extend, confirm."""

from functools import partial
from typing import Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.sweep_command import SweepTyper
from orchestrator.errors import UserError
from orchestrator.record.ledger.lock import refuse_running
from orchestrator.text.consoles import make_console

app = SweepTyper()
console = make_console()


@app.command(
    rich_help_panel=options.CONTINUE, examples=("quickstart", "quickstart --retry-failed --accept-code-change")
)
def resume(
    folder: options.SweepFolder,
    tracking_uri: options.TrackingUri = None,
    notify: options.Notify = None,
    overrides: options.Overrides = None,
    retry_failed: options.RetryFailed = False,
    accept_code_change: options.AcceptCodeChange = False,
    max_time: options.MaxTime = None,
    storage: options.SweepStorage = None,
    trust: options.Trust = False,
) -> None:
    """Resume a sweep that was interrupted or killed.

    --set may only change resources, budget, tracking, notify.
    """
    # Importing torch takes seconds, so refuse a running sweep first.
    refuse_running(folder)
    from orchestrator.sweep.run_and_resume import resume_sweep

    outcome = resume_sweep(
        folder,
        console,
        options.add_uris(overrides, tracking_uri, notify),
        retry_failed=retry_failed,
        accept_code_change=accept_code_change,
        max_seconds=options.parse_duration(max_time),
    )
    raise typer.Exit(outcome.exit_code)


@app.command(rich_help_panel=options.CONTINUE, examples=("quickstart --seeds 10", "quickstart --configurations 24"))
def extend(
    folder: options.SweepFolder,
    seeds: options.MoreSeeds = None,
    configurations: Annotated[
        int | None, typer.Option(metavar="N", help="Draw up to N configurations (search.configurations).")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Train up to N steps, in a new sweep <sweep>-steps-N.")
    ] = None,
    top: options.TopToExtend = None,
    configuration: options.ConfigurationsToExtend = None,
    name: Annotated[str | None, typer.Option(help="With --steps: name of the new sweep.")] = None,
    tracking_uri: options.TrackingUri = None,
    notify: options.Notify = None,
    overrides: options.Overrides = None,
    accept_code_change: options.AcceptCodeChange = False,
    max_time: options.MaxTime = None,
    storage: options.SweepStorage = None,
    trust: options.Trust = False,
) -> None:
    """Add seeds, configurations, values or steps to a sweep.

    Trains what was added. --set may also change space, resources ...
    """
    # More steps would change recorded results, so they make a new sweep; seeds and configurations are added to this.
    if steps is not None:
        if seeds is not None or configurations is not None or accept_code_change:
            raise UserError("--steps: not allowed with --seeds, --configurations or --accept-code-change")
        from orchestrator.sweep.more_steps import extend_steps, plan_more_steps

        plan = partial(
            plan_more_steps,
            steps=steps,
            top=top,
            labels=configuration or (),
            name=name,
            overrides=options.add_uris(overrides, tracking_uri, notify),
        )
        outcome = extend_steps(folder, console, plan, max_seconds=options.parse_duration(max_time))
        raise typer.Exit(outcome.exit_code)

    # Only a new sweep can be given a name.
    if name is not None:
        raise UserError("--name: only allowed with --steps, which makes a new sweep")
    refuse_running(folder)
    from orchestrator.sweep.extend import extend_sweep

    outcome = extend_sweep(
        folder,
        console,
        seeds=seeds,
        configurations=configurations,
        top=top,
        labels=configuration or (),
        overrides=options.add_uris(overrides, tracking_uri, notify),
        accept_code_change=accept_code_change,
        max_seconds=options.parse_duration(max_time),
    )
    raise typer.Exit(outcome.exit_code)


@app.command(rich_help_panel=options.CONTINUE, examples=("quickstart --top 3 --seeds 10",))
def confirm(
    folder: options.SweepFolder,
    top: Annotated[
        int | None,
        typer.Option(help="The number of configurations, best first by the sweep's objective; by default 3."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="The number of fresh seeds, or the seeds: 100-109 or 100,103.")] = "10",
    configuration: options.Configurations = None,
    name: Annotated[str | None, typer.Option(help="Name of the confirmation; by default <sweep>-confirm.")] = None,
    allow_unfinished: Annotated[bool, typer.Option(help="Confirm a sweep that is not finished.")] = False,
    tracking_uri: options.TrackingUri = None,
    notify: options.Notify = None,
    overrides: options.Overrides = None,
    max_time: options.MaxTime = None,
    storage: options.SweepStorage = None,
    trust: options.Trust = False,
) -> None:
    """Train the best configurations again, on fresh seeds.

    --set may only change resources, budget, tracking, notify.
    """
    # The plan depends on the results of the sweep, so `confirm_sweep` calls it once they are read.
    from orchestrator.sweep.confirm import confirm_sweep, plan_confirmation

    plan = partial(
        plan_confirmation,
        top=top,
        seeds=seeds,
        labels=configuration or (),
        name=name,
        allow_unfinished=allow_unfinished,
        overrides=options.add_uris(overrides, tracking_uri, notify),
    )
    outcome = confirm_sweep(folder, console, plan, max_seconds=options.parse_duration(max_time))
    raise typer.Exit(outcome.exit_code)
