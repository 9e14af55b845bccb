"""The fields of an evaluation record, also those about early stopping and curriculum stages."""

from collections.abc import Mapping
from typing import Any

from trainers.evaluation.results import Evaluation


def make_evaluation_fields(pack_id: str, evaluation: Evaluation, curves: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the record of an evaluation; `curves` are those of `record_curves`.

    Fields of early stopping and curriculum stages have a value for each member, in the order of the pack. stopped_at:
    the step at which it stopped, -1 before that. stages: its stage up to this evaluation. validation: by metric and
    average, its scores at the trained lengths.
    """
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
    if evaluation.stopped_at_M is not None:
        fields["stopped_at"] = evaluation.stopped_at_M
    if evaluation.stage_M is not None:
        fields["stages"] = evaluation.stage_M
    if evaluation.repeated:
        fields["repeated"] = evaluation.repeated
    if (seen := evaluation.validation) is not None:
        fields["validation"] = [
            {"metric": metric, "average": average, "lengths": list(seen.lengths), "values": values}
            for (metric, average), values in zip(seen.decided, seen.values_MDL.swapaxes(0, 1), strict=True)
        ]
    return fields
