"""Define arguments and options that several commands share or that have long help texts.

An option is a parameter of its command, which passes it on. Keys of the sweep file need no option: `--set KEY=VALUE`.
"""

import math
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import (
    find_default_storage,
    find_storage,
    is_bare_name,
    resolve_folder,
    use_storage,
)
from orchestrator.text.redaction import URI_VARIABLE
from search_spaces.grammar.parse import quote_text
from search_spaces.grammar.shipped import find_sweep_file
from search_spaces.grammar.values import (
    STORES,
    WEB_ADDRESSES,
    find_store_problem,
    is_web_address,
    make_store_absolute,
)

# The panels of the help.
BEGIN, LOOK, CONTINUE, EXPORT, MAINTENANCE = ("begin", "look", "continue", "export", "maintenance")


def _choose_storage(ctx: typer.Context, storage: str | None) -> str | None:
    """Use a storage folder for the rest of the command, and return it."""
    # The option is eager, so that DIR, which is parsed later, is found in this folder.
    if storage is not None:
        ctx.with_resource(use_storage(storage))
    return storage


def _find_sweep(ctx: typer.Context, sweep: str) -> Path:
    """Return the folder of a sweep; uses --storage and --trust, which are parsed before.

    Raises UserError for a path or address outside of --storage, and what `find_sweep` raises.
    """
    from orchestrator.mirror.fetch import find_sweep

    storage, path = ctx.params.get("storage"), resolve_folder(sweep)
    if storage and not is_bare_name(sweep) and path.absolute().parent.resolve() != find_default_storage().resolve():
        raise UserError(
            f"{sweep}: not in --storage {storage}; leave out --storage, or give the name {path.resolve().name}"
        )

    folder = find_sweep(sweep)
    if ctx.params.get("trust"):
        from orchestrator.code.trust import trust_sweep
        from orchestrator.record.state.state import SweepState

        trust_sweep(SweepState.load(folder))
    return folder


def parse_store(uri: str) -> str:
    """Return an MLflow address with an absolute path; "" is the default store. Raises UserError for an invalid one."""
    if uri and (problem := find_store_problem(uri)):
        raise UserError(f"--tracking-uri {uri!r} {problem}; allowed: {STORES}")
    return make_store_absolute(uri)


def _check_notify(address: str) -> str:
    """Return a webhook address; "" means none. Raises UserError for an invalid address, without showing it."""
    if address and not is_web_address(address):
        raise UserError(f"--notify: not an http or https address; allowed: {WEB_ADDRESSES}")
    return address


SweepFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A sweep file (YAML), or the name of an example (`lengthwise list examples`).",
        parser=find_sweep_file,
    ),
]
SweepFiles = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Sweep files (YAML), or names of examples.", parser=find_sweep_file),
]
SweepFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="A sweep directory, its address, or its name in the storage folder.",
        parser=str,
        callback=_find_sweep,
    ),
]
OptionalSweepFolder = Annotated[
    Path | None,
    typer.Argument(
        metavar="DIR",
        help="A sweep directory, its address, or its name in the storage folder; by default all sweeps there.",
        parser=str,
        callback=lambda ctx, sweep: None if sweep is None else _find_sweep(ctx, sweep),
    ),
]
SweepStorage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="PATH",
        is_eager=True,
        callback=_choose_storage,
        help="Folder or address that holds the sweep; by default sweeps/.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", is_eager=True, help="Run the code of a sweep that another user began; this is remembered."),
]
Storage = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        parser=find_storage,
        help="Folder or address that holds the sweeps; by default sweeps/, inside a Ray job ~/lengthwise-sweeps.",
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        metavar="URI",
        parser=parse_store,
        help="MLflow; by default MLFLOW_TRACKING_URI, else a SQLite file in the storage folder.",
    ),
]
Notify = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        parser=_check_notify,
        help="Webhook, such as Slack's, that gets a JSON POST when the sweep ends or is stopped.",
    ),
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the sweep instead of the one in the file.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the file; may be repeated.")
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import", metavar="MODULE", help="A Python module with tasks, models ... of your own; may be repeated."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the sweep if it has begun already.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Also train crashed seeds again, not diverged ones.")]
AcceptCodeChange = Annotated[
    bool,
    typer.Option(
        "--accept-code-change",
        help="Continue although code of the sweep is missing or has changed; recorded in the ledger.",
    ),
]
Configurations = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONFIGURATION",
        help="Confirm this one, such as 7 for #7, and not the best; may be repeated.",
    ),
]
MaxTime = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stop after this time, such as 30m or 1h30m; resume later.")
]
MoreSeeds = Annotated[
    str | None,
    typer.Option(metavar="SEEDS", help="12 for 12 seeds in all; +6 for 6 more; 20-29 or 20,23 for these."),
]
TopToExtend = Annotated[
    int | None,
    typer.Option(metavar="N", help="Add seeds or steps only to the N configurations ranked first."),
]
ConfigurationsToExtend = Annotated[
    list[str] | None,
    typer.Option(
        "--configuration",
        metavar="CONFIGURATION",
        help="Add seeds or steps only to this configuration, such as 7 for #7; may be repeated.",
    ),
]
ComparedNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="A B | SWEEP",
        help="Two configurations by number or config_id (in another sweep: FOLDER/CONFIGURATION), or other sweeps.",
    ),
]
Smoke = Annotated[
    bool,
    typer.Option("--smoke", help="Also train and evaluate every structure for one step, in this process."),
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", help="Show its progress while it runs, here or elsewhere; Ctrl-C does not stop the sweep."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Trace = Annotated[bool, typer.Option("--trace", help="Also show the tracebacks of crashed seeds.")]


def parse_duration(text: str | None) -> float | None:
    """Return a duration in seconds: parse_duration("1h30m") -> 5400.0. Raises UserError for other texts."""
    if text is None:
        return None

    # Each of hours, minutes and seconds is optional; zero is refused, because a sweep that stops at once is a mistake.
    parts = "".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in "hms")
    match = re.fullmatch(rf"(?=\d){parts}", text.strip(), re.ASCII)
    seconds = (
        sum(float(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0
    )
    if not 0 < seconds < math.inf:
        allowed = "hours, minutes and seconds such as 2h, 1h30m or 90s"
        raise UserError(f"--max-time {text!r}: not a duration; allowed: {allowed}")
    return seconds


def add_uris(overrides: list[str] | None, uri: str | None, notify: str | None = None) -> list[str]:
    """Return the overrides, followed by the overrides of --tracking-uri and --notify."""
    # An empty address means the default store, not the store in MLflow's variable.
    if uri == "":
        os.environ.pop(URI_VARIABLE, None)

    settings = {"tracking.uri": uri, "notify": notify}
    added = [f"{key}={quote_text(value) if value else ''}" for key, value in settings.items() if value is not None]
    return [*(overrides or ()), *added]
