"""Rows of the status read from curves: the median curve of the best configuration, and undefined scores."""

import math

from orchestrator.errors import LengthwiseError
from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.labels import make_label
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.configuration_scores import choose_evaluations, mask_judged_rows, read_objective
from orchestrator.results.scoring.evaluation_choice import select_steps
from orchestrator.results.scoring.median_curves import make_bands
from orchestrator.results.scoring.undefined_values import describe_undefined_values, has_undefined_score
from orchestrator.running.watching.meter import find_best_configuration
from orchestrator.text.wording import format_metric, format_number

MAX_LENGTHS = 12


def make_leading_curve_rows(state: SweepState) -> list[tuple[str, str]]:
    """Return a row with the judged metric at each length, "1: 0.0037, 2: 0.0041".

    Empty before the first score, and while the best configuration trains more seeds.
    """
    best = find_best_configuration(state)
    if best is None or not best.is_scored:
        return []

    # Only the packs of the best configuration are read: the curves of a large sweep take long.
    try:
        objective = read_objective(state.spec)
        packs = {member.pack_id for member in best.members.values()}
        curves = read_curves(state, packs=packs, keep=lambda rows: mask_judged_rows(rows, objective))
        curves = curves[curves["config_id"] == best.config_id]
        chosen = curves[select_steps(curves, choose_evaluations(curves, objective))]
        band = make_bands(chosen, objective, {})[best.config_id, objective.metric, objective.average]
    except (LengthwiseError, KeyError) as error:  # KeyError: a ledger whose metric was not measured
        return [("its median curve", f"cannot be read: {error}")]

    # A line has room for MAX_LENGTHS values: every second length or so, and always the last.
    count = len(band.lengths)
    stride = max(1, math.ceil((count - 1) / (MAX_LENGTHS - 1)))
    indices = dict.fromkeys([*range(0, count, stride), count - 1])
    values = ", ".join(f"{band.lengths[index]}: {format_number(band.median[index])}" for index in indices)
    shown = f" ({len(indices)} of {count} lengths)" if stride > 1 else ""
    curve = f"{format_metric(objective.metric, objective.average)} by length{shown}: {values}"
    return [(f"median of {make_label(state.provenance, best.number)}", curve)]


def make_undefined_rows(state: SweepState) -> list[tuple[str, str]]:
    """Return a row with the lengths at which the judged metric is NaN, if seeds that did not fail have no score."""
    if not any(map(has_undefined_score, state.configurations.values())):
        return []
    try:
        objective = read_objective(state.spec)
        curves = read_curves(state, keep=lambda rows: mask_judged_rows(rows, objective))
        chosen_curves = curves[select_steps(curves, choose_evaluations(curves, objective))]
        undefined = describe_undefined_values(state, chosen_curves, objective)
        return [("undefined", sentence) for sentence in (*undefined.warnings, *undefined.notes)]
    except (LengthwiseError, KeyError) as error:  # KeyError: a ledger whose metric was not measured
        return [("undefined", f"curves cannot be read: {error}")]
