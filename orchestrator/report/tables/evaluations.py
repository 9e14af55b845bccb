"""The last evaluation of each configuration beside its chosen one.

Chosen is the one that `evaluation: best` names; a report uses the word best in one sentence about one configuration.
"""

import statistics
from operator import attrgetter

from orchestrator.report.tables.columns import Columns, Section, make_cells, quartile_text
from orchestrator.results.scoring.evaluation_choice import BEST, LAST
from orchestrator.results.scoring.last_and_best import LastAndBest
from orchestrator.results.summary import Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.wording import label, spans, three_digits

TITLE = "Last evaluation and chosen evaluation"
NAMES = {LAST: "last", BEST: "chosen"}
MOST = 5  # configurations on a terminal


def evaluation_section(result: Summary) -> Section:
    """Return the medians of every configuration at both evaluations, by group of lengths."""
    columns: Columns = {
        "rank": lambda one: str(result.by_config_id[one.config_id].rank or "failed"),
        "label": lambda one: label(result.by_config_id[one.config_id].number),
    }
    for group in ("trained", "selection", "test"):
        for evaluation, name in NAMES.items():
            columns[f"{group}, {name}"] = quartile_text(attrgetter(f"{evaluation}.{group}"), result.infinite)
    columns |= {
        "difference at test": lambda one: _signed(one.difference),
        "fluctuation at test": lambda one: three_digits(one.fluctuation),
        "chosen step": _chosen_step,
    }
    cells = make_cells(result.last_and_best, columns)
    return Section(heading=TITLE, cells=cells, notes=evaluation_notes(result), csv="evaluations.csv", most=MOST)


def evaluation_notes(result: Summary) -> list[str]:
    """Return what chosen means, where it is optimistic, and how it did over all configurations."""
    metric, average = result.objective_curve
    lowest = "lowest" if result.objective.direction == "minimize" else "highest"
    notes = [
        f"Scored here: the {NAMES[result.objective.evaluation]} evaluation. Chosen: the evaluation of each seed with "
        f"the {lowest} {metric} ({average}) at the selection lengths {spans(result.objective.lengths)}, the later one "
        "of equals. These lengths chose it, so it is optimistic there; the test lengths had no influence.",
        "Medians over seeds. Difference: chosen minus last of the same seed at the test lengths. Fluctuation: largest "
        "minus smallest value of a seed there in the last half of its evaluations; steady progress counts too.",
    ]
    differences = [one.difference.median for one in result.last_and_best if one.difference is not None]
    if differences:
        sign = 1 if result.objective.direction == "minimize" else -1
        better, worse = sum(sign * d < 0 for d in differences), sum(sign * d > 0 for d in differences)
        notes.append(
            f"At the test lengths the chosen evaluation is better than the last in {better} of {len(differences)} "
            f"configurations, worse in {worse}; median difference {three_digits(statistics.median(differences))}."
        )
    return notes


def _signed(at: Quartiles | None) -> str:
    text = three_digits(at.median if at else None)
    return f"+{text}" if at and at.median > 0 else text


def _chosen_step(one: LastAndBest) -> str:
    steps = one.steps.values()
    if not steps:
        return "-"
    median = f"{statistics.median(steps):g}"
    return median if min(steps) == max(steps) else f"{median} [{min(steps)}, {max(steps)}]"
