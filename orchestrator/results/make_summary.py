"""Summarize a sweep from its recorded state and its curves: scores, ranks, bands, notes and warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from orchestrator.engine.initial_shares import describe_initial_shares
from orchestrator.errors import LedgerError
from orchestrator.interface.measurements import Measurements, read_measurements
from orchestrator.record.files.curve_tables import COLUMNS
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.lock import describe_running_driver
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.lineage import IMPORTED
from orchestrator.record.state.repackings import describe_repackings
from orchestrator.record.state.state import SweepState
from orchestrator.results.pack_environments import PackEnvironments, record_configurations
from orchestrator.results.program_defaults import describe_differing_defaults
from orchestrator.results.scoring.configuration_scores import (
    choose_evaluations,
    compute_area_beyond,
    find_generalization_length,
    mask_judged_rows,
    rank_configurations,
    read_objective,
    score_configurations,
    score_evaluations,
)
from orchestrator.results.scoring.evaluation_choice import Mask, select_steps
from orchestrator.results.scoring.length_groups import make_length_groups
from orchestrator.results.scoring.median_curves import Band, CurveKey, compute_quartiles_at, make_bands
from orchestrator.results.scoring.search_design import count_specified, read_design, read_domain_kinds
from orchestrator.results.scoring.undefined_values import describe_undefined_values
from orchestrator.results.scoring.validation_scores import list_early_stops
from orchestrator.results.seed_failures import describe_failure
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.text.wording import format_count, format_lengths, format_ranges
from search_spaces import Objective

_MAX_UNFILTERED_CURVES = 200  # evaluations of members


def summarize(state: SweepState, curves: pd.DataFrame | None = None) -> Summary:
    """Return the summary of a sweep, finished or not.

    `curves` is the result of `read_curves(state)`, if it is known. Raises DamagedCurves if a parquet part differs from
    its checksum, LedgerError for a configuration that does not measure the objective.
    """
    # Scores are meaningless if a configuration does not measure the objective.
    configurations = state.configurations.items()
    digests = {config_id: configuration.measurements_digest for config_id, configuration in configurations}
    objective = read_objective(state.spec)
    measurements = read_measurements(state.measurements_by_digest, digests)
    _check_objective_measured(state, objective, measurements)
    metrics = [named for item in measurements.values() for named in item.metrics.items()]
    directions = {name: metric.direction for name, metric in metrics}

    # Medians over the seeds that happen to have finished would change later, so bands need all seeds.
    race = state.race
    complete_ids = {
        config_id
        for config_id, configuration in state.configurations.items()
        if state.have_all_seeds_ended(configuration)
    }
    if curves is None:
        # Selecting rows saves memory, but takes longer than it saves if there are few.
        curve_count = sum(len(pack.members) * len(pack.evaluations) for pack in state.packs.values())
        keep = partial(_select_needed_rows, objective) if curve_count > _MAX_UNFILTERED_CURVES else None
        curves = read_curves(state, keep=keep)
    is_complete = curves["config_id"].isin(complete_ids).to_numpy()
    curves = curves if is_complete.all() else curves[is_complete]
    evaluations = choose_evaluations(curves, objective)
    chosen_curves = curves.loc[select_steps(curves, evaluations), list(COLUMNS)]
    judged_curves = curves.loc[mask_judged_rows(curves, objective), list(COLUMNS)]
    bands = make_bands(chosen_curves, objective, directions)

    # Ranks follow when all rows are known.
    rows = [
        replace(
            _make_row(state, configuration, measurements[config_id], bands, objective),
            is_complete=config_id in complete_ids,
            rounds=race.count_rounds(config_id) if race else 0,
        )
        for config_id, configuration in state.configurations.items()
    ]
    undefined = describe_undefined_values(state, chosen_curves, objective)
    environments = PackEnvironments.from_state(state)
    return Summary(
        state=state,
        status=state.end_status or ("running" if describe_running_driver(state.folder) else "interrupted"),
        objective=objective,
        measurements=measurements,
        provenance=record_configurations(state),
        searched=read_domain_kinds(state),
        design=read_design(state),
        rows=tuple(_rank_rows(rows, evaluations, state, objective)),
        bands=bands,
        notes=(
            *undefined.notes,
            *_describe_averages(state),
            *_describe_extension(state),
            *_describe_import(state),
            *state.conflicts,
            *describe_repackings(state.repackings),
            *_describe_repeated_steps(state),
            *describe_differing_defaults(state),
            *environments.environment_sentences,
        ),
        warnings=(
            *undefined.warnings,
            *_describe_identical_curves(judged_curves, state),
            *(f"{sentence[:1].upper()}{sentence[1:]}" for sentence in environments.code_sentences),
        ),
    )


def _describe_identical_curves(judged_curves: pd.DataFrame, state: SweepState) -> list[str]:
    """Return a warning if neither curves nor losses depend on the seed or on the configuration.

    Compares the seeds of each configuration, and the configurations of each seed, if there are at least two. Curves of
    zeros and ones may well be equal.
    """
    if judged_curves["value"].isin([0.0, 1.0]).all():
        return []

    # Identical curves usually mean that own code ignores its seed or its settings.
    warnings = []
    for column, scope, source in (
        ("seed", "for all seeds", "its seed"),
        ("config_id", "in all configurations", "the searched values"),
    ):
        others = [key for key in ("config_id", "seed", "step", "length") if key != column]
        values = judged_curves.groupby(others, observed=True)["value"]
        is_identical = values.count().min() > 1 and values.nunique().max() == 1
        if is_identical and not _differ_in_loss(state, "config_id" if column == "seed" else "seed"):
            warnings.append(f"Curves are identical {scope}; check that training uses {source}")
    return warnings


def _differ_in_loss(state: SweepState, shared: str) -> bool:
    """Return whether members that share their config_id, or their seed, have different training losses at a step."""
    rows = [
        (config_id, seed, step, loss)
        for pack in state.packs.values()
        for step, fields in pack.evaluations.items()
        for (config_id, seed), loss in zip(pack.members, fields["loss"], strict=True)
    ]
    losses = pd.DataFrame(rows, columns=["config_id", "seed", "step", "loss"])
    return bool((losses.groupby([shared, "step"])["loss"].nunique() > 1).any())


def _describe_import(state: SweepState) -> list[str]:
    """Return a sentence on the source of imported results; empty for a sweep that was run."""
    if (imported := state.provenance.get(IMPORTED)) is None:
        return []
    table = f"{imported['source']} ({imported['rows']:,} rows, SHA-256 {imported['sha256'][:12]})"
    return [f"Imported from {table}: lengthwise trained none of these members; scores are computed from their curves"]


def _describe_extension(state: SweepState) -> list[str]:
    """Return a sentence on the extensions of a sweep and their effect on intervals; empty without extensions."""
    if len(state.specs) < 2:
        return []

    # An extension decided by results is a second look at the data, and intervals do not account for it.
    first_spec = state.specs[0]
    extensions = len(state.specs) - 1
    times = "once" if extensions == 1 else f"{extensions} times"
    return [
        f"Extended {times}; intervals and p-values do not account for an extension decided by results. It was begun "
        f"with {count_specified(first_spec)} configurations and seeds {format_ranges(first_spec.get('seeds', ()))}"
    ]


def _describe_averages(state: SweepState) -> list[str]:
    """Return a sentence for each weight average that is still largely its initial weights after training."""
    steps_and_shares = (
        (
            configuration.resolved["training"]["steps"],
            state.measurements_by_digest[configuration.measurements_digest].get("start_shares", {}),
        )
        for configuration in state.configurations.values()
    )
    return [*describe_initial_shares(steps_and_shares).values()]


def _describe_repeated_steps(state: SweepState) -> list[str]:
    """Return a sentence on members of a program that reported a step twice with different values; the first count."""
    repeating_packs = [
        pack for pack in state.packs.values() if any("repeated" in fields for fields in pack.evaluations.values())
    ]
    if not repeating_packs:
        return []
    members = format_count(len(repeating_packs), "member")
    return [f"{members} reported a step again with other values: this program does not resume bit for bit"]


def _check_objective_measured(
    state: SweepState, objective: Objective, measurements: Mapping[str, Measurements]
) -> None:
    """Raise LedgerError for a configuration that does not measure the objective of the sweep."""
    for config_id, item in measurements.items():
        metric = item.metrics.get(objective.metric)
        has_lengths = metric is not None and set(objective.lengths) <= set(metric.lengths)
        if not has_lengths or objective.average not in item.averages:
            judged_value = f"{objective.metric} of {objective.average} at {format_lengths(objective.lengths)}"
            number = state.configurations[config_id].number
            raise LedgerError(f"{state.folder / LEDGER_FILE}: configuration {number} does not measure {judged_value}")


def _select_needed_rows(objective: Objective, curves: pd.DataFrame) -> Mask:
    """Return a mask of the rows that a summary needs: every curve at the chosen step, the judged one at all steps."""
    return select_steps(curves, choose_evaluations(curves, objective)) | mask_judged_rows(curves, objective)


def _make_row(
    state: SweepState,
    configuration: ConfigurationState,
    measured: Measurements,
    bands: Mapping[CurveKey, Band],
    objective: Objective,
) -> ConfigurationResult:
    """Return the row of a configuration, without score and rank, and not yet complete."""
    members = configuration.members.values()
    groups = make_length_groups(measured, objective)

    # A member in training counts neither as run nor as failed.
    ended_members = [member for member in members if member.status in ("complete", "failed")]
    failed_members = [member for member in ended_members if member.status == "failed"]
    row = ConfigurationResult(
        config_id=configuration.config_id,
        number=configuration.number,
        values=configuration.values,
        groups=groups,
        is_complete=False,
        seeds=tuple(sorted(configuration.members)),
        seeds_run=len(ended_members),
        seeds_failed=len(failed_members),
        seeds_crashed=sum(member.has_crashed for member in ended_members),
        stop_steps=list_early_stops(configuration),
        pruned_at=configuration.pruned_at,
        form=", ".join(sorted({member.form for member in members if member.form})),
        failures=tuple((member.seed, describe_failure(state, configuration, member)) for member in failed_members),
    )

    # An unfinished configuration has no band.
    band = bands.get((configuration.config_id, objective.metric, objective.average))
    if band is None:
        return row
    return replace(
        row,
        trained_quartiles=compute_quartiles_at(band, groups.trained, objective),
        selection_quartiles=compute_quartiles_at(band, groups.selection, objective),
        test_quartiles=compute_quartiles_at(band, groups.test, objective),
        other_distributions=_judge_other_distributions(configuration.config_id, measured, bands, objective),
        generalization_length=None
        if objective.threshold is None
        else find_generalization_length(band.lengths, band.median, objective.threshold, objective.direction),
        area_beyond=compute_area_beyond(band.lengths, band.median, (*groups.trained, *groups.selection))
        if groups.trained
        else None,
    )


def _judge_other_distributions(
    config_id: str, measured: Measurements, bands: Mapping[CurveKey, Band], objective: Objective
) -> dict[tuple[str, str], Quartiles]:
    """Return the judged metric on other distributions, by metric and group (trained, test)."""
    base = measured.metrics[objective.metric].base
    quartiles = {}
    for name, metric in measured.metrics.items():
        band = bands.get((config_id, name, objective.average))
        if metric.base != base or name == objective.metric or band is None:
            continue

        # No metric on another distribution has selection lengths.
        groups = make_length_groups(measured, objective, name)
        for group, lengths in (("trained", groups.trained), ("test", groups.test)):
            if group_quartiles := compute_quartiles_at(band, lengths, objective):
                quartiles[name, group] = group_quartiles
    return quartiles


def _rank_rows(
    rows: Sequence[ConfigurationResult], evaluations: pd.DataFrame, state: SweepState, objective: Objective
) -> list[ConfigurationResult]:
    """Return the rows with score and rank, best first, then incomplete and pruned configurations.

    `evaluations` are the chosen evaluations of complete configurations. A configuration that left a race is ranked
    behind all configurations that stayed longer, even incomplete ones.
    """
    # Python's sort is stable, so equal rounds of a race stay in the order of their scores.
    complete_rows = {row.config_id: row for row in rows if row.is_complete}
    seeds = {config_id: seeds for config_id, seeds in state.list_packed_seeds().items() if config_id in complete_rows}
    scores = score_configurations(score_evaluations(evaluations, seeds), objective)
    best_first = rank_configurations(scores, objective.direction)
    best_first.sort(key=lambda config_id: (scores[config_id].is_failed, -complete_rows[config_id].rounds))

    # An unfinished configuration in a later round will be ahead of this one, so leave a rank free for it.
    pruned_rows = sorted((row for row in rows if row.pruned_at is not None), key=lambda row: -(row.pruned_at or 0))
    unfinished_rows = [row for row in rows if not row.is_complete and row.pruned_at is None]
    ranked_rows = []
    unfinished_rounds = [row.rounds for row in unfinished_rows]
    for position, config_id in enumerate(best_first, start=1):
        score = scores[config_id]
        q25, _, q75 = score.quartiles
        failed = score.is_failed
        row = replace(complete_rows[config_id], score=score.score, score_q25=q25, score_q75=q75, has_failed=failed)
        rank = position + sum(rounds > row.rounds for rounds in unfinished_rounds)
        ranked_rows.append(replace(row, rank=None if failed else rank))
    return [*ranked_rows, *unfinished_rows, *pruned_rows]
