"""What people write in JAX: the members of a script as one vmapped program, the loop between evaluations one scan.

    python tests/benchmarks/vmap_jax.py WORKLOAD OUT.json [--part 0/2]

Needs jax and numpy alone. The mathematics of baseline.py's attention-only model; random numbers are JAX's own. Learning
rate, weight decay, dropout and EMA decay are those of each member, so that one program serves all.
"""

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
from workloads import WORKLOADS, Workload, workload

Weights = dict[str, Any]


def initial(key: Any, work: Workload) -> Weights:
    """Matrices of one member, every entry normal with standard deviation 0.1."""
    v, d = work.vocabulary, work.width
    shapes = {"embedding": (v, d), "unembedding": (d, v)} | dict.fromkeys(("query", "key", "value", "output"), (d, d))
    keys = jax.random.split(key, len(shapes))
    return {name: 0.1 * jax.random.normal(k, s) for k, (name, s) in zip(keys, shapes.items(), strict=True)}


def logits(weights: Weights, tokens: Any, key: Any, dropout: Any) -> Any:
    """Logits (B, T, V) of one member; without a key nothing is dropped."""
    x = weights["embedding"][tokens]
    length = tokens.shape[1]
    scores = (x @ weights["query"]) @ (x @ weights["key"]).swapaxes(1, 2) / math.sqrt(x.shape[-1])
    attention = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf))
    if key is not None:
        attention = attention * jax.random.bernoulli(key, 1.0 - dropout, attention.shape) / (1.0 - dropout)
    return (x + attention @ (x @ weights["value"]) @ weights["output"]) @ weights["unembedding"]


def rows(key: Any, work: Workload, count: int) -> Any:
    """So many random permutations of the vocabulary."""
    return jnp.argsort(jax.random.uniform(key, (count, work.vocabulary)), axis=1)


def step(state: Any, number: Any, key: Any, h: Any, work: Workload) -> Any:
    """One AdamW step (betas .9 and .99) and one of the EMA of one member."""
    weights, m, v, ema = state
    rate, decay, dropout, ema_decay = h
    data_key, drop_key = jax.random.split(jax.random.fold_in(key, number))
    drawn = rows(data_key, work, work.batch_size)

    def loss(weights: Weights) -> Any:
        logs = jax.nn.log_softmax(logits(weights, drawn[:, : work.train_length], drop_key, dropout))
        return -jnp.take_along_axis(logs, drawn[:, 1 : work.train_length + 1, None], axis=-1).mean()

    gradient = jax.grad(loss)(weights)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, gradient)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, gradient)
    scale = rate * jnp.sqrt(1 - 0.99**number) / (1 - 0.9**number)
    epsilon = 1e-8 * jnp.sqrt(1 - 0.99**number)
    weights = jax.tree.map(lambda w, a, b: w * (1 - rate * decay) - scale * a / (jnp.sqrt(b) + epsilon), weights, m, v)
    ema = jax.tree.map(lambda e, w: ema_decay * e + (1 - ema_decay) * w, ema, weights)
    return weights, m, v, ema


def curve(weights: Weights, key: Any, work: Workload) -> Any:
    """Mean total variation of one member at lengths 1..v-1."""
    drawn = rows(key, work, work.samples)[:, : work.vocabulary - 1]
    absent = (jnp.cumsum(jax.nn.one_hot(drawn, work.vocabulary), axis=1) == 0).astype(jnp.float32)
    target = absent / absent.sum(-1, keepdims=True)
    probabilities = jax.nn.softmax(logits(weights, drawn, None, 0.0))
    return (0.5 * jnp.abs(probabilities - target).sum(-1)).mean(0)


def train(work: Workload, members: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Curves of every member after the last step, and when each evaluation ended."""
    keys = jax.vmap(lambda c, s: jax.random.fold_in(jax.random.key(s), c))(*map(np.array, zip(*members, strict=True)))
    h = jnp.array([work.configurations[c] for c, _ in members])
    weights = jax.vmap(lambda key: initial(key, work))(keys)
    zeros = jax.tree.map(jnp.zeros_like, weights)

    @jax.jit
    def some(state: Any, first: Any) -> Any:
        def advance(state: Any, key: Any, h: Any) -> Any:
            each = first + 1 + jnp.arange(work.every)
            return jax.lax.scan(lambda s, n: (step(s, n, key, h, work), None), state, each)[0]

        return jax.vmap(advance)(state, keys, h)

    curves = jax.jit(jax.vmap(lambda w, key: curve(w, jax.random.fold_in(key, 0), work)))
    state, times, values = (weights, zeros, zeros, weights), list[float](), dict[str, Any]()
    for first in range(0, work.steps, work.every):
        state = some(state, first)
        values = {name: np.asarray(curves(w, keys)) for name, w in (("raw", state[0]), ("ema", state[3]))}
        times.append(time.time())
    return [
        {"configuration": c, "seed": s, "curves": {n: v[i].tolist() for n, v in values.items()}, "times": times}
        for i, (c, s) in enumerate(members)
    ]


def main() -> None:
    """Train a part of the members, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=[name for name, work in WORKLOADS.items() if not work.layers])
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", default="0/1", help="which members, as for baseline.py")
    asked = parser.parse_args()
    work = workload(asked.workload)
    asked.out.write_text(json.dumps(train(work, work.part(asked.part))))


if __name__ == "__main__":
    main()
