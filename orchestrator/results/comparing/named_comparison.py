"""Two configurations that were named, of one sweep or of two, against each other over their seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.results.comparing.seed_comparisons import GROUPS, SeedComparison, Side, compare, question_at
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Summary
from orchestrator.wording import spans
from trainers.errors import nearest

NAMED, ASKED = "two that were named", "asked"


@dataclass(frozen=True, kw_only=True)
class NamedComparison:
    """Two configurations, each with its sweep, and how they compare at each group of lengths that both have."""

    first: Side
    second: Side
    found: tuple[SeedComparison, ...]


def compare_named(
    folder: Path,
    first: str,
    second: str,
    *,
    metric: str | None = None,
    average: str | None = None,
    lengths: str | None = None,
) -> NamedComparison:
    """Compare two configurations of the sweep in `folder`; one of another sweep is named FOLDER/CONFIGURATION.

    A configuration is named as for `load`. `metric` and `average` are by default what the sweep of the first judges;
    `lengths`, such as "5,8", stand in place of its trained, selection and test lengths. Raises UserError for what is
    not there or has not ended, and what reading the sweeps raises.
    """
    read: dict[Path, tuple[SweepState, Summary]] = {}
    one, other = (_side(folder, name, read) for name in (first, second))
    if one == other:
        raise UserError(f"{first} and {second} are one configuration, {one.row.config_id}; allowed: two")
    rules = [side.result.objective.evaluation for side in (one, other)]
    if rules[0] != rules[1]:
        raise UserError(f"{first} is judged at the evaluation {rules[0]} and {second} at {rules[1]}: not comparable")
    measured = [side.result.measured[side.row.config_id] for side in (one, other)]
    objective = one.result.objective
    metric = _allowed("--metric", metric or objective.metric, *(each.metrics for each in measured))
    average = _allowed("--average", average or objective.average, *(each.averages for each in measured))
    if lengths is None:
        questions = [question_at(one, other, group, metric, average) for group in GROUPS]
    else:
        evaluated = set.intersection(*(set(each.metrics[metric].lengths) for each in measured))
        question = question_at(one, other, GROUPS[0], metric, average)
        questions = [replace(question, group=ASKED, lengths=_lengths(lengths, evaluated))]
    asked = [question for question in questions if question.lengths]
    if not asked:
        raise UserError(f"{first} and {second} have no lengths of {metric} in common")
    found = tuple(compare(one, other, question, NAMED) for question in asked)
    return NamedComparison(first=one, second=other, found=tuple(replace(each, holm_p=each.found.p) for each in found))


def _side(folder: Path, name: str, read: dict[Path, tuple[SweepState, Summary]]) -> Side:
    """The configuration of that name, in `folder` or in the one it names."""
    place = Path(name)
    home, label = (place.parent, place.name) if "/" in name else (Path(folder), name)
    if home.resolve() not in read:
        state = SweepState.load(home)
        read[home.resolve()] = (state, summary(state))
    state, result = read[home.resolve()]
    config_id = find_configuration(state, label).config_id
    row = next(row for row in result.rows if row.config_id == config_id)
    if not row.complete:
        raise UserError(
            f"{home}: configuration {label} has not ended: {row.seeds_run} of {row.seeds_planned} seeds have"
        )
    return Side(result, row)


def _allowed(option: str, name: str, *allowed: Iterable[str]) -> str:
    """The name if it is among what both have; raises UserError with the nearest one."""
    first, second = (dict.fromkeys(names) for names in allowed)
    both = [one for one in first if one in second]
    if name not in both:
        hint = nearest(name, both)
        raise UserError(
            f"{option} {name}: {f'did you mean {hint}? ' if hint else ''}allowed: {', '.join(both) or 'none'}"
        )
    return name


def _lengths(asked: str, evaluated: Collection[int]) -> tuple[int, ...]:
    parts = [part.strip() for part in asked.split(",") if part.strip()]
    numbers = {int(part) for part in parts if part.isascii() and part.isdigit()}
    if not parts or len(numbers) != len(parts) or not numbers <= set(evaluated):
        allowed = f"different lengths that both were evaluated at ({spans(sorted(evaluated))})"
        raise UserError(f"--lengths {asked!r}: allowed: {allowed}")
    return tuple(sorted(numbers))
