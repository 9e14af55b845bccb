"""Last evaluation beside chosen evaluation as text: columns of cells, and the sentences that say what they are worth.

The chosen one is that of `evaluation: best`. A report keeps the word best for one sentence about one configuration.
"""

import statistics
from collections.abc import Sequence

from orchestrator.report.tables.tables import Columns, quartiles_cell
from orchestrator.results.scoring.evaluation_choice import BEST, LAST
from orchestrator.results.scoring.last_and_best import AtEvaluation, LastAndBest
from orchestrator.results.summary import Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.wording import label, spans, three_digits

TITLE = "Last evaluation and chosen evaluation"
NAMES = {LAST: "last", BEST: "chosen"}


def last_and_best_columns(result: Summary, shown: Sequence[LastAndBest], new_line: str | None = None) -> Columns:
    """A line for each configuration: medians over seeds; with `new_line` quartiles after it and trained lengths too."""
    labels = {row.config_id: label(row.number) for row in result.rows}
    ranks = {row.config_id: str(row.rank) if row.rank else "failed" for row in result.rows}

    def cells(evaluation: str, group: str) -> list[str]:
        found = [_of(getattr(one, evaluation), group) for one in shown]
        if new_line is None:
            return [three_digits(at.median if at else None, result.infinite) for at in found]
        return [quartiles_cell(at, new_line, result.infinite) for at in found]

    groups = ("selection", "test") if new_line is None else ("trained", "selection", "test")
    return {
        "rank": [ranks[one.config_id] for one in shown],
        "label": [labels[one.config_id] for one in shown],
        **{f"{group}, {name}": cells(which, group) for group in groups for which, name in NAMES.items()},
        "difference at test": [_signed(one.difference) for one in shown],
        "fluctuation at test": [three_digits(one.fluctuation) for one in shown],
        "chosen step": [_steps(one, new_line or " ") for one in shown],
    }


def last_and_best_notes(result: Summary) -> list[str]:
    """What chosen means, where it is optimistic, and how it did over all configurations."""
    metric, average = result.objective_curve
    lengths = spans(result.objective.lengths)
    which = "lowest" if result.objective.direction == "minimize" else "highest"
    notes = [
        f"Scored here: the {NAMES[result.objective.evaluation]} evaluation. Chosen: the evaluation of each seed with "
        f"the {which} {metric} ({average}) at the selection lengths {lengths}, the later one of equals. These lengths "
        "chose it, so it is optimistic there; the test lengths had no say.",
        "Medians over seeds. Difference: chosen minus last of the same seed at the test lengths. Fluctuation: largest "
        "minus smallest value of a seed there in the last half of its evaluations; steady progress counts too.",
    ]
    apart = [one.difference.median for one in result.last_and_best if one.difference is not None]
    if apart:
        sign = 1 if result.objective.direction == "minimize" else -1
        better, worse = sum(sign * d < 0 for d in apart), sum(sign * d > 0 for d in apart)
        median = statistics.median(apart)
        notes.append(
            f"At the test lengths the chosen evaluation is better than the last in {better} of {len(apart)} "
            f"configurations, worse in {worse}; median difference {three_digits(median)}."
        )
    return notes


def _of(at: AtEvaluation, group: str) -> Quartiles | None:
    found: Quartiles | None = getattr(at, group)
    return found


def _signed(at: Quartiles | None) -> str:
    text = three_digits(at.median if at else None)
    return f"+{text}" if at and at.median > 0 else text


def _steps(one: LastAndBest, gap: str) -> str:
    if not one.steps:
        return "-"
    low, high = min(one.steps.values()), max(one.steps.values())
    middle = f"{statistics.median(one.steps.values()):g}"
    return middle if low == high else f"{middle}{gap}[{low}, {high}]"
