"""Keys of the objective that may be left out: the only weight average, and the direction that the metric has."""

from typing import Any

from search_spaces.grammar.problems.findings import lookup

RAW = "raw"  # the average of a sweep that names none
ASSUMED = "minimize"  # stands in until the metric of the task is known


def fill_objective(data: dict[str, Any]) -> bool:
    """Put what is left out of the objective into `data`; return whether its direction is only assumed.

    The average is filled in where `training.averages` has one label and is not varied. What the direction is, only the
    task knows: see `orchestrator.plan.checks.soundness`.
    """
    objective = data.get("objective")
    if not isinstance(objective, dict):
        return False
    averages = lookup(data, "training.averages")
    labels = list(averages) if isinstance(averages, dict) else [RAW]
    if "average" not in objective and len(labels) == 1 and not _varied(data):
        objective = {**objective, "average": labels[0]}
    assumed = "direction" not in objective
    data["objective"] = {**objective, "direction": ASSUMED} if assumed else objective
    return assumed


def _varied(data: dict[str, Any]) -> bool:
    listed = lookup(data, "search.listed")
    tables = [data.get("space"), *(listed if isinstance(listed, list) else ())]
    return any(str(key).startswith("training.averages") for table in tables if isinstance(table, dict) for key in table)
