"""From the state of a sweep to its summary: scores, ranks, bands, and what confirms it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from orchestrator.errors import LedgerError, LengthwiseError
from orchestrator.record.kept.code import import_recorded
from orchestrator.record.kept.curves import read_curves
from orchestrator.record.kept.weights import kept_weights
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.lineage import CONFIRMS, confirmations_of, planned_seeds, relative, searches_of
from orchestrator.record.state.measured import Measured
from orchestrator.record.state.parts import ConfigurationState
from orchestrator.record.state.state import SweepState
from orchestrator.results.confirmed import Confirmed, ConfirmedRow, in_search
from orchestrator.results.ran_under import RanUnder, code_of_packs, differing_code
from orchestrator.results.scoring.evaluation_choice import Mask, at_steps
from orchestrator.results.scoring.last_and_best import compare_last_and_best
from orchestrator.results.scoring.length_groups import length_groups
from orchestrator.results.scoring.measured_by import measured_by
from orchestrator.results.scoring.median_curves import Band, CurveKey, at_lengths, bands_of
from orchestrator.results.scoring.objective import (
    area_beyond,
    choose,
    generalization_length,
    is_judged,
    rank,
    recorded_objective,
    score_configurations,
    score_members,
)
from orchestrator.results.scoring.search_design import design_of, domain_kind, grid_size
from orchestrator.results.scoring.validation_scores import may_stop, read_validation_scores, stopped_at
from orchestrator.results.summary import RecordedConfiguration, Row, Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.wording import spans
from search_spaces import Objective, Search


def summary(
    state: SweepState, curves: pd.DataFrame | None = None, parameters: Mapping[str, str] | None = None
) -> Summary:
    """Summarise a sweep, finished or not; `curves` (all of `read_curves(state)`) spares reading them.

    `parameters` (`parameters_by_structure(state)`) spare importing torch where configurations are compared.

    Raises DamagedCurves if a parquet part is not what the ledger names.
    """
    objective, measured = recorded_objective(state.spec), measured_by(state)
    _refuse_unjudged(state, objective, measured)
    directions = {name: metric.direction for one in measured.values() for name, metric in one.metrics.items()}
    done = {c.config_id for c in state.configurations.values() if _complete(state, c)}
    needed = partial(_needed, objective)
    curves = read_curves(state, keep=needed) if curves is None else curves[needed(curves)]
    curves = curves[curves["config_id"].isin(done)]
    bands = bands_of(curves[at_steps(curves, choose(curves, objective))], objective, directions)
    rows = [
        replace(_row(c, measured[c.config_id], bands, objective), complete=c.config_id in done)
        for c in state.configurations.values()
    ]
    rows = _scored(rows, curves, state, objective)
    groups = {row.config_id: row.groups for row in rows if row.complete}
    ran_under = RanUnder.from_state(state)
    searched = {key: domain_kind(state.spec.get("space", {}).get(key)) for key in _searched(state)}
    return Summary(
        name=state.name,
        study=state.study,
        folder=state.folder,
        status=state.ended or "unfinished",
        finished=state.ended in ("complete", "failed"),
        planned=max(_planned(state.spec), len(state.configurations)) if not state.ended else len(state.configurations),
        objective=objective,
        measured=measured,
        recorded=_recorded(state, parameters or {}),
        searched=searched,
        design=design_of(state),
        seeds=state.seeds(),
        rows=tuple(rows),
        bands=bands,
        provenance=state.provenance,
        notes=(*(str(conflict) for conflict in state.conflicts), *ran_under.sentences),
        deaths=tuple(error for _, error in state.deaths),
        code=tuple(state.modules),
        ran_under=ran_under,
        informed=_informed(state),
        last_and_best=compare_last_and_best(curves, objective, groups, state.seeds()),
        may_stop=may_stop(state),
        validation_scores=read_validation_scores(state),
        weights=kept_weights(state),
        import_code=partial(import_recorded, state),
        read_confirmed=partial(_confirmations, state),
    )


def _refuse_unjudged(state: SweepState, objective: Objective, measured: Mapping[str, Measured]) -> None:
    """Raise LedgerError for a configuration that does not measure what the sweep is judged by."""
    for name, one in measured.items():
        metric = one.metrics.get(objective.metric)
        if metric is None or not set(objective.lengths) <= set(metric.lengths) or objective.average not in one.averages:
            judged = f"{objective.metric} of {objective.average} at lengths {spans(objective.lengths)}"
            number = state.configurations[name].number
            raise LedgerError(f"{state.folder / LEDGER_FILE}: configuration {number} does not measure {judged}")


def _needed(objective: Objective, curves: pd.DataFrame) -> Mask:
    """What a summary reads of whole packs: all of the step that counts, the judged curve of every step."""
    return at_steps(curves, choose(curves, objective)) | is_judged(curves, objective)


def _complete(state: SweepState, configuration: ConfigurationState) -> bool:
    """Whether every pack with a seed of the configuration has ended: a seed may fail long before its pack ends."""
    packs = {member.pack_id for member in configuration.members.values()}
    return bool(packs) and all(state.packs[pack_id].status in ("complete", "failed") for pack_id in packs)


def _recorded(state: SweepState, parameters: Mapping[str, str]) -> dict[str, RecordedConfiguration]:
    found, code = {}, code_of_packs(state)
    for name, configuration in state.configurations.items():
        packs = {seed: member.pack_id for seed, member in configuration.members.items()}
        keys = {state.packs[pack_id].structural_key for pack_id in packs.values()} - {""}
        found[name] = RecordedConfiguration(
            resolved=configuration.resolved,
            structural_keys=frozenset(keys),
            parameters=next((parameters[key] for key in sorted(keys) if key in parameters), None),
            code={seed: code[pack_id] for seed, pack_id in packs.items()},
        )
    return found


def _row(
    configuration: ConfigurationState,
    measured: Measured,
    bands: Mapping[CurveKey, Band],
    objective: Objective,
) -> Row:
    members = configuration.members.values()
    groups = length_groups(measured, objective)
    ended = [m for m in members if m.status in ("complete", "failed")]
    row = Row(
        config_id=configuration.config_id,
        number=configuration.number,
        values=configuration.values,
        groups=groups,
        complete=False,
        seeds=tuple(sorted(configuration.members)),
        seeds_run=len(ended),
        seeds_failed=sum(m.status == "failed" for m in ended),
        seeds_crashed=sum(m.status == "failed" and m.failed_at is None for m in ended),
        stopped_at=stopped_at(configuration),
        form=", ".join(sorted({m.form for m in members if m.form})),
    )
    band = bands.get((configuration.config_id, objective.metric, objective.average))
    if band is None:
        return row
    return replace(
        row,
        trained=at_lengths(band, groups.trained, objective),
        selection=at_lengths(band, groups.selection, objective),
        test=at_lengths(band, groups.test, objective),
        beside=_beside(configuration.config_id, measured, bands, objective),
        generalization_length=None
        if objective.threshold is None
        else generalization_length(band.lengths, band.median, objective.threshold, objective.direction),
        area_beyond=area_beyond(band.lengths, band.median, (*groups.trained, *groups.selection))
        if groups.trained
        else None,
    )


def _beside(
    config_id: str, measured: Measured, bands: Mapping[CurveKey, Band], objective: Objective
) -> dict[tuple[str, str], Quartiles]:
    """The judged metric on the other distributions, at their trained and their test lengths."""
    base, found = measured.metrics[objective.metric].base, {}
    for name, metric in measured.metrics.items():
        band = bands.get((config_id, name, objective.average))
        if metric.base != base or name == objective.metric or band is None:
            continue
        groups = length_groups(measured, objective, name)
        for group, lengths in (("trained", groups.trained), ("test", groups.test)):
            if at := at_lengths(band, lengths, objective):
                found[name, group] = at
    return found


def _scored(rows: Sequence[Row], curves: pd.DataFrame, state: SweepState, objective: Objective) -> list[Row]:
    """Rows with score and rank, best first; configurations without all their seeds follow in their own order."""
    complete = {row.config_id: row for row in rows if row.complete}
    seeds = {name: seeds for name, seeds in state.seeds().items() if name in complete}
    scores = score_configurations(score_members(curves, objective, seeds), objective)
    ranked = []
    for place, one in enumerate(rank(scores, objective.direction), start=1):
        row = replace(complete[one.config_id], score_q25=one.q25, score_q75=one.q75, failed=one.failed)
        ranked.append(replace(row, score=one.score, rank=None if one.failed else place))
    return [*ranked, *(row for row in rows if not row.complete)]


def _searched(state: SweepState) -> list[str]:
    """Keys that were drawn, in alphabetical order (the ledger keeps no other)."""
    return sorted({key for configuration in state.configurations.values() for key in configuration.values})


def _planned(spec: Mapping[str, Any]) -> int:
    search = spec.get("search", {})
    draws = len(search.get("listed") or ()) or search.get("configurations") or 1
    return int(draws * grid_size(spec))


def _informed(state: SweepState) -> tuple[int, int] | None:
    if state.spec.get("search", {}).get("sampler") != "tpe":
        return None
    search = Search.model_validate(state.spec["search"])
    failed = [number for number, draw in state.draws.items() if draw.scored and draw.score is None]
    return search.informed(len(state.draws), failed), len(state.draws)


def _confirmations(state: SweepState, result: Summary) -> tuple[Confirmed, ...]:
    """What confirms a sweep among those beside it; for a confirmation, first itself against its search.

    Confirmations whose ledger or curves cannot be read are left out: they say so in their own report.
    """
    found = []
    if CONFIRMS in result.provenance:
        searches = [one.folder for one in searches_of(state)]
        found.append(_confirmed(state, result, SweepState.load(searches[0]) if searches else None))
    for one in confirmations_of(state):
        try:
            other = SweepState.load(one.folder)
            found.append(_confirmed(other, summary(other), state))
        except LengthwiseError:
            continue
    return tuple(found)


def _confirmed(state: SweepState, result: Summary, search: SweepState | None) -> Confirmed:
    """A confirmation from its own summary; `search` tells whether the search was extended onto its seeds since."""
    confirms, seeds = result.provenance[CONFIRMS], relative(result.folder).seeds
    rows = {row.config_id: row for row in result.rows}
    return Confirmed(
        name=result.name,
        folder=result.folder,
        parent=confirms["sweep"],
        seeds=seeds,
        again_used=tuple(sorted(set(seeds) & planned_seeds(search))) if search else (),
        other_code=_other_code(result, state, search) if search else (),
        finished=result.finished,
        of=confirms["of"],
        rows=tuple(_confirmed_row(rows.get(name or ""), recorded) for recorded, name in in_search(state)),
    )


def _other_code(result: Summary, state: SweepState, search: SweepState) -> tuple[str, ...]:
    """The parts of the code that trained a configuration differently in a confirmation and in its search."""
    then, keys = _recorded(search, {}), dict[str, tuple[str | None, str | None]]()
    for recorded, name in in_search(state):
        one, other = then.get(recorded["config_id"]), result.recorded.get(name or "")
        keys |= differing_code(one.code, other.code) if one and other else {}
    return tuple(sorted(keys))


def _confirmed_row(row: Row | None, recorded: Mapping[str, Any]) -> ConfirmedRow:
    done = row is not None and row.complete
    return ConfirmedRow(
        config_id=recorded["config_id"],
        number=recorded.get("number"),
        values=recorded["values"],
        search_rank=recorded["rank"],
        search=_quartiles(recorded["score"]),
        confirmed=row.scored if row is not None and done else None,
        search_test=_quartiles(recorded["test"]) if recorded["test"] else None,
        confirmed_test=row.test if row is not None and done else None,
        seeds_run=row.seeds_run if row is not None else 0,
        seeds_failed=row.seeds_failed if row is not None else 0,
    )


def _quartiles(recorded: Sequence[float]) -> Quartiles:
    """Quartiles as the ledger of a confirmation has them: the median comes first."""
    median, q25, q75 = recorded
    return Quartiles(q25=q25, median=median, q75=q75)
