"""Import existing results, from a table or another tool, as a sweep (`lengthwise import`).

Scores are never imported but computed from the curves, as for any sweep.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.addresses import get_address_or_path
from orchestrator.code.provenance import read_provenance
from orchestrator.errors import UserError
from orchestrator.importing.folder import ImportedSweepWriter
from orchestrator.importing.members import ImportedMembers, MeasuredCells, Missing, group_members
from orchestrator.importing.sources import SOURCE_KINDS, Naming, read_source
from orchestrator.importing.table import ImportedRows, Results, check_rows, read_table
from orchestrator.interface.measurements import make_measurement_fields
from orchestrator.mirror.fetch import fetch_sweep
from orchestrator.mirror.mirrored_ledger import create_ledger
from orchestrator.record.add_records import add_record
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.state.lineage import DRAWN, IMPORTED
from orchestrator.results.sweep_status import describe_end_status
from orchestrator.running.driving.interrupts import Interrupts
from orchestrator.session.session import Outcome, describe_end
from orchestrator.sweep.specification import write_spec
from orchestrator.text.consoles import say
from orchestrator.text.wording import format_command, format_count, format_ranges
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepSpec
from search_spaces.grammar.problems import Findings
from search_spaces.grammar.validate import build_spec
from trainers.errors import find_nearest

DIRECTIONS = ("maximize", "minimize")
UNTRAINED_NOTE = "no --trained: every length except the selection lengths counts as a test length"
NO_DIRECTION = "none"  # for metrics that no --metric option names


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The options of an import, as of `lengthwise import`.

    `directions` says by metric whether it is maximized or minimized; the first metric is the objective's. `lengths` are
    the selection lengths, None if the metric has only one. `trained` are the trained lengths. `average` is the judged
    weight average, None if there is only one. `axis` is the unit of lengths, None if unknown. With `drawn` every
    configuration was drawn independently at random. `study` is by default the name of the sweep.

    `columns` are those with settings, by default all others. `step` is the training step of results without one.
    `missing`: see `group_members`. `pattern`, `experiment` and `step_column` are for results of another tool.
    """

    directions: Mapping[str, str]
    lengths: tuple[int, ...] | None = None
    trained: tuple[int, ...] = ()
    average: str | None = None
    axis: str | None = None
    drawn: bool = False
    study: str | None = None
    columns: Sequence[str] | None = None
    seed_column: str = "seed"
    step: int | None = None
    missing: Missing | None = None
    pattern: str | None = None
    experiment: str | None = None
    step_column: str | None = None

    @property
    def metric(self) -> str:
        """The metric of the objective."""
        return next(iter(self.directions))

    def list_source_options(self) -> list[str]:
        """Return the given options that only results of another tool may have."""
        return [name for name in ("pattern", "experiment", "step_column") if getattr(self, name) is not None]


def read_directions(options: Sequence[str]) -> dict[str, str]:
    """Return the directions of --metric options: read_directions(["loss:minimize"]) -> {"loss": "minimize"}."""
    directions = dict[str, str]()
    for text in options:
        name, _, direction = text.rpartition(":") if ":" in text else (text, "", "")
        if not name or direction not in DIRECTIONS:
            hint = find_nearest(direction, DIRECTIONS)
            allowed = " or ".join(f"{name or 'NAME'}:{known}" for known in DIRECTIONS)
            raise UserError(f"--metric {text}: allowed: {allowed}" + (f"; did you mean {name}:{hint}?" if hint else ""))
        if directions.setdefault(name, direction) != direction:
            raise UserError(f"--metric {text}: contradicts --metric {name}:{directions[name]}; keep one of them")
    return directions


def read_rows(table: str, options: ImportOptions) -> ImportedRows:
    """Return the rows of a tidy table, or of "mlflow:URI", "wandb:PATH" or "tune:FOLDER" with a pattern of metrics."""
    kind, colon, source = table.partition(":")
    if not colon or kind not in SOURCE_KINDS:
        if refused := [f"--{option.replace('_', '-')}" for option in options.list_source_options()]:
            allowed = ", ".join(f"{name}:..." for name in SOURCE_KINDS)
            raise UserError(f"{refused[0]}: not allowed with the table {table}; allowed with --from {allowed}")
        return read_table(Path(table))

    if options.pattern is None:
        raise UserError(f"--from {table}: needs --pattern, such as 'accuracy/length_(?P<length>\\d+)'")
    naming = Naming(pattern=options.pattern, metric=options.metric, seed_column=options.seed_column, step=options.step)
    return read_source(kind, source, naming, experiment=options.experiment, step_column=options.step_column)


