"""Read results of other tools as rows of a tidy table: Weights & Biases histories, Ray Tune folders, MLflow runs.

These tools have the length of a value in the metric's name or as its step. A pattern with named groups says which names
are metrics and what their parts mean: `length`, `metric`, `average`, `seed`, `step`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.errors import UserError
from orchestrator.importing.table import NO_LENGTH, VALUE_COLUMNS, ImportedRows, make_plain_value, read_table
from orchestrator.text.wording import format_count
from orchestrator.tracking.address import is_server
from search_spaces.grammar.passwords import has_password
from search_spaces.grammar.values import find_store_problem
from trainers.errors import suggest_nearest

SOURCE_KINDS = ("mlflow", "wandb", "tune")
PATTERN_GROUPS = ("length", "metric", "average", "seed", "step")
WANDB_STEP, TUNE_STEP = "_step", "training_iteration"
CONFIG = "config."  # the prefix of settings in a history of Weights & Biases
RESULTS, PARAMS = "result.json", "params.json"  # files in the folder of each Tune trial
MAX_SHOWN_NAMES = 5


@dataclass(frozen=True, kw_only=True)
class Log:
    """Logged values: `points` with columns run, name, step, value, location, and `settings` with a row for each run.

    The function `locate` returns the location of a point in the source as text, from its column `location`.
    """

    points: pd.DataFrame
    settings: pd.DataFrame
    source: str
    locate: Callable[[int], str]


@dataclass(frozen=True, kw_only=True)
class Naming:
    """The rules by which names of logged values are parsed.

    `pattern` is a regular expression for full names, with named groups of PATTERN_GROUPS. `metric` is the name of the
    metric if there is no group `metric`. `step` is the training step of all values, if each was logged at its length.
    """

    pattern: str
    metric: str
    seed_column: str = "seed"
    step: int | None = None


def read_source(
    kind: str, address: str, naming: Naming, *, experiment: str | None = None, step_column: str | None = None
) -> ImportedRows:
    """Return the rows of the results of a tool, `kind` mlflow, wandb or tune, at an address or path.

    Raises UserError for results that cannot be read or without a name that matches the pattern.
    """
    if kind == "mlflow":
        if experiment is None:
            raise UserError(f"--from mlflow:{address}: needs --experiment NAME")
        # Folders of MLflow can be imported, though no sweep is published to them.
        if (problem := find_store_problem(address)) and (has_password(address) or is_server(address)):
            raise UserError(f"--from mlflow:{address} {problem}")
        return read_mlflow(address, experiment, naming)
    path = Path(address)
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder")
    return (read_wandb if kind == "wandb" else read_tune)(path, naming, step_column)


def read_wandb(path: Path, naming: Naming, step_column: str | None = None) -> ImportedRows:
    """Return the rows of an exported history: a CSV or Parquet file, or a folder of such files.

    Its columns are `_step`, settings as `config.NAME`, and metrics; empty fields were not logged.
    """
    # Rows of several files are joined; `locations` has the table and row that each came from, for messages.
    paths = sorted([*path.glob("*.csv"), *path.glob("*.parquet")]) if path.is_dir() else [path]
    if not paths:
        raise UserError(f"{path}: no table in this folder; allowed: files that end with .csv or .parquet")
    tables = [read_table(path) for path in paths]
    frame = pd.concat([table.frame for table in tables], ignore_index=True)
    locations = [(table, row) for table in tables for row in range(len(table.frame))]

    # Every row of a history is a run of its own, and rows without a matching metric logged something else.
    step = step_column or WANDB_STEP
    _require_step(str(path), step, frame.columns)
    names = [name for name in frame.columns if _compile_pattern(naming).fullmatch(name)] or [step]
    points = frame.assign(run=range(len(frame))).melt(["run", step], names, "name", "value", ignore_index=True)
    points = points.rename(columns={step: "step"}).dropna(subset="value")

    settings = frame[[name for name in frame.columns if name.startswith(CONFIG)]]
    settings = settings.rename(columns=lambda name: name.removeprefix(CONFIG))
    log = Log(
        points=points.assign(location=points["run"]),
        settings=settings,
        source=str(path),
        locate=lambda index: locations[index][0].locate(locations[index][1]),
    )
    return replace(tidy_log(log, naming, list(frame.columns)), notes=())


def read_tune(path: Path, naming: Naming, step_column: str | None = None) -> ImportedRows:
    """Return the rows of the trials in a Ray Tune folder: lines of result.json, settings of params.json."""
    # Each trial has a folder with its settings, and a line of results for each training iteration.
    settings = list[dict[str, Any]]()
    points = list[tuple[Any, ...]]()
    locations = list[str]()
    step = step_column or TUNE_STEP
    for run, file in enumerate(sorted(path.rglob(RESULTS))):
        params = file.with_name(PARAMS)
        if not params.is_file():
            raise UserError(f"{params}: there is no such file; it has the settings of the trial in {file.parent}")
        settings.append(dict(iterate_leaves(_read_json(str(params), params.read_text()))))
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            location = f"{file}:{number}"
            values = dict(iterate_leaves(_read_json(location, line), separator="/"))
            _require_step(location, step, values)
            points += [(run, name, values[step], value, len(locations)) for name, value in values.items()]
            locations.append(location)
    if not settings:
        raise UserError(f"{path}: no {RESULTS} in any subfolder; allowed: the folder of a Ray Tune experiment")
    frame = pd.DataFrame(points, columns=["run", "name", "step", "value", "location"])
    return tidy_log(
        Log(points=frame, settings=pd.DataFrame(settings), source=str(path), locate=locations.__getitem__), naming
    )


def read_mlflow(uri: str, experiment: str, naming: Naming) -> ImportedRows:
    """Return the rows of the runs of an MLflow experiment, with parameters as settings."""
    from orchestrator.tracking.logged_runs import read_runs

    # A run may log thousands of metrics, so only the points of those that match are read.
    pattern = _compile_pattern(naming)
    settings = list[dict[str, Any]]()
    points = list[tuple[Any, ...]]()
    locations = list[str]()
    metric_names = set[str]()
    for run, logged in enumerate(read_runs(uri, experiment, lambda name: bool(pattern.fullmatch(name)))):
        settings.append({key: parse_value(value) for key, value in logged.params.items()})
        metric_names |= logged.names
        for name, step, value in logged.points:
            points.append((run, name, step, value, len(locations)))
            locations.append(f"run {logged.run_id}: {name} at step {step}")

    frame = pd.DataFrame(points, columns=["run", "name", "step", "value", "location"])
    source = f"{uri} ({experiment})"
    log = Log(points=frame, settings=pd.DataFrame(settings), source=source, locate=locations.__getitem__)
    return tidy_log(log, naming, sorted(metric_names))


def tidy_log(log: Log, naming: Naming, logged_names: list[str] | None = None) -> ImportedRows:
    """Return logged values as rows of a tidy table; values whose names do not match are left out.

    Without a group `length`, the logged steps are lengths if the training step is known otherwise (group `step` or
    `naming.step`). Otherwise metrics have no lengths. `logged_names` are all names in the source, for the message.
    Raises UserError if no name matches.
    """
    # Match each distinct name once, because a log has many points of each.
    pattern = _compile_pattern(naming)
    codes, names = pd.factorize(log.points["name"])
    matches = [pattern.fullmatch(str(name)) for name in names]
    if not any(matches):
        all_names = logged_names if logged_names is not None else [str(name) for name in names]
        listing = ", ".join(all_names[:MAX_SHOWN_NAMES]) + (
            f" and {len(all_names) - MAX_SHOWN_NAMES} more" if len(all_names) > MAX_SHOWN_NAMES else ""
        )
        raise UserError(f"--pattern {naming.pattern}: matches no name in {log.source}; its names: {listing or 'none'}")
    points = log.points[[matches[code] is not None for code in codes]].reset_index(drop=True)
    codes, names = pd.factorize(points["name"])

    # Settings get the prefix config_ where they would hide a column of values.
    runs = points["run"].to_numpy()
    settings = log.settings.rename(columns={naming.seed_column: "seed"})
    settings = settings.rename(columns={name: f"config_{name}" for name in set(VALUE_COLUMNS) - {"seed"}})
    frame = settings.map(make_plain_value).take(runs).reset_index(drop=True)

    # Fields without a group in the pattern come from `naming`, or from the step of the point.
    groups = pattern.groupindex
    for group in groups:
        texts = [pattern.fullmatch(str(name))[group] for name in names]  # type: ignore[index]  # all match
        frame[group] = pd.Series(texts, dtype=object).take(codes).to_numpy()
    if "metric" not in groups:
        frame["metric"] = naming.metric
    step_meaning = "length" if "length" not in groups and ("step" in groups or naming.step is not None) else "step"
    if step_meaning not in groups:
        frame[step_meaning] = points["step"]
    if naming.step is not None:
        frame["step"] = naming.step
    if "length" not in frame:
        frame["length"] = NO_LENGTH
    frame["value"] = points["value"].replace("null", float("nan"))

    # There is no file to digest, so its place is taken by a digest of the rows.
    omitted_runs = len(set(range(len(log.settings))) - set(runs.tolist()))
    return ImportedRows(
        frame=frame,
        source=log.source,
        sha256=hashlib.sha256(pd.util.hash_pandas_object(frame).to_numpy().tobytes()).hexdigest(),
        locate=lambda row: log.locate(int(points["location"].iloc[row])),
        notes=(f"{format_count(omitted_runs, 'run')} without a matching metric left out",) if omitted_runs else (),
    )


def iterate_leaves(tree: Mapping[str, Any], prefix: str = "", separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested mappings as (key, value): {"a": {"b": 1}} -> ("a.b", 1)."""
    for key, value in tree.items():
        name = f"{prefix}{separator}{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            yield from iterate_leaves(value, name, separator)
        else:
            yield name, value


