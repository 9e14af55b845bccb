"""`lengthwise import`: results that exist already, from a table or another tool, as a sweep folder.

No score is taken over: scores are computed from the curves, as for any sweep.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.addresses import address_or_path
from orchestrator.code.provenance import provenance
from orchestrator.ending.ending import Outcome, record_end
from orchestrator.errors import UserError
from orchestrator.importing.folder import ImportedSweep
from orchestrator.importing.members import ImportedMembers, Missing, group_members
from orchestrator.importing.sources import KINDS, Naming, read_source
from orchestrator.importing.table import ImportedRows, Results, check_rows, read_table
from orchestrator.interface.measured import measured_fields
from orchestrator.mirror.fetch import fetch_sweep
from orchestrator.mirror.mirrored import create_ledger
from orchestrator.record.state.lineage import IMPORTED
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.sweep.specification import write_spec
from orchestrator.text.consoles import say
from orchestrator.text.wording import command, counted, spans
from orchestrator.trainer import trainer_of
from search_spaces import SweepSpec
from search_spaces.grammar.problems import Findings
from search_spaces.grammar.validate import build_spec
from trainers.errors import nearest

DIRECTIONS = ("maximize", "minimize")
UNKNOWN = "none"  # the direction of a metric that --metric does not name


@dataclass(frozen=True, kw_only=True)
class JudgingRules:
    """How imported results are judged.

    directions: by metric; the first one is the objective's. lengths: the selection lengths, None if the metric has only
    one. trained: the lengths that were trained on. average: the judged one, None if there is only one. axis: what
    lengths count, None if it is not said.
    """

    directions: Mapping[str, str]
    lengths: tuple[int, ...] | None = None
    trained: tuple[int, ...] = ()
    average: str | None = None
    axis: str | None = None


def read_directions(options: Sequence[str]) -> dict[str, str]:
    """Return directions by metric: read_directions(["loss:minimize"]) -> {"loss": "minimize"}. Raises UserError."""
    directions = {}
    for text in options:
        name, _, direction = text.rpartition(":") if ":" in text else (text, "", "")
        if not name or direction not in DIRECTIONS:
            hint = nearest(direction, DIRECTIONS)
            allowed = " or ".join(f"{name or 'NAME'}:{direction}" for direction in DIRECTIONS)
            raise UserError(f"--metric {text}: allowed: {allowed}" + (f"; did you mean {name}:{hint}?" if hint else ""))
        directions[name] = direction
    return directions


def read_rows(
    table: str,
    metric: str,
    *,
    pattern: str | None = None,
    experiment: str | None = None,
    step_column: str | None = None,
    seed_column: str = "seed",
    step: int | None = None,
) -> ImportedRows:
    """Return the rows of a tidy table, or of "mlflow:URI", "wandb:PATH" or "tune:FOLDER" with a pattern of names."""
    kind, mark, place = table.partition(":")
    if not mark or kind not in KINDS:
        options = {"--pattern": pattern, "--experiment": experiment, "--step-column": step_column}
        if useless := [option for option, value in options.items() if value is not None]:
            allowed = ", ".join(f"{name}:..." for name in KINDS)
            raise UserError(f"{useless[0]}: {table} is a tidy table; allowed: only with --from {allowed}")
        return read_table(Path(table))
    if pattern is None:
        raise UserError(f"--from {table}: needs --pattern, such as 'accuracy/length_(?P<length>\\d+)'")
    naming = Naming(pattern=pattern, metric=metric, seed_column=seed_column, step=step)
    return read_source(kind, place, naming, experiment=experiment, step_column=step_column)


def import_rows(
    rows: ImportedRows,
    storage: Path,
    name: str,
    console: Console,
    judging: JudgingRules,
    *,
    study: str | None = None,
    columns: Sequence[str] | None = None,
    seed_column: str = "seed",
    step: int | None = None,
    missing: Missing | None = None,
) -> Outcome:
    """Write a sweep with these results to a new folder of `storage`, and return how it ended. Nothing is drawn.

    Raises UserError for anything in the rows that cannot be used, SweepFileError for the name, SweepExists when the
    folder holds a sweep already, all before anything is written.
    """
    # Check the rows: metrics, members and the lengths that are judged.
    results = check_rows(rows, columns=columns, seed_column=seed_column, step=step)
    metric, average = next(iter(judging.directions)), _judged_average(results, judging)
    members = group_members(results, metric, average, missing)
    lengths = _judged_lengths(results, members, metric, judging)
    if unknown := [metric for metric in judging.directions if metric not in results.metrics]:
        known = ", ".join(results.metrics)
        raise UserError(f"--metric {unknown[0]}: {results.source} has no such metric; it has: {known}")

    # The first record of the ledger, as a run would write it, with the source of the rows.
    objective = {
        "metric": metric,
        "average": average,
        "lengths": list(lengths),
        "direction": judging.directions[metric],
    }
    spec = _specification(results, members, judging, objective, {"name": name, "study": study or name})
    first: dict[str, Any] = {
        "name": spec.name,
        "study": spec.study,
        "spec": {**spec.resolved(), "seeds": _common_seeds(members)},
        "spec_hash": spec.spec_hash,
        "provenance": {
            **provenance(),
            IMPORTED: {"source": results.source, "sha256": results.sha256, "rows": len(results.rows)},
        },
    }

    # Write the sweep; a folder that could not be finished is removed.
    configurations, folder = _configurations(results, members, judging), storage / spec.name
    fetch_sweep(folder)
    with create_ledger(folder, first) as ledger, Interrupts() as interrupts:
        try:
            write_spec(first["spec"], folder)
            state = ImportedSweep(results, members, configurations, spec.objective).write(ledger)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        counts = f"{counted(len(configurations), 'configuration')}, seeds {spans(members.seeds)}"
        say(
            console,
            f"imported {len(results.rows):,} rows of {results.source} to {address_or_path(folder.resolve())}: {counts}",
        )
        untold = () if judging.trained else ("no --trained, so all but the selection lengths count as test lengths",)
        for note in (*rows.notes, *members.notes, *untold):
            say(console, f"note: {note}")
        record_end(ledger, state, interrupts)
    say(console, f"{state.ended}: {state.message}; draw the report with: {command('report', folder)}")
    return Outcome(folder=folder, status=str(state.ended), exit_code=0)


def _judged_average(results: Results, judging: JudgingRules) -> str:
    if judging.average is None and len(results.averages) > 1:
        raise UserError(f"{results.source}: has the averages {', '.join(results.averages)}; choose one by --average")
    return judging.average or results.averages[0]


def _judged_lengths(results: Results, members: ImportedMembers, metric: str, judging: JudgingRules) -> tuple[int, ...]:
    """Return the lengths of the objective. Raises UserError for one that a configuration does not have."""
    index = results.metrics.index(metric)
    for configuration, curves in enumerate(members.curves):
        known = curves.lengths[index]
        if judging.lengths is None and len(known) > 1:
            raise UserError(
                f"{results.source}: {metric} has lengths {spans(known)}; choose those of the selection: --lengths"
            )
        if lacking := sorted(set(judging.lengths or ()) - set(known)):
            which = f"{results.describe(configuration)} has no {metric} at length {lacking[0]}"
            raise UserError(f"--lengths: {results.source}: {which}; allowed: some of {spans(known)}")
    return judging.lengths or members.curves[0].lengths[index]


def _common_seeds(members: ImportedMembers) -> list[int]:
    """Return the seeds that every configuration has; a ledger takes further ones as they are."""
    count = len(members.curves)
    of_seed = dict.fromkeys(members.seeds, 0)
    for group in members.groups:
        for _, seed in group.members:
            of_seed[seed] += 1
    return [seed for seed, having in of_seed.items() if having == count]


def _specification(
    results: Results,
    members: ImportedMembers,
    judging: JudgingRules,
    objective: Mapping[str, Any],
    names: Mapping[str, str],
) -> SweepSpec:
    """Return the specification of a sweep that lists the configurations. Raises SweepFileError for a wrong name."""
    findings = Findings("lengthwise import")
    steps = _varying_steps(members)
    listed = [_values(results, number, steps) for number in range(len(members.curves))]
    sections = {
        **names,
        "description": f"Imported from {results.source}.",
        **_sections(results, members, judging, None),
        "search": {"sampler": "listed", "listed": listed},
        "seeds": list(members.seeds),
        "objective": objective,
        "tracking": {"enabled": False},
    }
    spec, _ = build_spec({"task": {}, "model": {}, **sections}, findings)
    findings.raise_any()
    return spec


def _varying_steps(members: ImportedMembers) -> tuple[int, ...] | None:
    """Return the last step of each configuration, None if all have the same."""
    return members.last_steps if len(set(members.last_steps)) > 1 else None


def _values(results: Results, number: int, steps: tuple[int, ...] | None) -> dict[str, Any]:
    """Return the values of a configuration that the sweep lists."""
    values = {f"config.{key}": value for key, value in results.configurations[number].items()}
    return values | ({"training.steps": steps[number]} if steps else {})


def _sections(results: Results, members: ImportedMembers, judging: JudgingRules, number: int | None) -> dict[str, Any]:
    """Return the open sections of a configuration, or those that all share."""
    configuration = results.configurations[number] if number is not None else {}
    curves = members.curves[number or 0]

    # Settings, nested at the dots of their names.
    config: dict[str, Any] = {}
    for key, value in {**results.fixed, **configuration}.items():
        *above, last = key.split(".")
        tree = config
        for step in above:
            tree = tree.setdefault(step, {})
        tree[last] = value

    # Metrics; those that lack lengths of others list their own.
    lengths = sorted({length for of_metric in curves.lengths.values() for length in of_metric})
    metrics: dict[str, Any] = {}
    for metric, own_lengths in curves.lengths.items():
        name = results.metrics[metric]
        direction = judging.directions.get(name, UNKNOWN)
        is_everywhere = len(own_lengths) == len(lengths)
        metrics[name] = direction if is_everywhere else {"direction": direction, "lengths": list(own_lengths)}
    steps = max(members.last_steps) if number is None else members.last_steps[number]
    return {
        "program": {IMPORTED: results.sha256},
        "config": config,
        "training": {"steps": max(steps, 1)},
        "evaluation": {
            "lengths": lengths,
            "trained_lengths": list(judging.trained),
            "metrics": metrics,
            "averages": [results.averages[average] for average in curves.averages],
            **({"axis": judging.axis} if judging.axis is not None else {}),
        },
    }


def _configurations(results: Results, members: ImportedMembers, judging: JudgingRules) -> list[dict[str, Any]]:
    """Return the fields of the record of each configuration."""
    fields, known, steps = list[dict[str, Any]](), set[str](), _varying_steps(members)
    for number in range(len(members.curves)):
        sections = _sections(results, members, judging, number)
        trainer = trainer_of(sections)
        member = trainer.build(sections, recorded=True)
        measured = measured_fields(trainer.measured(member), known)
        known.add(measured["measured"])
        fields.append(
            {
                "number": number,
                "config_id": member.config_id,
                "values": _values(results, number, steps),
                "resolved": {key: value for key, value in member.to_dict().items() if key != "seed"},
                "duplicate_of": None,
                "draw": number,
                **measured,
            }
        )
    return fields
