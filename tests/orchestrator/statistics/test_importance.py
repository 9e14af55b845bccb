"""The importance of hyperparameters: planted, and missing for a reason."""

import math

import numpy as np
import pytest

from orchestrator.statistics.effects.importance import compute_importances


@pytest.mark.parametrize(
    ("count", "keys", "score", "reason"),
    [
        (
            19,
            ("x", "y"),
            lambda n: n,
            "19 configurations are too few for the importance of 2 hyperparameters (at least 20)",
        ),
        (30, ("x",), lambda n: n, "no other hyperparameter varies"),
        (30, ("x", "y"), lambda n: 1.0, "the score is constant"),
        (0, (), None, None),
    ],
)
def test_importance_says_why_it_is_missing(count, keys, score, reason):
    rng = np.random.default_rng(0)
    values = {f"c{n}": {key: float(rng.random()) for key in keys} for n in range(count)}
    importances = compute_importances(values, {name: score(n) for n, name in enumerate(values)})
    assert all(math.isnan(importance.share) for importance in importances.values())
    assert {importance.reason for importance in importances.values()} == ({reason} if reason else set())


def test_importance_leaves_out_what_cannot_be_compared_and_takes_infinite_scores():
    rng = np.random.default_rng(1)
    values = {
        f"c{n}": {"x": n % 10, "same": 3, "kind": "abc"[n % 3]} | ({"some": n} if n % 2 else {}) for n in range(30)
    }
    scores = {
        name: math.inf if configuration["x"] == 9 else configuration["x"] + 0.1 * rng.normal()
        for name, configuration in values.items()
    }
    importances = compute_importances(values, {**scores, "c0": None})
    assert importances["same"].reason == "constant"
    assert importances["some"].reason == "missing in some configurations"
    assert importances["x"].share > 0.8 and importances["x"].n == 29
    assert importances["kind"].share == pytest.approx(1 - importances["x"].share)
