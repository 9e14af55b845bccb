"""EMA and BEMA against their closed forms in float64, per member, with burn-in and update period."""

import numpy as np
import pytest
import torch

from tests.trainers.runs import stepped
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.optimization.averaging import Bema, Ema, NormMatched
from trainers.packs.pack import Pack
from trainers.settings.fields import settings_fields
from trainers.tensors.parameters import Parameter, ParameterLayout

LAYOUT = ParameterLayout([Parameter(name="a", shape=(3,), std=1.0), Parameter(name="b", shape=(2,), std=1.0)])


def columns(**values: list[float]) -> dict[str, torch.Tensor]:
    return {
        key: torch.tensor(value, dtype=torch.int64 if isinstance(value[0], int) else torch.float64)[:, None]
        for key, value in values.items()
    }


def run(average, trajectory: torch.Tensor, h: dict[str, torch.Tensor]) -> torch.Tensor:
    """Weights to evaluate after every step of a trajectory (T+1, M, P)."""
    buffers = average.make_initial_buffers(trajectory[0])
    out = []
    for t in range(1, len(trajectory)):
        buffers = average.update(buffers, trajectory[t], torch.tensor(t), h)
        out.append(average.compute_weights(buffers, trajectory[t], LAYOUT))
    return torch.stack(out)


