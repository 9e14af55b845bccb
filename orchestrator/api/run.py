"""Run a sweep file, or a dictionary with its sections."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.api.plain import to_json
from orchestrator.api.sweep import Sweep
from orchestrator.record.ledger.folders import find_default_storage, find_storage
from orchestrator.text.consoles import make_console, say
from search_spaces import SweepSpec
from search_spaces.grammar.load import read_sections, read_sweep
from search_spaces.grammar.shipped import find_sweep_file

DICTIONARY = "the dictionary"


def run(
    file: str | Path | Mapping[str, Any],
    *,
    storage: str | Path | None = None,
    name: str | None = None,
    imports: Sequence[str] = (),
    console: Console | None = None,
    **overrides: Any,
) -> Sweep:
    """Run a sweep in a new folder of `storage`, from its beginning to its report, and return it.

    `file` is a sweep file, the name of a shipped one, or a dictionary with its sections. `overrides` replace values:
    `seeds=2`, or for dotted keys `**{"training.steps": 20}`. `storage`, `name` and `imports` are as in `lengthwise
    run`; `console` prints progress, by default on stdout. The returned sweep may have failed or been interrupted, as
    its `status` says.

    Raises SweepFileError for a file, dictionary or overrides that cannot be run here, SweepExists or SpecChanged if the
    folder already holds a sweep, LedgerError if the folder cannot be written.
    """
    folder = find_storage(storage) if storage is not None else find_default_storage()
    spec = _load_spec(file, [f"{key}={to_json(key, value)}" for key, value in overrides.items()], name, imports, folder)
    console = console or make_console()
    for note in spec.notes:
        say(console, f"note: {note}")

    from orchestrator.sweep.run_and_resume import run_sweep  # imports the schedulers

    return Sweep(run_sweep(spec, folder, console).folder)


def _load_spec(
    file: str | Path | Mapping[str, Any],
    overrides: Sequence[str],
    name: str | None,
    imports: Sequence[str],
    storage: Path,
) -> SweepSpec:
    """Return the checked specification of a sweep file or dictionary."""
    # JSON turns numpy values, tuples and paths into the plain values that a YAML file has.
    if isinstance(file, Mapping):
        reading = read_sections(json.loads(to_json(DICTIONARY, file)), DICTIONARY, overrides, name, imports)
    else:
        reading = read_sweep(find_sweep_file(file), overrides, name, imports)

    # The registries know the names and bounds that the grammar does not.
    from orchestrator.sweep.check_sweep_file import check_sweep_file  # imports the registries

    return check_sweep_file(reading, storage)