def import_table_rows(
    rows: ImportedRows, storage: Path, name: str, console: Console, options: ImportOptions
) -> Outcome:
    """Write a sweep with these results to a new folder of `storage`, without a report; return how it ended.

    Raises UserError for invalid rows, SweepFileError for an invalid name, SweepExists if the folder already holds a
    sweep, before anything is written.
    """
    # `read_rows` has already made --step a column of another tool's results, which have a pattern.
    step = options.step if options.pattern is None else None
    results = check_rows(rows, columns=options.columns, seed_column=options.seed_column, step=step)
    _refuse_unknown_names(options, results)

    # Choose what decides the comparison: metric, average, members and lengths.
    metric = options.metric
    average = _choose_average(results, options)
    members = group_members(results, metric, average, options.missing)
    lengths = _choose_lengths(results, members, metric, options)

    # Build the sweep file and the first record as `run` would have written them.
    objective = {
        "metric": metric,
        "average": average,
        "lengths": list(lengths),
        "direction": options.directions[metric],
    }
    spec = _build_spec(results, members, options, objective, {"name": name, "study": options.study or name})
    first_fields = _make_first_fields(results, members, spec)
    if options.drawn:
        first_fields["provenance"][IMPORTED][DRAWN] = True

    # If writing fails, remove the incomplete ledger, which would block another import. A folder that existed before
    # keeps its other files.
    configurations = _make_configuration_fields(results, members, options)
    folder = storage / spec.name
    fetch_sweep(folder)
    is_new = not folder.exists()
    with create_ledger(folder, first_fields) as ledger, Interrupts() as interrupts:
        try:
            write_spec(first_fields["spec"], folder)
            state = ImportedSweepWriter(results, members, configurations, spec.objective).write(ledger)
        except BaseException:
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                (folder / LEDGER_FILE).unlink(missing_ok=True)
            raise

        counts = f"{format_count(len(configurations), 'configuration')}, seeds {format_ranges(members.seeds)}"
        location = get_address_or_path(folder.resolve())
        say(console, f"imported {len(results.rows):,} rows of {results.source} to {location}: {counts}")
        untrained = () if options.trained else (UNTRAINED_NOTE,)
        for note in (*rows.notes, *members.notes, *untrained):
            say(console, f"note: {note}")
        status, message = describe_end(state)
        with interrupts.hold_signals():
            add_record(ledger, state, "end", status=status, message=message)
    status_text = f"{describe_end_status(state)}: {state.end_message}"
    say(console, f"{status_text}; draw the report with: {format_command('report', folder)}")
    return Outcome(folder=folder, status=str(state.end_status), exit_code=0)


def _refuse_unknown_names(options: ImportOptions, results: Results) -> None:
    """Raise UserError for a chosen metric or average that the results do not have."""
    averages = () if options.average is None else (options.average,)
    for option, names, allowed in (
        ("--metric", options.directions, results.metrics),
        ("--average", averages, results.averages),
    ):
        if unknown := [name for name in names if name not in allowed]:
            raise UserError(f"{option} {unknown[0]}: not in {results.source}; allowed: {', '.join(allowed)}")


def _choose_average(results: Results, options: ImportOptions) -> str:
    """Return the judged average. Raises UserError if there are several and the options name none."""
    if options.average is None and len(results.averages) > 1:
        raise UserError(f"{results.source}: several averages; choose one by --average: {', '.join(results.averages)}")
    return options.average or results.averages[0]


def _choose_lengths(results: Results, members: ImportedMembers, metric: str, options: ImportOptions) -> tuple[int, ...]:
    """Return the lengths of the objective. Raises UserError for a length that a configuration lacks."""
    # Without --lengths, all configurations must have the same single length.
    index = results.metrics.index(metric)
    lengths = options.lengths or members.cells[0].lengths[index]
    for configuration, cells in enumerate(members.cells):
        allowed = cells.lengths[index]
        if options.lengths is None and len(allowed) > 1:
            raise UserError(
                f"{results.source}: {metric} has lengths {format_ranges(allowed)}; choose selection lengths by "
                "--lengths"
            )
        if missing_lengths := sorted(set(lengths) - set(allowed)):
            option = "" if options.lengths is None else "--lengths: "
            problem = f"{results.describe_configuration(configuration)}: no {metric} at length {missing_lengths[0]}"
            raise UserError(f"{option}{results.source}: {problem}; allowed: {format_ranges(allowed)}")
    return lengths


def _make_first_fields(results: Results, members: ImportedMembers, spec: SweepSpec) -> dict[str, Any]:
    """Return the fields of the first record, as `run_sweep` writes them, with the source of the rows as provenance."""
    source = {"source": results.source, "sha256": results.sha256, "rows": len(results.rows)}
    return {
        "name": spec.name,
        "study": spec.study,
        "spec": {**spec.resolved(), "seeds": _list_common_seeds(members)},
        "spec_hash": spec.spec_hash,
        "provenance": {**read_provenance(), IMPORTED: source},
    }


