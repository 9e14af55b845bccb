"""Make the fields of an evaluation record, including early stopping and curriculum stages."""

from collections.abc import Mapping
from typing import Any

from trainers.evaluation.results import Evaluation


def make_evaluation_fields(pack_id: str, evaluation: Evaluation, curves: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the ledger record of one evaluation of a pack.

    curves: the fields that `store_curves` returned. The fields loss, failed_at, stopped_at and stages have one value
    for each of the M members, in the order of the pack; the last two are left out without early stopping or a
    curriculum. stopped_at: the step of the early stop, -1 before it. stages: the stage up to this evaluation.
    validation: for each metric and average, `values` of shape (M, L) at the L validated lengths.
    """
    # Fields that every evaluation has.
    fields: dict[str, Any] = {
        "pack_id": pack_id,
        "step": evaluation.step,
        "final": evaluation.final,
        **curves,
        "loss": evaluation.loss_M,
        "failed_at": evaluation.failed_at_M,
        "seconds": evaluation.seconds,
        "form": evaluation.form,
        "compiled": evaluation.compiled,
    }

    # Fields that most sweeps do not have are left out of their ledgers.
    if evaluation.stopped_at_M is not None:
        fields["stopped_at"] = evaluation.stopped_at_M
    if evaluation.stage_M is not None:
        fields["stages"] = evaluation.stage_M
    if evaluation.repeated:
        fields["repeated"] = evaluation.repeated
    if evaluation.defaults:
        fields["defaults"] = evaluation.defaults
    if (validation := evaluation.validation) is not None:
        fields["validation"] = [
            {"metric": metric, "average": average, "lengths": list(validation.lengths), "values": values}
            for (metric, average), values in zip(
                validation.decisions, validation.values_MDL.swapaxes(0, 1), strict=True
            )
        ]
    return fields
