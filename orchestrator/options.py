"""Arguments and options of the command line: those that several verbs take, and those with much to say."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.record.ledger.folders import found_in_storage
from orchestrator.redaction import remember
from search_spaces.grammar.text.overrides import quote_text

SweepFile = Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file (YAML).")]
SweepFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A sweep directory, or the name of one in the storage folder.", callback=found_in_storage
    ),
]
Storage = Annotated[
    Path | None,
    typer.Option(help="Folder that holds the sweeps; by default sweeps/, inside a Ray job ~/lengthwise-sweeps."),
]
TrackingUri = Annotated[str | None, typer.Option(help="MLflow; by default a SQLite file in the storage folder.")]
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
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Also try again packs that died of an error and were given up.")
]
AcceptCodeChange = Annotated[
    bool,
    typer.Option(
        "--accept-code-change",
        help="Go on although code that the sweep is trained with is missing or has changed; recorded.",
    ),
]
Maps = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONFIGURATION", help="Also draw maps of its kept weights, such as 7 for #7; may be repeated."
    ),
]
Configurations = Annotated[
    list[str] | None,
    typer.Option(metavar="CONFIGURATION", help="One to confirm instead of the first ones; may be repeated."),
]
Compared = Annotated[
    str, typer.Argument(metavar="CONFIGURATION", help="Number or config_id; of another sweep: FOLDER/CONFIGURATION.")
]
Smoke = Annotated[
    bool,
    typer.Option("--smoke", help="Also train every structure for one step and evaluate it once, in this process."),
]
Trace = Annotated[bool, typer.Option("--trace", help="Also show the tracebacks of packs that died.")]
Lengths = Annotated[str | None, typer.Option(help="Evaluated lengths to measure, such as 5,50; by default up to four.")]
Source = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Prepare missing texts from this folder: a data set and a tokenizer.json."),
]


def with_uri(overrides: list[str] | None, uri: str | None) -> list[str]:
    """Overrides, with what --tracking-uri says as one more."""
    remember(uri)
    return [*(overrides or ()), *([f"tracking.uri={quote_text(uri) if uri else ''}"] if uri is not None else [])]