@pytest.fixture
def trajectory() -> torch.Tensor:
    return torch.randn(41, 3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(0)


def test_ema_is_the_weighted_sum_of_its_history(trajectory: torch.Tensor) -> None:
    decays = [0.0, 0.5, 0.97]
    got = run(Ema(decay=0.5), trajectory, columns(decay=decays, burn_in=[0, 0, 0], update_period=[1, 1, 1]))
    theta = trajectory.numpy()
    for i, decay in enumerate(decays):
        for t in (1, 7, 40):
            powers = np.array([(1 - decay) * decay ** (t - k) for k in range(1, t + 1)])
            expected = decay**t * theta[0, i] + (powers[:, None] * theta[1 : t + 1, i]).sum(0)
            np.testing.assert_allclose(got[t - 1, i].numpy(), expected, rtol=1e-12)


def test_bema_follows_the_paper(trajectory: torch.Tensor) -> None:
    settings = dict(
        kappa=[0.5, 0.3, 0.8],
        eta=[0.2, 0.4, 0.1],
        rho=[10.0, 1.0, 5.0],
        gamma=[1.0, 2.0, 0.5],
        burn_in=[0, 7, 3],
        update_period=[1, 1, 5],
    )
    got = run(Bema(), trajectory, columns(**settings))
    for i in range(3):
        kappa, eta, rho, gamma, burn_in, period = (settings[key][i] for key in settings)
        ema = anchor = bema = trajectory[0, i]
        for t in range(1, 41):
            theta, after = trajectory[t, i], t - burn_in
            if after <= 0:
                ema = anchor = bema = theta
            elif after % period == 0:
                beta, alpha = (rho + gamma * after) ** -kappa, (rho + gamma * after) ** -eta
                ema = (1 - beta) * ema + beta * theta
                bema = ema + alpha * (theta - anchor)
            torch.testing.assert_close(got[t - 1, i], bema, rtol=1e-12, atol=1e-12)


def test_averages_do_not_change_training(member) -> None:
    several = {
        "raw": {},
        "ema": {"decay": 0.9},
        "slow": {"kind": "ema", "decay": 0.999},
        "bema": {},
        "ema_t": {"kind": "bema", "eta": -1.0},
    }
    packs = [Pack([member(training__averages=averages)], torch.device("cpu")) for averages in ({"raw": {}}, several)]
    assert torch.equal(*(stepped(pack, 20).theta for pack in packs))


def test_norm_matched_names_parameters_of_the_model(sections) -> None:
    for names, message in (
        (["embeding"], r"no parameter embeding \(did you mean 'embedding'\?\); allowed: null .* such as embedding, "),
        (["embedding", "nothing"], r"^training\.averages\.all\.parameters: the model has no parameter nothing;"),
        ([], "names no parameter; allowed: null for all parameters, or names of some"),
    ):
        plain = sections(training__averages={"all": {"kind": "norm_matched", "parameters": names}})
        with pytest.raises(ConfigError, match=message):
            MemberConfig.from_dict(plain)
        assert MemberConfig.from_dict(plain, recorded=True).training.averages["all"].parameters == tuple(names)


@pytest.mark.parametrize("chosen", [None, ("b",)])
def test_norm_matched_has_bemas_norms_and_the_raw_direction(trajectory: torch.Tensor, chosen) -> None:
    h = columns(kappa=[0.5] * 3, eta=[0.2] * 3, rho=[10.0] * 3, gamma=[1.0] * 3, burn_in=[0] * 3, update_period=[1] * 3)
    control, bema = run(NormMatched(parameters=chosen), trajectory, h)[-1], run(Bema(), trajectory, h)[-1]
    for name, part in (("a", slice(0, 3)), ("b", slice(3, 5))):
        raw = trajectory[-1][:, part]
        if chosen and name not in chosen:
            assert torch.equal(control[:, part], raw)
            continue
        torch.testing.assert_close(control[:, part].norm(dim=1), bema[:, part].norm(dim=1))
        torch.testing.assert_close(
            torch.cosine_similarity(control[:, part], raw, dim=1), torch.ones(3, dtype=torch.float64)
        )
    assert not torch.allclose(control, bema)


def test_norm_matched_takes_a_parameter_that_is_one_number() -> None:
    layout = ParameterLayout(
        [Parameter(name="scale", shape=(), std=1.0), Parameter(name="table", shape=(2, 2), std=1.0)]
    )
    theta, smooth = torch.tensor([[2.0, 1.0, 1.0, 1.0, 1.0]]), torch.tensor([[-3.0, 2.0, 2.0, 2.0, 2.0]])
    weights = NormMatched().compute_weights((smooth, smooth, smooth), theta, layout)
    torch.testing.assert_close(weights, torch.tensor([[3.0, 2.0, 2.0, 2.0, 2.0]]))


SHARES = [
    Ema(decay=0.9),
    Ema(decay=0.99, burn_in=6, update_period=4),
    Ema(decay=0.5, burn_in=40),
    Ema(decay=0.5, update_period=41),
    Bema(kappa=1.5, rho=3.0),
    Bema(kappa=0.8, eta=-1.0, burn_in=3, update_period=5),
    Bema(kappa=-1.0),
    Bema(update_period=41),
]


@pytest.mark.parametrize("average", SHARES, ids=repr)
def test_the_share_of_the_weights_it_started_from_is_theirs_in_the_average(average) -> None:
    trajectory = torch.zeros(41, 1, 5, dtype=torch.float64)
    trajectory[: average.burn_in + 1] = 1.0
    h = columns(**{item.name: [getattr(average, item.name)] for item in settings_fields(type(average))})
    got = float(run(average, trajectory, h)[-1, 0, 0]) if average.burn_in < 40 else 0.0
    assert average.compute_initial_share(40) == pytest.approx(max(got, 0.0), rel=1e-9, abs=1e-12)


def test_the_share_after_many_updates_is_a_product_over_some() -> None:
    beta = (10.0 + np.arange(1, 200_001)) ** -1.1
    assert Bema(kappa=1.1, eta=-1.0).compute_initial_share(200_000) == pytest.approx(np.prod(1 - beta), rel=1e-3)
    assert NormMatched(kappa=4.0, eta=-1.0).compute_initial_share(10**9) == pytest.approx(1.0, abs=1e-2)


def test_the_decay_that_is_named_leaves_one_percent() -> None:
    for updates in (1, 40, 5_000, 10**7):
        decay = float(Ema(decay=0.9999).suggest_lower_share(updates).split()[-5])
        assert Ema(decay=decay).compute_initial_share(updates) == pytest.approx(0.01, rel=0.05)


def test_a_decay_of_one_is_refused_unless_recorded(sections) -> None:
    still = sections(training__averages={"ema": {"decay": 1.0}})
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict(still)
    assert [problem.key for problem in caught.value.problems] == ["training.averages.ema.decay"]
    assert MemberConfig.from_dict(still, recorded=True).training.averages["ema"].decay == 1.0
