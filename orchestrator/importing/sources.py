"""Read results of other tools as rows of a tidy table: Weights & Biases histories, Ray Tune folders, MLflow runs.

These tools have the length of a value in the metric's name or as its step. A pattern with named groups says which names
are metrics and what their parts mean: `length`, `metric`, `average`, `seed`, `step`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.errors import UserError
from orchestrator.importing.table import NO_LENGTH, VALUES, ImportedRows, plain, read_table
from search_spaces.grammar.values import has_password, store_problem
from trainers.errors import nearest

KINDS = ("mlflow", "wandb", "tune")
GROUPS = ("length", "metric", "average", "seed", "step")
WANDB_STEP, TUNE_STEP = "_step", "training_iteration"
CONFIG = "config."  # the prefix of settings in a history of Weights & Biases
RESULTS, PARAMS = "result.json", "params.json"  # of each trial of Tune
SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Log:
    """Logged values: `points` with columns run, name, step, value, place, and `settings` with a row for each run.

    The function `place` returns the location of a point in the source from its column `place`.
    """

    points: pd.DataFrame
    settings: pd.DataFrame
    source: str
    place: Callable[[int], str]


@dataclass(frozen=True, kw_only=True)
class Naming:
    """How names of logged values are parsed.

    `pattern` is a regular expression for full names, with named groups of GROUPS. `metric` is the name of the metric if
    there is no group `metric`. `step` is the training step of all values, if each was logged at its length.
    """

    pattern: str
    metric: str
    seed_column: str = "seed"
    step: int | None = None


def read_source(
    kind: str, place: str, naming: Naming, *, experiment: str | None = None, step_column: str | None = None
) -> ImportedRows:
    """Return the rows of the results of a tool, `kind` mlflow, wandb or tune, at an address or path.

    Raises UserError for results that cannot be read or without a name that matches the pattern.
    """
    if kind == "mlflow":
        if experiment is None:
            raise UserError(f"--from mlflow:{place}: needs --experiment")
        if has_password(place):
            raise UserError(f"--from mlflow:{place} {store_problem(place)}")
        return read_mlflow(place, experiment, naming)
    path = Path(place)
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder")
    return (read_wandb if kind == "wandb" else read_tune)(path, naming, step_column)


def read_wandb(path: Path, naming: Naming, step_column: str | None = None) -> ImportedRows:
    """Return the rows of an exported history: a CSV or Parquet file, or a folder of such files.

    Its columns are `_step`, settings as `config.NAME`, and metrics; empty fields were not logged.
    """
    paths = sorted([*path.glob("*.csv"), *path.glob("*.parquet")]) if path.is_dir() else [path]
    if not paths:
        raise UserError(f"{path}: no file that ends with .csv or .parquet")
    tables = [read_table(path) for path in paths]
    frame = pd.concat([table.frame for table in tables], ignore_index=True)
    places = [(table.place, row) for table in tables for row in range(len(table.frame))]
    step = step_column or WANDB_STEP
    _refuse_missing(str(path), step, frame.columns)
    names = [name for name in frame.columns if _pattern(naming).fullmatch(name)] or [step]
    points = frame.assign(run=range(len(frame))).melt(["run", step], names, "name", "value", ignore_index=True)
    points = points.rename(columns={step: "step"}).dropna(subset="value")
    settings = frame[[name for name in frame.columns if name.startswith(CONFIG)]]
    settings = settings.rename(columns=lambda name: name.removeprefix(CONFIG))
    log = Log(
        points=points.assign(place=points["run"]),
        settings=settings,
        source=str(path),
        place=lambda row: places[row][0](places[row][1]),
    )
    return replace(tidy_log(log, naming, list(frame.columns)), notes=())  # rows without metrics logged something else


def read_tune(path: Path, naming: Naming, step_column: str | None = None) -> ImportedRows:
    """Return the rows of the trials in a Ray Tune folder: lines of result.json, settings of params.json."""
    settings, points, places = list[dict[str, Any]](), list[tuple[Any, ...]](), list[str]()
    step = step_column or TUNE_STEP
    for run, file in enumerate(sorted(path.rglob(RESULTS))):
        params = file.with_name(PARAMS)
        settings.append(dict(iterate_leaves(_read_json(str(params), params.read_text() if params.exists() else ""))))
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            where = f"{file}:{number}"
            values = dict(iterate_leaves(_read_json(where, line), separator="/"))
            _refuse_missing(where, step, values)
            points += [(run, name, values[step], value, len(places)) for name, value in values.items()]
            places.append(where)
    if not settings:
        raise UserError(f"{path}: no {RESULTS} in any folder; allowed: the folder of a Ray Tune experiment")
    frame = pd.DataFrame(points, columns=["run", "name", "step", "value", "place"])
    return tidy_log(
        Log(points=frame, settings=pd.DataFrame(settings), source=str(path), place=places.__getitem__), naming
    )


def read_mlflow(uri: str, experiment: str, naming: Naming) -> ImportedRows:
    """Return the rows of the runs of an MLflow experiment, with parameters as settings."""
    from orchestrator.tracking.runs import read_runs

    pattern = _pattern(naming)
    settings, points, places = list[dict[str, Any]](), list[tuple[Any, ...]](), list[str]()
    names = set[str]()
    for run, logged in enumerate(read_runs(uri, experiment, lambda name: bool(pattern.fullmatch(name)))):
        settings.append({key: parse_value(value) for key, value in logged.params.items()})
        names |= logged.names
        for name, step, value in logged.points:
            points.append((run, name, step, value, len(places)))
            places.append(f"run {logged.run_id}: {name} at step {step}")
    frame = pd.DataFrame(points, columns=["run", "name", "step", "value", "place"])
    source = f"{uri} ({experiment})"
    log = Log(points=frame, settings=pd.DataFrame(settings), source=source, place=places.__getitem__)
    return tidy_log(log, naming, sorted(names))


def tidy_log(log: Log, naming: Naming, known: list[str] | None = None) -> ImportedRows:
    """Return logged values as rows of a tidy table; values whose names do not match are left out.

    Without a group `length`, values were logged at their lengths if their step is known otherwise (group `step` or
    `naming.step`); else metrics have no lengths. `known` are all names for the message. Raises UserError if no name
    matches.
    """
    pattern = _pattern(naming)
    codes, names = pd.factorize(log.points["name"])
    parts = [pattern.fullmatch(str(name)) for name in names]
    if not any(parts):
        all_names = known if known is not None else [str(name) for name in names]
        listing = ", ".join(all_names[:SHOWN]) + (
            f" and {len(all_names) - SHOWN} more" if len(all_names) > SHOWN else ""
        )
        raise UserError(f"--pattern {naming.pattern}: matches no name of {log.source}; its names: {listing or 'none'}")
    points = log.points[[parts[code] is not None for code in codes]].reset_index(drop=True)
    codes, names = pd.factorize(points["name"])

    # Settings, renamed if another column has the name.
    runs = points["run"].to_numpy()
    settings = log.settings.rename(columns={naming.seed_column: "seed"})
    settings = settings.rename(columns={name: f"config_{name}" for name in set(VALUES) - {"seed"}})
    frame = settings.map(plain).take(runs).reset_index(drop=True)

    # The parts of the names.
    groups = pattern.groupindex
    for group in groups:
        of_name = [pattern.fullmatch(str(name))[group] for name in names]  # type: ignore[index]  # they match
        frame[group] = pd.Series(of_name, dtype=object).take(codes).to_numpy()
    if "metric" not in groups:
        frame["metric"] = naming.metric
    logged_at = "length" if "length" not in groups and ("step" in groups or naming.step is not None) else "step"
    if logged_at not in groups:
        frame[logged_at] = points["step"]
    if naming.step is not None:
        frame["step"] = naming.step
    if "length" not in frame:
        frame["length"] = NO_LENGTH
    frame["value"] = points["value"].replace("null", float("nan"))
    without = sorted(set(range(len(log.settings))) - set(runs.tolist()))
    return ImportedRows(
        frame=frame,
        source=log.source,
        sha256=hashlib.sha256(pd.util.hash_pandas_object(frame).to_numpy().tobytes()).hexdigest(),
        place=lambda row: log.place(int(points["place"].iloc[row])),
        notes=(f"{len(without)} runs without a matching metric left out",) if without else (),
    )


def iterate_leaves(tree: Mapping[str, Any], above: str = "", separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested mappings as (key, value): {"a": {"b": 1}} -> ("a.b", 1)."""
    for key, value in tree.items():
        name = f"{above}{separator}{key}" if above else str(key)
        if isinstance(value, Mapping) and value:
            yield from iterate_leaves(value, name, separator)
        else:
            yield name, value


def parse_value(text: str) -> Any:
    """Return the number, boolean or text that a text represents; None for "None" and "null"."""
    known = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
    if text in known:
        return known[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _pattern(naming: Naming) -> re.Pattern[str]:
    """Return the compiled pattern. Raises UserError if it is invalid or has other groups."""
    try:
        pattern = re.compile(naming.pattern)
    except re.error as error:
        raise UserError(f"--pattern {naming.pattern}: is not a regular expression: {error}") from None
    if wrong := [name for name in pattern.groupindex if name not in GROUPS]:
        hint = nearest(wrong[0], GROUPS)
        text = f"--pattern {naming.pattern}: group {wrong[0]}; allowed: {', '.join(GROUPS)}"
        raise UserError(text + (f"; did you mean {hint}?" if hint else ""))
    return pattern


def _refuse_missing(source: str, name: str, known: Any) -> None:
    if name not in known:
        hint = nearest(name, map(str, known))
        text = f"{source}: no {name}, the training step; choose another by --step-column"
        raise UserError(text + (f"; did you mean {hint}?" if hint else ""))


def _read_json(where: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UserError(f"{where}: cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"{where}: is not a JSON object")
    return value