def _list_common_seeds(members: ImportedMembers) -> list[int]:
    """Return the seeds that every configuration has."""
    configurations_by_seed = Counter(seed for pack in members.packs for _, seed in pack.members)
    return [seed for seed in members.seeds if configurations_by_seed[seed] == len(members.cells)]


def _build_spec(
    results: Results,
    members: ImportedMembers,
    options: ImportOptions,
    objective: Mapping[str, Any],
    names: Mapping[str, str],
) -> SweepSpec:
    """Return the specification of a sweep that lists the configurations. Raises SweepFileError for an invalid name."""
    # The table decided the values of each configuration, so the sampler is a list of them.
    steps = _list_varying_steps(members)
    listed = [_make_listed_values(results, number, steps) for number in range(len(members.cells))]
    sections = {
        **names,
        "description": f"Imported from {results.source}.",
        **_make_sections(results, options, {}, members.cells, max(members.last_steps)),
        "search": {"sampler": "listed", "listed": listed},
        "seeds": list(members.seeds),
        "objective": objective,
        "tracking": {"enabled": False},
    }

    findings = Findings("lengthwise import")
    spec, _ = build_spec({"task": {}, "model": {}, **sections}, findings)
    findings.raise_any()
    return spec


def _list_varying_steps(members: ImportedMembers) -> tuple[int, ...] | None:
    """Return the last step of each configuration; None if all are equal."""
    return members.last_steps if len(set(members.last_steps)) > 1 else None


def _make_listed_values(results: Results, number: int, steps: tuple[int, ...] | None) -> dict[str, Any]:
    """Return the listed values of a configuration by dotted key, with its steps if `steps` is given."""
    values = {f"config.{key}": value for key, value in results.configurations[number].items()}
    return values | ({"training.steps": steps[number]} if steps else {})


def _make_sections(
    results: Results, options: ImportOptions, settings: Mapping[str, Any], cells: Sequence[MeasuredCells], steps: int
) -> dict[str, Any]:
    """Return the sections of a program sweep with these settings, the lengths of `cells` and `steps`."""
    # Nest the settings at the dots of their names.
    config: dict[str, Any] = {}
    for key, value in {**results.fixed, **settings}.items():
        *parents, last_part = key.split(".")
        tree = config
        for part in parents:
            tree = tree.setdefault(part, {})
        tree[last_part] = value

    # A metric that is measured at all lengths needs only its direction.
    lengths_by_metric: dict[int, set[int]] = {}
    for configuration_cells in cells:
        for metric, metric_lengths in configuration_cells.lengths.items():
            lengths_by_metric.setdefault(metric, set()).update(metric_lengths)
    lengths = sorted(set().union(*lengths_by_metric.values()))
    metrics: dict[str, Any] = {}
    for metric, measured_lengths in lengths_by_metric.items():
        name = results.metrics[metric]
        direction = options.directions.get(name, NO_DIRECTION)
        is_everywhere = len(measured_lengths) == len(lengths)
        metrics[name] = direction if is_everywhere else {"direction": direction, "lengths": sorted(measured_lengths)}

    averages = dict.fromkeys(average for configuration_cells in cells for average in configuration_cells.averages)
    return {
        "program": {IMPORTED: results.sha256},
        "config": config,
        "training": {"steps": max(steps, 1)},
        "evaluation": {
            "lengths": lengths,
            "trained_lengths": list(options.trained),
            "metrics": metrics,
            "averages": [results.averages[average] for average in averages],
            **({"axis": options.axis} if options.axis is not None else {}),
        },
    }


def _make_configuration_fields(
    results: Results, members: ImportedMembers, options: ImportOptions
) -> list[dict[str, Any]]:
    """Return the ledger fields of each configuration."""
    fields = list[dict[str, Any]]()
    measured_ids = set[str]()
    steps = _list_varying_steps(members)
    for number in range(len(members.cells)):
        # Without its seed, any member has the fields of its configuration.
        settings, cells = results.configurations[number], members.cells[number]
        sections = _make_sections(results, options, settings, [cells], members.last_steps[number])
        trainer = get_trainer(sections)
        member = trainer.build(sections, recorded=True)
        measurement_fields = make_measurement_fields(trainer.list_measurements(member), measured_ids)
        measured_ids.add(measurement_fields["measured"])

        fields.append(
            {
                "number": number,
                "config_id": member.config_id,
                "values": _make_listed_values(results, number, steps),
                "resolved": {key: value for key, value in member.to_dict().items() if key != "seed"},
                "duplicate_of": None,
                "draw": number,
                **measurement_fields,
            }
        )
    return fields
