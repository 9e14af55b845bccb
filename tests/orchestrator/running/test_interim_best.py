"""The best configuration before any has ended, by hand."""

import pandas as pd
import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.running.watching.interim_best import describe_interim_best


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_interim_best_is_at_the_last_common_step(tmp_path, synthetic_sweep, direction):
    """Number 2 is best at the first evaluation, number 0 at the second, which a slow seed of it has not reached."""

    def curve(number, seed, average, metric, lengths, step):
        score = (0.3, 0.5, 0.2)[number] if step <= 50 else (0.1, 0.5, 0.4)[number]
        return (score if direction == "minimize" else 1 - score) + 0.0 * lengths

    values = [{"model.dropout": number / 10} for number in range(3)]
    spec = {"objective.direction": direction}
    state = synthetic_sweep(tmp_path / "going", values, 3, curve, ended=False, spec=spec)
    curves = read_curves(state)
    steps = sorted(curves["step"].unique())
    first, last = steps[0], steps[-1]
    assert first == 50 < last
    ids = {configuration.number: config_id for config_id, configuration in state.configurations.items()}
    is_first = curves["step"] == first

    def describe(rows: pd.DataFrame) -> str:
        text, _, step = describe_interim_best(state, rows).rpartition(" at step ")
        return f"{text.partition(' ')[2]} {step}".strip()

    assert describe(curves[:0]) == ""
    assert describe(curves[is_first]) == f"(#2) {first}"
    assert describe(curves[is_first & (curves["seed"] > 0)]) == ""
    assert describe(curves) == f"(#0) {last}"
    slow = (curves["config_id"] == ids[0]) & (curves["seed"] == 1) & (curves["step"] > first)
    assert describe(curves[~slow]) == f"(#2) {last}"
