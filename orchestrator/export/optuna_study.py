"""A sweep as an Optuna study in a SQLite file, for `optuna.load_study`, its plots and its dashboard."""

import json
import math
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from orchestrator.plan.domains import value_range
from orchestrator.record.state.parts import ConfigurationState, Draw
from orchestrator.record.state.state import SweepState
from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.effects.rank_effects import is_numeric
from search_spaces import Choice, Domain, Grid, IntUniform, LogUniform
from search_spaces.grammar.problems.findings import Findings, sections_of
from search_spaces.grammar.space.keys import parse_space


def study_file(state: SweepState, result: Summary) -> bytes:
    """Return an Optuna storage (SQLite) with one study of the sweep's name and a trial for each drawn configuration.

    Trial numbers are those of configurations. `value` is the score, the median over seeds; params are the searched
    values by their dotted keys, lists and mappings as JSON. COMPLETE has a score, FAIL failed, PRUNED was
    pruned, RUNNING has begun, WAITING has not. Seeds run and failed, config_id and quartiles are user attributes.
    """
    distributions = _distributions(state)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="lengthwise-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        path = Path(folder) / "study.db"
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        study = optuna.create_study(storage=storage, study_name=state.name, direction=result.objective.direction)
        study.set_user_attr("objective", result.score_label)
        study.set_user_attr("lengthwise sweep", str(state.folder.resolve()))
        for draw in sorted(state.draws.values(), key=lambda draw: draw.number):
            configuration = state.configurations[draw.config_id]
            study.add_trial(_trial(draw, configuration, result.by_config_id[draw.config_id], distributions))
        storage.remove_session()
        storage.engine.dispose()
        return path.read_bytes()


def _trial(
    draw: Draw, configuration: ConfigurationState, row: Row, distributions: Mapping[str, BaseDistribution]
) -> FrozenTrial:
    params = {key: _param(value) for key, value in draw.values.items()}
    scored = row.complete and not row.failed and row.score is not None and not math.isnan(row.score)
    begun = any(member.status != "planned" for member in configuration.members.values())
    ended = TrialState.COMPLETE if scored else TrialState.FAIL
    about = {"config_id": row.config_id, "seeds run": row.seeds_run, "seeds failed": row.seeds_failed}
    about |= {"score q25": row.score_q25, "score q75": row.score_q75} if scored else {}
    about |= {"duplicate of": draw.duplicate_of} if draw.duplicate_of else {}
    open_state = TrialState.RUNNING if begun else TrialState.WAITING
    return create_trial(
        state=ended if row.complete else open_state if row.pruned_at is None else TrialState.PRUNED,
        value=row.score if scored else None,
        params=params,
        distributions={key: distributions[key] for key in params},
        user_attrs=about,
    )


def _distributions(state: SweepState) -> dict[str, BaseDistribution]:
    """Return the Optuna distribution of each searched key, in its own units."""
    sections = {name: state.spec.get(name, {}) for name in sections_of(state.spec)}
    space = parse_space(state.spec.get("space", {}), sections, Findings("the specification"))
    drawn: dict[str, list[Any]] = {}
    for draw in state.draws.values():
        for key, value in draw.values.items():
            drawn.setdefault(key, []).append(value)
    return {key: _distribution(space.get(key), values) for key, values in drawn.items()}


def _distribution(domain: Domain | None, values: Sequence[Any]) -> BaseDistribution:
    match domain:
        case Choice() | Grid():
            return CategoricalDistribution(_choices([*domain.values, *values]))
        case IntUniform():
            return IntDistribution(domain.low, domain.high, step=domain.step)
        case None if is_numeric(values):  # of search.listed
            return FloatDistribution(min(values), max(values))
        case None:
            return CategoricalDistribution(_choices(values))
    low, high = value_range(domain)
    return FloatDistribution(min(low, *values), max(high, *values), log=isinstance(domain, LogUniform))


def _choices(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the different values in their order; 1, 1.0 and true are different ones."""
    return tuple({json.dumps(value): _param(value) for value in values}.values())


def _param(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
