"""The fields of an evaluation record about early stopping and curriculum stages, with the scores behind them."""

from typing import Any

from trainers.evaluation.results import Evaluation


def decision_fields(evaluation: Evaluation) -> dict[str, Any]:
    """Fields of its record, by member in the order of the pack; empty without early stopping and stages.

    stopped_at: the step, -1 before. stages: those trained at up to here. validation: by metric and average the score at
    each trained length.
    """
    found: dict[str, Any] = {}
    if evaluation.stopped_at_M is not None:
        found["stopped_at"] = evaluation.stopped_at_M
    if evaluation.stage_M is not None:
        found["stages"] = evaluation.stage_M
    if (seen := evaluation.validation) is not None:
        found["validation"] = [
            {"metric": metric, "average": average, "lengths": list(seen.lengths), "values": values}
            for (metric, average), values in zip(seen.decided, seen.values_MDL.swapaxes(0, 1), strict=True)
        ]
    return found
