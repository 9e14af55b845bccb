"""A sweep of many configurations, for figures that treat the first ones apart."""

import pytest

from orchestrator.results.make_summary import summarize

SPACE = {
    "training.learning_rate": {"log_uniform": [1e-4, 1e-2]},
    "training.batch_size": {"choice": [16, 32]},
    "training.averages.ema.decay": {"one_minus_log_uniform": [0.9, 0.9999]},
}


def values_of(count):
    return [
        {
            "training.learning_rate": 10.0 ** -(4 - 2 * n / max(count - 1, 1)),
            "training.batch_size": 16 << n % 2,
            "training.averages.ema.decay": 1 - 10.0 ** -(1 + n / 8),
        }
        for n in range(count)
    ]


@pytest.fixture
def draws():
    """So many configurations of three values each, by number."""
    return values_of


@pytest.fixture
def eleven(tmp_path, synthetic_sweep, simple_curve):
    """Eleven configurations of four seeds; number 0 lost one seed, number 3 all of them."""
    failed = {(0, 1): 50, **{(3, seed): 50 for seed in range(4)}}
    return summarize(
        synthetic_sweep(tmp_path / "eleven", values_of(11), 4, simple_curve, failed, spec={"space": SPACE})
    )
