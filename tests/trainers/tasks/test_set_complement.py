"""The set complement task and the attention-only model: data, loss floors, closed forms, symmetries, table form."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from tests.trainers.own_tasks import mean_loss, scores_of
from trainers import train
from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import evaluate
from trainers.models.attention_only import AttentionOnly
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.tasks import uniform
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import ParameterLayout
from trainers.training.step import compute_gradients, sample_batches, train_next_step

CPU = torch.device("cpu")


def data_stream(seeds: list[int], step: int = 1) -> Stream:
    return Stream(torch.tensor(seeds), "data", torch.tensor(step))


def batch_of(tokens: torch.Tensor) -> Batch:
    return Batch(tokens, tokens)


def test_next_token_is_uniform_on_the_complement() -> None:
    batch = SetComplement(vocabulary=6, train_length=2).sample(data_stream([0]), 60_000)
    assert batch.tokens.shape == (1, 60_000, 2)
    first, second, target = batch.tokens[0, :, 0], batch.tokens[0, :, 1], batch.targets[0, :, 1]
    assert torch.equal(batch.targets[0, :, 0], second)
    chosen = target[(torch.minimum(first, second) == 1) & (torch.maximum(first, second) == 4)].numpy()
    counts = np.bincount(chosen, minlength=6)
    assert counts[1] == counts[4] == 0
    assert scipy.stats.chisquare(counts[[0, 2, 3, 5]]).pvalue > 1e-4


def test_soft_targets_are_the_distribution_of_the_sampled_ones() -> None:
    task = SetComplement(vocabulary=7, train_length=4, target="soft")
    batch = task.sample(data_stream([1, 2]), 50)
    torch.testing.assert_close(batch.targets.sum(-1), torch.ones(2, 50, 4))
    for row, soft in zip(batch.tokens[1, :5].tolist(), batch.targets[1, :5].tolist(), strict=True):
        for s in range(1, 5):
            expected = [0.0 if v in row[:s] else 1 / (7 - s) for v in range(7)]
            assert soft[s - 1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("v", "length", "floor"), [(5, 2, 1.2425), (20, 2, 2.9174), (20, 5, 2.8297), (20, 10, 2.6538), (60, 30, 3.7759)]
)
@pytest.mark.parametrize("target", ["soft", "sampled"])
def test_loss_of_the_exact_distribution_is_the_floor(v: int, length: int, floor: float, target: str) -> None:
    task = SetComplement(vocabulary=v, train_length=length, target=target)
    batch = task.sample(data_stream([0]), 200)
    logits = torch.log(task.make_targets(batch.tokens).clamp_min(1e-30))
    assert float(mean_loss(task, logits, batch)) == pytest.approx(floor, abs=1e-4)
    assert float(mean_loss(task, torch.zeros_like(logits), batch)) == pytest.approx(math.log(v), abs=1e-5)


def closed_form_invalid_mass(v: int, delta: float, s: int) -> float:
    return s * math.exp(-delta / s) / (s * math.exp(-delta / s) + v - s)


def analytic_weights(v: int, delta: float) -> dict[str, torch.Tensor]:
    """B = 0 and D = -delta (I - 11^T / v) for constant attention: E and U meet only through W_V W_O."""
    eye, zero = torch.eye(v, dtype=torch.float64), torch.zeros(v, v, dtype=torch.float64)
    return {
        "embedding": torch.cat([eye, zero], dim=1)[None],
        "unembedding": torch.cat([zero, -delta * (eye - 1.0 / v)], dim=0)[None],
        "value": torch.cat([eye, zero], dim=0)[None],
        "output": torch.cat([zero, eye], dim=1)[None],
    }


@pytest.mark.parametrize("form", ["plain", "table"])
def test_analytic_solution_has_the_closed_form_at_every_length(form: str) -> None:
    v, delta = 20, 20.0
    config = MemberConfig.from_dict(
        {
            "task": {"name": "set_complement", "vocabulary": v, "train_length": 2},
            "model": {
                "name": "attention_only",
                "width": 2 * v,
                "value_width": v,
                "attention": "constant",
                "form": form,
            },
            "training": {"steps": 1, "batch_size": 1, "learning_rate": 0.0, "dtype": "float64"},
            "evaluation": {"samples": 400},
        }
    )
    pack = Pack([config], CPU)
    state = TrainingState.make_initial(pack)
    state.theta = pack.layout.flatten(analytic_weights(v, delta))
    names, values = evaluate(pack, state)
    curve = {name: values[0, 0, k] for k, name in enumerate(names)}
    for s in range(1, v):
        mass = closed_form_invalid_mass(v, delta, s)
        at = s - 1
        assert curve["invalid_mass"][at] == pytest.approx(mass, rel=2e-5)
        assert curve["total_variation"][at] == pytest.approx(mass, rel=1e-3, abs=2e-7)
        assert curve["kl"][at] == pytest.approx(-math.log1p(-mass), rel=1e-3, abs=5e-7)
        assert curve["margin"][at] == pytest.approx(delta / s, rel=1e-5)
        assert curve["margin_min"][at] == pytest.approx(delta / s, rel=1e-5)
        assert curve["displacement"][at] == pytest.approx(delta, rel=1e-4)
        assert curve["valid_uniformity"][at] == pytest.approx(0, abs=1e-6)
        assert curve["invalid_top1"][at] == 0
        assert curve["balance"][at] == pytest.approx(0, abs=1e-6)
        assert curve["table_displacement"][at] == pytest.approx(delta, rel=1e-5)
        assert curve["attention_uniformity"][at] == pytest.approx(1, rel=1e-5)
        assert curve["margin_bound"][at] == pytest.approx(delta / s, rel=1e-5)
        assert curve["margin"][at] == pytest.approx((2 / s) * curve["margin"][1], rel=1e-5)
    published = {1: 1.08e-10, 2: 5.04e-6, 5: 6.07e-3, 10: 0.119, 15: 0.442, 19: 0.869}
    for s, mass in published.items():
        assert closed_form_invalid_mass(v, delta, s) == pytest.approx(mass, rel=5e-3)


def test_evaluation_uses_every_input_where_there_are_few() -> None:
    task = SetComplement(vocabulary=6, train_length=2)
    covered = {}
    for test in task.evaluation_batches(data_stream([0]), 50, task.lengths):
        for s in test.lengths:
            rows = test.batch.tokens[0, :, :s].tolist()
            covered[s] = {(frozenset(row), row[-1]) for row in rows}, len(rows)
    assert sorted(covered) == [1, 2, 3, 4, 5]
    for s, (inputs, rows) in covered.items():
        count = s * math.comb(6, s)
        assert (len(inputs), rows) == (count, count) if count <= 50 else rows == 50


def test_scores_against_a_slow_reference() -> None:
    task = SetComplement(vocabulary=7, train_length=3)
    stream = data_stream([3])
    generator = torch.Generator().manual_seed(0)
    for test in task.evaluation_batches(stream, 30, (2, 4)):
        logits = 3 * torch.randn(1, *test.batch.tokens.shape[1:], 7, generator=generator)
        scores = scores_of(task, logits, test.batch, test.lengths)
        for i, s in enumerate(test.lengths):
            rows = []
            for row, logit in zip(test.batch.tokens[0].tolist(), logits[0, :, s - 1].double().numpy(), strict=True):
                p = np.exp(logit - np.logaddexp.reduce(logit))
                present, absent = row[:s], [v for v in range(7) if v not in row[:s]]
                q = np.array([0 if v in present else 1 / (7 - s) for v in range(7)])
                within = np.where(q > 0, p, 0) / p[absent].sum()
                rows.append(
                    {
                        "total_variation": 0.5 * np.abs(p - q).sum(),
                        "invalid_mass": p[present].sum(),
                        "invalid_top1": float(p.argmax() in present),
                        "kl": sum(q[v] * np.log(q[v] / p[v]) for v in absent),
                        "margin": logit[absent].min() - logit[present].max(),
                        "valid_uniformity": 0.5 * np.abs(within - q).sum(),
                    }
                )
            for name in rows[0]:
                assert float(scores[name][0, i]) == pytest.approx(np.mean([row[name] for row in rows]), abs=2e-5)
            assert float(scores["margin_min"][0, i]) == pytest.approx(min(row["margin"] for row in rows), abs=2e-5)
            ordered = sorted(row["total_variation"] for row in rows)
            assert float(scores["total_variation_p99"][0, i]) == pytest.approx(
                ordered[math.ceil(0.99 * len(rows)) - 1], abs=2e-5
            )
            m = np.mean([row["invalid_mass"] for row in rows])
            assert float(scores["displacement"][0, i]) == pytest.approx(
                s * np.log(s * (1 - m) / ((7 - s) * m)), rel=1e-3, abs=1e-3
            )


def packs(member, **changes) -> list[Pack]:
    """The same members in plain and in table form."""
    return [
        Pack([member(seed, **{**changes, "model__form": form, "training__dtype": "float64"}) for seed in (0, 1)], CPU)
        for form in ("plain", "table")
    ]


TABLE_CASES = [
    {},
    {"model__dropout": 0.3},
    {"model__norm": "pre"},
    {"model__norm": "pre", "model__dropout": 0.5, "model__value_width": 5},
    {"model__attention": "constant", "model__dropout": 0.2},
    {"task__target": "soft", "model__dropout": 0.3},
]


@pytest.mark.parametrize("changes", TABLE_CASES, ids=str)
def test_table_form_equals_plain_form(member, changes) -> None:
    plain, table = packs(member, **changes)
    assert (plain.form, table.form) == ("plain", "table")
    state, step = TrainingState.make_initial(plain), torch.tensor(1)
    gradients = [
        compute_gradients(pack, state.theta, sample_batches(pack, step, pack.training.batch_size), step)[0]
        for pack in (plain, table)
    ]
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) < 1e-6
    states = [TrainingState.make_initial(plain), TrainingState.make_initial(table)]
    for pack, mine in zip((plain, table), states, strict=True):
        for _ in range(40):
            train_next_step(pack, mine)
    assert float((states[0].theta - states[1].theta).abs().max()) < 1e-5
    assert float((states[0].theta - TrainingState.make_initial(plain).theta).abs().max()) > 1e-2
    assert np.nanmax(np.abs(evaluate(plain, states[0])[1] - evaluate(table, states[1])[1])) < 1e-3


@pytest.mark.parametrize("changes", TABLE_CASES, ids=str)
def test_table_logits_equal_plain_logits_in_float32(member, changes) -> None:
    plain, table = packs(member, **changes)
    weights = plain.layout.split(TrainingState.make_initial(plain).theta.float())
    tokens = data_stream([0, 1]).permutations(0, 9, 8, 7)
    rates = torch.tensor([0.3, 0.5], dtype=torch.float64)
    drops = None if plain.dropout_rates is None else rates
    noise = Noise(Stream(torch.tensor([0, 1]), "dropout", torch.tensor(4)), None, drops)
    logits = [pack.model.logits(weights, batch_of(tokens), noise, pack.form) for pack in (plain, table)]
    torch.testing.assert_close(*logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "form"),
    [
        ({}, "table"),
        ({"norm": "pre", "dropout": 0.1}, "table"),
        ({"norm": "post"}, "plain"),
        ({"dropout": 0.1, "dropout_sites": ["embedding"]}, "plain"),
        ({"dropout": 0.1, "dropout_sites": ["attention", "residual"]}, "plain"),
        ({"dropout": 0.0, "dropout_sites": ["residual"]}, "table"),
        ({"form": "plain"}, "plain"),
    ],
)
def test_table_form_is_chosen_only_where_it_holds(changes, form) -> None:
    assert AttentionOnly.from_mapping(changes).choose_form(SetComplement()) == form


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
@pytest.mark.parametrize("form", ["plain", "auto"])
def test_plain_model_against_a_slow_reference(norm: str, form: str) -> None:
    """One row, one token at a time, in numpy."""
    task, model = (
        SetComplement(vocabulary=6, train_length=4),
        AttentionOnly(width=5, value_width=3, norm=norm, form=form),
    )
    layout = ParameterLayout(model.parameters(task))
    theta = layout.draw_initial_weights(torch.tensor([7]), torch.float64) * 3
    weights = layout.split(theta)
    w = {name: view[0].numpy() for name, view in weights.items()}

    def normed(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w["norm_gain"] + w[
            "norm_bias"
        ]

    row = [4, 0, 3, 5]
    logits = model.logits(weights, batch_of(torch.tensor([[row]])), None, model.choose_form(task))[0, 0].numpy()
    x = w["embedding"][row]
    seen = normed(x) if norm == "pre" else x
    for t in range(4):
        scores = np.array([(seen[t] @ w["query"]) @ (seen[s] @ w["key"]) / np.sqrt(5) for s in range(t + 1)])
        a = np.exp(scores) / np.exp(scores).sum()
        y = x[t] + sum(a[s] * (seen[s] @ w["value"] @ w["output"]) for s in range(t + 1))
        expected = (normed(y) if norm == "post" else y) @ w["unembedding"]
        np.testing.assert_allclose(logits[t], expected, rtol=1e-9, atol=1e-12)


def test_order_of_earlier_tokens_does_not_matter(member) -> None:
    pack = Pack([member()], CPU)
    weights = pack.layout.split(TrainingState.make_initial(pack).theta)
    logits = pack.model.logits(weights, batch_of(torch.tensor([[[1, 2, 3, 4, 5]]])), None, pack.form)[0, 0, -1]
    permuted = pack.model.logits(weights, batch_of(torch.tensor([[[4, 1, 3, 2, 5]]])), None, pack.form)[0, 0, -1]
    torch.testing.assert_close(logits, permuted)


@pytest.mark.parametrize("sites", [["embedding"], ["attention"], ["residual"], ["embedding", "attention", "residual"]])
def test_each_dropout_site_is_its_own_switch(sites) -> None:
    model = AttentionOnly(width=4, dropout=0.5, dropout_sites=tuple(sites), form="plain")
    task = SetComplement(vocabulary=6, train_length=3)
    layout = ParameterLayout(model.parameters(task))
    weights = layout.split(layout.draw_initial_weights(torch.tensor([0]), torch.float32))
    seen: list[int] = []

    class Spy(Noise):
        def __call__(self, x, site):
            seen.append(site)
            return super().__call__(x, site)

    spy = Spy(Stream(torch.tensor([0]), "dropout", torch.tensor(1)), None, torch.tensor([0.5], dtype=torch.float64))
    dropped = model.logits(weights, batch_of(torch.tensor([[[0, 1, 2]]])), spy, "plain")
    assert [("embedding", "attention", "residual")[site] for site in sorted(seen)] == sites
    assert not torch.allclose(dropped, model.logits(weights, batch_of(torch.tensor([[[0, 1, 2]]])), None, "plain"))


def test_radon_bound_on_the_width() -> None:
    """With width <= v - 2 some input has margin <= 0 whatever the weights; with width v - 1 none need have."""
    v = 7
    generator = np.random.default_rng(0)
    u = generator.normal(size=(v - 2, v))
    null = np.linalg.svd(np.vstack([u, np.ones(v)]))[2][-1]
    np.testing.assert_allclose(np.vstack([u, np.ones(v)]) @ null, 0, atol=1e-9)
    present = torch.tensor([[[i for i in range(v) if null[i] > 1e-9]]])
    model = AttentionOnly(width=v - 2)
    task = SetComplement(vocabulary=v, train_length=2)
    layout = ParameterLayout(model.parameters(task))
    for seed in range(20):
        weights = layout.split(5 * layout.draw_initial_weights(torch.tensor([seed]), torch.float64))
        weights = {**weights, "unembedding": torch.tensor(u)[None]}
        logits = model.logits(weights, batch_of(present), None, "table")[0, 0, -1].numpy()
        assert logits[null < -1e-9].min() <= logits[null > 1e-9].max() + 1e-9


def test_attention_uniformity_against_a_slow_reference(member) -> None:
    pack = Pack([member(model__init_std=1.0)], CPU)
    weights = pack.layout.split(TrainingState.make_initial(pack).theta)
    w = {name: view[0].double().numpy() for name, view in weights.items()}
    rows = data_stream([0]).permutations(0, 5, 8, 6)
    got = pack.model.reduce(pack.model.measure_rows(weights, batch_of(rows), (1, 4, 6), {}), weights, (1, 4, 6))[
        "attention_uniformity"
    ][0]
    for i, s in enumerate((1, 4, 6)):
        ratios = []
        for row in rows[0].tolist():
            x = w["embedding"][row]
            scores = np.array([(x[s - 1] @ w["query"]) @ (x[j] @ w["key"]) / np.sqrt(8) for j in range(s)])
            ratios.append(s * np.exp(scores).max() / np.exp(scores).sum())
        assert float(got[i]) == pytest.approx(np.mean(ratios), rel=1e-4)


@pytest.mark.parametrize("norm", ["none", "pre"])
@pytest.mark.parametrize("attention", ["softmax", "constant"])
def test_attention_over_token_ids_is_that_over_positions(member, attention: str, norm: str) -> None:
    """Where tokens are seen again, and where one has nearly all the weight."""
    changes = {"model__attention": attention, "model__norm": norm, "model__init_std": 1.0, "training__dtype": "float64"}
    pack = Pack([member(seed, **changes) for seed in (0, 1)], CPU)
    weights = pack.layout.split(3 * TrainingState.make_initial(pack).theta)
    batch = batch_of(torch.randint(0, 8, (2, 30, 9), generator=torch.Generator().manual_seed(0)))
    noise = Noise(Stream(pack.seeds_S, "dropout", torch.tensor(0)), None, training=False)
    recorded: dict[str, list[torch.Tensor]] = {}
    tested = pack.model.logits(weights, batch, noise, "table", lambda name, value: recorded.update({name: [value]}))
    for form in ("table", "plain"):
        torch.testing.assert_close(tested, pack.model.logits(weights, batch, None, form), rtol=1e-9, atol=1e-9)
    at = (1, 4, 9)
    alone = pack.model.measure_rows(weights, batch, at, {})["largest"]
    torch.testing.assert_close(pack.model.measure_rows(weights, batch, at, recorded)["largest"], alone)
    pack.model.logits(weights, batch, noise, "plain", lambda name, value: recorded.update({name: [value]}))
    torch.testing.assert_close(pack.model.measure_rows(weights, batch, at, recorded)["largest"], alone)
    again = batch_of(batch.tokens.flip(1))  # recorded of a pass over other rows
    torch.testing.assert_close(pack.model.measure_rows(weights, again, at, recorded)["largest"], alone.flip(1))


def test_scores_hold_where_floats_end() -> None:
    """Masses below the smallest float stay in the logarithms, and the largest logits are not taken for masks."""
    allowed = torch.tensor([1.0, 1.0, 0.0, 0.0])[None, :, None, None].expand(1, 4, 1, 3)
    logits = torch.tensor([[200.0, 190.0, 0.0, -300.0], [0.0, -190.0, 200.0, 199.0], [1e30, 1e30, -1e30, -1e30]])
    rows, valid, invalid = uniform.score_uniformity(logits.T[None, :, None], allowed)
    first, second, third = ({name: float(value[0, i, 0]) for name, value in rows.items()} for i in range(3))
    assert float(invalid[0, 0, 0]) == pytest.approx(-200.0, rel=1e-5) and first["invalid_mass"] == 0
    assert float(valid[0, 1, 0]) == pytest.approx(-200.0 - math.log1p(math.exp(-1)), rel=1e-5)
    assert (first["margin"], second["margin"], third["margin"]) == (190.0, -390.0, pytest.approx(2e30))
    assert first["kl"] == pytest.approx(5 - math.log(2), rel=1e-4) and third["kl"] == 0
    assert second["kl"] == pytest.approx(95 - math.log(2) + 200 + math.log1p(math.exp(-1)), rel=1e-5)
    assert [first["total_variation"], second["total_variation"], third["total_variation"]] == pytest.approx(
        [0.5, 1, 0], abs=1e-4
    )
    assert [score["invalid_top1"] for score in (first, second, third)] == [0, 1, 0]
    assert second["valid_uniformity"] == pytest.approx(0.5, rel=1e-6) and third["valid_uniformity"] == 0


def test_a_task_with_other_outputs_than_inputs_has_no_diagonal(member) -> None:
    task = {"name": "padded_addition", "width": 3, "train_digits": 2}
    pack = Pack([member(seed, task=task) for seed in (0, 1)], CPU)
    state = TrainingState.make_initial(pack)
    train_next_step(pack, state)
    names, values = evaluate(pack, state)
    metrics = {name: values[:, :, k] for k, name in enumerate(names)}
    assert np.isfinite(metrics["attention_uniformity"]).all() and np.isfinite(metrics["exact_match"]).all()
    assert np.isnan(metrics["balance"]).all() and np.isnan(metrics["table_displacement"]).all()


def test_margin_bound_needs_lengths_one_and_two(member, recorder) -> None:
    train([member(evaluation__lengths=[2, 5])], recorder)
    train([member(evaluation__lengths=[1, 2, 5])], recorder)
    missing, there = (e.values_MAKL[0, 0] for e in recorder.evaluations)
    names = recorder.evaluations[0].metrics
    bound, worst = names.index("margin_bound"), names.index("margin_min")
    assert np.isnan(missing[bound]).all()
    assert there[bound] == pytest.approx(2 / np.array([1, 2, 5]) * there[worst, :2].min(), rel=1e-5)
