"""Make the questions of a comparison: a metric, average and lengths that all its configurations have."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from orchestrator.errors import UserError
from orchestrator.results.comparing.seed_comparisons import LENGTH_GROUPS, Question, Side, make_question
from orchestrator.results.scoring.length_groups import parse_lengths
from orchestrator.text.wording import format_ranges
from trainers.errors import suggest_nearest

REQUESTED = "asked"  # recorded in tables
Pair = tuple[Side, Side]


def make_questions(
    pairs: Sequence[Pair], metric: str | None = None, average: str | None = None, lengths: str | None = None
) -> list[list[Question]]:
    """Return for each group of lengths the question of every pair of configurations; its lengths may be empty.

    `metric` and `average` default to the objective of the first sweep. `lengths`, such as "5,8", replace the test,
    selection and trained lengths. Groups without any length are left out. Raises UserError for a metric, average or
    length that a configuration lacks, and for sweeps that are judged at different evaluations.
    """
    # A chosen evaluation is better than a last one by selection alone, so the two cannot be compared.
    first, second = pairs[0]
    objective = first.summary.objective
    evaluations = [side.summary.objective.evaluation for side in (first, second)]
    if evaluations[0] != evaluations[1]:
        names = [side.summary.name for side in (first, second)]
        raise UserError(
            f"not comparable: objective.evaluation is {evaluations[0]} in {names[0]}, {evaluations[1]} in {names[1]}"
        )

    # Configurations may have different tasks, so different metrics.
    measurements = [side.summary.measurements[side.row.config_id] for pair in pairs for side in pair]
    names = [side.summary.name for pair in pairs for side in pair]
    metric = _choose_common("metric", metric, objective.metric, [item.metrics for item in measurements], names)
    average = _choose_common("average", average, objective.average, [item.averages for item in measurements], names)

    # A configuration may lack a group of lengths, but requested lengths must be common to all.
    if lengths is None:
        groups = [[make_question(*pair, group, metric, average) for pair in pairs] for group in LENGTH_GROUPS]
        return [questions for questions in groups if any(question.lengths for question in questions)]
    common_lengths = find_common_lengths(pairs, metric)
    allowed_text = f"distinct lengths that every configuration has ({format_ranges(common_lengths)})"
    chosen_lengths = parse_lengths(lengths, common_lengths, allowed_text)
    return [
        [
            replace(make_question(*pair, LENGTH_GROUPS[0], metric, average), group=REQUESTED, lengths=chosen_lengths)
            for pair in pairs
        ]
    ]


def find_common_lengths(pairs: Sequence[Pair], metric: str) -> tuple[int, ...]:
    """Return the lengths at which every configuration evaluated a metric."""
    lengths = [
        set(side.summary.measurements[side.row.config_id].metrics[metric].lengths) for pair in pairs for side in pair
    ]
    return tuple(sorted(set.intersection(*lengths)))


def _choose_common(
    kind: str, requested: str | None, default: str, allowed: Sequence[Iterable[str]], sweeps: Sequence[str]
) -> str:
    """Return the requested name, or else the default. Raises UserError if a configuration lacks it.

    `allowed` are the recorded names of every configuration, `sweeps` the names of their sweeps.
    """
    first_names, *other_names = (dict.fromkeys(names) for names in allowed)
    common_names = [candidate for candidate in first_names if all(candidate in names for names in other_names)]
    name = requested or default
    if name in common_names:
        return name

    # The user can correct a requested name, but not a default or configurations without a common name.
    if not common_names:
        lists = "; ".join(dict.fromkeys(", ".join(names) for names in (first_names, *other_names)))
        raise UserError(f"not comparable: the configurations have no common {kind}: {lists}")
    if requested is None:
        raise UserError(
            f"--{kind}: not every configuration has {default}, the default; allowed: {', '.join(common_names)}"
        )
    lacking = dict.fromkeys(
        sweep for recorded, sweep in zip((first_names, *other_names), sweeps, strict=True) if name not in recorded
    )
    raise UserError(
        f"--{kind} {name}: not recorded in {' and '.join(lacking)}; recorded: {', '.join(common_names)}"
        f"{suggest_nearest(name, common_names)}"
    )
