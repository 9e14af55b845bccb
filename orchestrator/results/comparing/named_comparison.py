"""Compare two named configurations, of one or two sweeps, over their seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.mirror.fetch import find_sweep
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.results.comparing.questions import make_questions
from orchestrator.results.comparing.seed_comparisons import SeedComparison, Side, compare_sides
from orchestrator.results.make_summary import summarize
from orchestrator.results.summary import Summary

NAMED_FAMILY = "two that were named"


@dataclass(frozen=True, kw_only=True)
class NamedComparison:
    """Two configurations, each with its sweep, and their comparison at each group of lengths that both have."""

    first: Side
    second: Side
    comparisons: tuple[SeedComparison, ...]


def compare_named(
    folder: Path,
    first: str,
    second: str,
    *,
    metric: str | None = None,
    average: str | None = None,
    lengths: str | None = None,
) -> NamedComparison:
    """Compare two configurations of the sweep in `folder`, or of another sweep by the name FOLDER/CONFIGURATION.

    `find_configuration` describes the allowed names. `metric` and `average` default to the first sweep's objective.
    `lengths`, such as "5,8", replace its trained, selection and test lengths. Raises UserError for an unknown
    configuration, metric, average or length, and for unfinished seeds. Reading the sweeps may raise further errors.
    """
    # Both names may mean the same sweep, which is summarized once.
    summaries: dict[Path, tuple[SweepState, Summary]] = {}
    first_side, second_side = (_load_compared_configuration(folder, name, summaries) for name in (first, second))
    if first_side == second_side:
        raise UserError(
            f"{first} and {second} are the same configuration, {first_side.row.config_id}; name two different ones"
        )

    questions = [question for (question,) in make_questions([(first_side, second_side)], metric, average, lengths)]
    if not questions:
        raise UserError(
            f"{first} and {second} have no common lengths of {metric or first_side.summary.objective.metric}"
        )
    comparisons = tuple(compare_sides(first_side, second_side, question, NAMED_FAMILY) for question in questions)

    # A comparison that the user names needs no correction for multiple tests, so holm_p equals p.
    return NamedComparison(
        first=first_side,
        second=second_side,
        comparisons=tuple(replace(comparison, holm_p=comparison.outcome.p) for comparison in comparisons),
    )


def _load_compared_configuration(folder: Path, name: str, summaries: dict[Path, tuple[SweepState, Summary]]) -> Side:
    """Return the named configuration of the sweep in `folder`, or in the folder that the name begins with.

    `summaries` caches the states and summaries of sweeps by folder.
    """
    path = Path(name)
    sweep, label = (find_sweep(path.parent), path.name) if "/" in name else (folder, name)
    if sweep.resolve() not in summaries:
        state = SweepState.load(sweep)
        summaries[sweep.resolve()] = (state, summarize(state))
    state, summary = summaries[sweep.resolve()]

    # A comparison over part of the seeds would change when the others end.
    row = summary.by_config_id[find_configuration(state, label).config_id]
    if not row.is_complete:
        raise UserError(
            f"{sweep}: configuration {label} {row.why_incomplete}: {row.seeds_run} of {row.seeds_planned} seeds ended"
        )
    return Side(summary, row)
