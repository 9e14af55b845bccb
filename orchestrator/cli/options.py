"""Arguments and options of the command line: shared ones, and those with long help texts."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import chosen_storage, default_storage, find_storage, is_name, resolve_place
from orchestrator.redaction import URI_VARIABLE
from search_spaces.grammar.shipped import find_sweep_file
from search_spaces.grammar.spec.values import (
    STORES,
    WEB_ADDRESSES,
    is_web_address,
    make_store_absolute,
    store_problem,
)
from search_spaces.grammar.text.overrides import quote_text


def _find_sweep(named: str) -> Path:
    from orchestrator.mirror.fetch import find_sweep

    return find_sweep(named)


def _check_store(uri: str) -> str:
    """Return an address of MLflow as it is; "" is the default. Raises UserError if it cannot be one."""
    if uri and (problem := store_problem(uri)):
        raise UserError(f"--tracking-uri {uri!r} {problem}; allowed: {STORES}")
    return uri


def parse_store(uri: str) -> str:
    """Return an address of MLflow for any current folder; "" is the default. Raises UserError if it cannot be one."""
    return make_store_absolute(_check_store(uri))


def _check_notify(address: str) -> str:
    """Return an address for notices; "" is none. Raises UserError, which does not show it, if it cannot be one."""
    if address and not is_web_address(address):
        raise UserError(f"--notify: is not an http or https address; allowed: {WEB_ADDRESSES}")
    return address


SweepFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A sweep file (YAML), or the name of one that `lengthwise list examples` shows.",
        parser=find_sweep_file,
    ),
]
SweepFiles = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Sweep files (YAML), or names of examples.", parser=find_sweep_file),
]
SweepFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A sweep directory, its address, or its name in the storage folder.", parser=_find_sweep
    ),
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
        metavar="URL", parser=_check_notify, help="Gets a JSON POST (Slack's, too) when the sweep ends or is stopped."
    ),
]
Name = Annotated[str | None, typer.Option(help="Name of the sweep instead of the one in the file.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the file; may be repeated.")
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import", metavar="MODULE", help="A Python module with tasks, models ... of your own; may be repeated."
    ),
]
ResumeBegun = Annotated[bool, typer.Option("--resume", help="Resume the sweep if this command has begun it already.")]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Also try again packs that died of an error and were given up.")
]
AcceptCodeChange = Annotated[
    bool,
    typer.Option(
        "--accept-code-change",
        help="Continue although code of the sweep is missing or has changed; this is recorded.",
    ),
]
Configurations = Annotated[
    list[str] | None,
    typer.Option(metavar="CONFIGURATION", help="Confirm this one instead of the best ones; may be repeated."),
]
MaxTime = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stop after this time, such as 30m or 1h30m, to be resumed later.")
]
MoreSeeds = Annotated[
    str | None,
    typer.Option(metavar="SEEDS", help="12: 12 in all; +6: 6 more; 20-29 or 20,23: these."),
]
ExtendedTop = Annotated[
    int | None,
    typer.Option(metavar="N", help="Give the seeds or steps to the N configurations ranked first, and no others."),
]
Extended = Annotated[
    list[str] | None,
    typer.Option(
        "--configuration",
        metavar="CONFIGURATION",
        help="Give the seeds or steps to this one, such as 7 for #7; may be repeated.",
    ),
]
Compared = Annotated[
    list[str],
    typer.Argument(
        metavar="CONFIGURATION CONFIGURATION | SWEEP...",
        help="Two by number or config_id, one of another sweep as FOLDER/CONFIGURATION. Or other sweeps.",
    ),
]
Smoke = Annotated[
    bool,
    typer.Option("--smoke", help="Also train every structure for one step and evaluate it once, in this process."),
]
Follow = Annotated[
    bool, typer.Option("--follow", help="While it runs, here or elsewhere, show its progress; Ctrl-C only ends this.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Trace = Annotated[bool, typer.Option("--trace", help="Also show the tracebacks of packs that died.")]


_of_sweeps = typer.Typer(add_completion=False)


@_of_sweeps.command()
def _options_of_sweeps(
    name: Annotated[str | None, typer.Option(help="The sweep by name, in the storage folder, instead of DIR.")] = None,
    storage: Annotated[Path | None, typer.Option(help="Folder that holds the sweeps; by default sweeps/.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let code of a sweep that somebody else began run here, from now on.")
    ] = False,
) -> None:
    """Declare the options that `SweepVerb` and `CodeVerb` add to verbs that take a sweep."""


class SweepVerb(TyperCommand):
    """A verb whose first argument is a sweep; --name says it by its name, --storage where it is looked for."""

    added: tuple[str, ...] = ("name", "storage")

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        known = {one.name for one in self.params}
        self._added = [
            one for one in typer.main.get_command(_of_sweeps).params if one.name in self.added and one.name not in known
        ]
        for one in self._added:
            one.expose_value = False  # `parse_args` has used it
        self.params += self._added

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the folder that --name means before the other arguments. Raises UserError for a path not in --storage."""
        parsed, *_ = self.make_parser(ctx).parse_args(args=list(args))
        given: dict[str, str] = {str(one.name): parsed.get(one.name) or "" for one in self._added}
        if storage := given.get("storage"):
            ctx.with_resource(chosen_storage(storage))
        if given.get("name"):
            args = [str(default_storage() / given["name"]), *args]
        elif storage and isinstance(named := parsed.get("folder"), str):
            _refuse_elsewhere(named, storage)
        return super().parse_args(ctx, args)


class CodeVerb(SweepVerb):
    """A verb that may import code of the sweep."""

    added = (*SweepVerb.added, "trust")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember that the sweep is trusted, if --trust is given."""
        is_trusted = "--trust" in args  # before the parser takes them from the list
        rest = super().parse_args(ctx, args)
        if is_trusted:
            from orchestrator.record.state.state import SweepState
            from orchestrator.trust import trust_sweep

            trust_sweep(SweepState.load(ctx.params["folder"]))
        return rest


def _refuse_elsewhere(named: str, storage: str) -> None:
    """Raise UserError for a sweep that is given by its path or address, beside a storage that does not hold it."""
    folder = resolve_place(named)
    if not is_name(named) and folder.absolute().parent.resolve() != default_storage().resolve():
        raise UserError(
            f"{named} says where the sweep is, and --storage {storage} another place; "
            f"leave out --storage, or give the name of a sweep there, such as {folder.resolve().name}"
        )


def in_seconds(time: str | None) -> float | None:
    """Return a time as seconds: in_seconds("1h30m") -> 5400.0. Raises UserError for anything else."""
    if time is None:
        return None
    found = re.fullmatch(r"(?=\d)(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", time.strip())
    seconds = (
        sum(float(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1), strict=True)) if found else 0
    )
    if not seconds:
        allowed = "hours, minutes and seconds such as 2h, 1h30m or 90s"
        raise UserError(f"--max-time {time!r} is not a duration; allowed: {allowed}")
    return seconds


def with_uri(overrides: list[str] | None, uri: str | None, notify: str | None = None) -> list[str]:
    """Return the overrides, with the values of --tracking-uri and --notify as further ones."""
    if uri == "":  # the default, whatever MLflow's variable names
        os.environ.pop(URI_VARIABLE, None)
    given = {"tracking.uri": uri, "notify": notify}
    added = [f"{key}={quote_text(value) if value else ''}" for key, value in given.items() if value is not None]
    return [*(overrides or ()), *added]
