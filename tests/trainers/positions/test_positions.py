"""Positional encodings against their formulas written out pair by pair."""

import math

import pytest
import torch

from tests.trainers.positions.passes import bias_of, pass_of, sizes
from trainers.errors import ConfigError
from trainers.models.encoder import Encoder
from trainers.positions.rpe import Rpe
from trainers.positions.sinusoidal import Sinusoidal
from trainers.positions.upe import Upe
from trainers.tasks.set_complement import SetComplement

T, K = 6, 4


def queries(seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 3, 2, T, K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def table(position, rows: int) -> dict[str, torch.Tensor]:
    (parameter,) = position.layer_parameters("block0", sizes(T, 2, K))
    assert parameter.shape == (rows, K) and parameter.decay
    values = torch.randn(2, rows, K, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return {parameter.name: values}


def test_rpe_adds_the_vector_of_the_difference_to_each_key() -> None:
    weights, q = table(Rpe(), 2 * T - 1), queries()
    got = bias_of(Rpe(), q, weights)
    for i in range(T):
        for j in range(T):
            expected = (q[:, :, :, i] * weights["block0.pairs"][:, None, None, i - j + T - 1]).sum(-1) / math.sqrt(K)
            torch.testing.assert_close(got[..., i, j], expected)


def test_rpe_is_unchanged_by_a_common_shift() -> None:
    weights = table(Rpe(), 2 * T - 1)
    q = queries()[..., :1, :].expand(-1, -1, -1, T, -1)
    scores = bias_of(Rpe(), q, weights)
    torch.testing.assert_close(scores[..., 1:, 1:], scores[..., :-1, :-1])


def test_upe_gives_each_multiplier_digit_one_vector_for_all_queries() -> None:
    position, q = Upe(uniform=2), queries()
    weights = table(position, 2 * T - 1 + 2)
    got = bias_of(position, q, weights)
    for i in range(T):
        for j in range(T):
            row = 2 * T - 1 + (1 - j) if j < 2 else i - j + T - 1  # position 0 is the tens, 1 the units
            expected = (q[:, :, :, i] * weights["block0.pairs"][:, None, None, row]).sum(-1) / math.sqrt(K)
            torch.testing.assert_close(got[..., i, j], expected)


def test_upe_term_does_not_see_where_a_query_stands() -> None:
    position = Upe(uniform=2)
    weights, q = table(position, 2 * T + 1), queries()
    order = torch.tensor([0, 1, 4, 2, 5, 3])
    scores, moved = bias_of(position, q, weights), bias_of(position, q[..., order, :], weights)
    torch.testing.assert_close(moved[..., :2], scores[..., order, :2])


def test_upe_with_relative_vectors_in_place_of_its_own_is_rpe() -> None:
    """For the query at one position: c_j set to the vector of that difference."""
    position, q = Upe(uniform=2), queries()
    weights = table(position, 2 * T + 1)
    pairs = weights["block0.pairs"].clone()
    for i in range(T):
        for j in (0, 1):
            pairs[:, 2 * T - 1 + 1 - j] = pairs[:, i - j + T - 1]
        upe = bias_of(position, q, {"block0.pairs": pairs})[..., i, :]
        rpe = bias_of(Rpe(), q, {"block0.pairs": pairs[:, : 2 * T - 1]})[..., i, :]
        torch.testing.assert_close(upe, rpe)


def test_sinusoidal_is_its_formula() -> None:
    x = torch.zeros(1, 1, 5, 6, dtype=torch.float64)
    got = Sinusoidal(base=100.0).embed(x, pass_of(torch.zeros(1, 1, 5), {}, False))[0, 0]
    for t in range(5):
        for i in range(3):
            angle = t / 100 ** (2 * i / 6)
            assert float(got[t, 2 * i]) == pytest.approx(math.sin(angle))
            assert float(got[t, 2 * i + 1]) == pytest.approx(math.cos(angle))


def test_a_bidirectional_model_is_refused_for_a_task_of_next_tokens(member) -> None:
    with pytest.raises(ConfigError, match=r"model.name.*causal"):
        member(model={"name": "encoder", "layers": 1, "width": 8, "heads": 2})


def test_upe_is_refused_where_there_is_no_multiplier() -> None:
    problems = list(Encoder(width=8, position={"name": "upe", "uniform": 1}).task_problems(SetComplement()))
    assert any(problem.key == "position.uniform" for problem in problems)


def test_paper_table_sizes() -> None:
    assert Rpe().layer_parameters("b", sizes(101, 8, 96))[0].shape == (201, 96)
    assert Rpe().layer_parameters("b", sizes(41, 8, 96))[0].shape == (81, 96)
