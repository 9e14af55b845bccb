"""The answers that claims of every study share."""

import numpy as np
import pytest

from orchestrator.studies.claims import within
from orchestrator.studies.measures import Effect


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.2, 0.8, "held"),
        (0.1, 0.9, "held"),
        (-0.5, 0.05, "did not hold"),
        (0.95, 2.0, "did not hold"),
        (0.0, 0.5, "not decided"),
        (0.0, 1.0, "not decided"),
        (np.nan, np.nan, "not decided"),
    ],
)
def test_answers_about_a_range(low: float, high: float, answer: str) -> None:
    assert within(Effect(value=0.0, low=low, high=high, n=5, unit="seeds"), 0.1, 0.9) == answer