def parse_value(text: str) -> Any:
    """Return the number, boolean or text that a text represents; None for "None" and "null"."""
    constants = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
    if text in constants:
        return constants[text]

    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _compile_pattern(naming: Naming) -> re.Pattern[str]:
    """Return the compiled pattern. Raises UserError if it is invalid or has other groups."""
    try:
        pattern = re.compile(naming.pattern)
    except re.error as error:
        raise UserError(f"--pattern {naming.pattern}: not a regular expression: {error}") from None
    if unknown_groups := [name for name in pattern.groupindex if name not in PATTERN_GROUPS]:
        text = f"--pattern {naming.pattern}: unknown group {unknown_groups[0]}; allowed: {', '.join(PATTERN_GROUPS)}"
        raise UserError(text + suggest_nearest(unknown_groups[0], PATTERN_GROUPS))
    return pattern


def _require_step(source: str, name: str, columns: Collection[Any]) -> None:
    """Raise UserError if the column with the training step is missing."""
    if name not in columns:
        text = f"{source}: no column {name} with the training step; choose another by --step-column"
        raise UserError(text + suggest_nearest(name, map(str, columns)))


def _read_json(location: str, text: str) -> dict[str, Any]:
    """Return a JSON object. Raises UserError with the location for any other text."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UserError(f"{location}: cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{location}: not a JSON object")
    return value
