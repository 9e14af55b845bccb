"""Train a recurrent network on the majority of bits in JAX; hyperparameters come from lengthwise, not arguments."""

import pickle
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import lengthwise

LENGTHS = (5, 11, 21, 41)
Weights = dict[str, Any]


def draw_rows(key: Any, length: int, rows: int) -> tuple[Any, Any]:
    """Return random bits (rows, length) and labels (rows,): whether most bits are 1. `length` is odd."""
    bits = jax.random.bernoulli(key, shape=(rows, length)).astype(jnp.float32)
    return bits, 2 * bits.sum(1) > length


def compute_logits(weights: Weights, bits: Any) -> Any:
    """Return a logit for each row of bits."""

    def update(state: Any, bit: Any) -> tuple[Any, None]:
        return jnp.tanh(state @ weights["state"] + bit[:, None] * weights["bit"] + weights["bias"]), None

    start = jnp.zeros((len(bits), len(weights["bias"])))
    return jax.lax.scan(update, start, bits.T)[0] @ weights["head"]


def mean_loss(weights: Weights, bits: Any, is_majority: Any) -> Any:
    """Return the mean binary cross-entropy."""
    return jax.nn.softplus(compute_logits(weights, bits) * jnp.where(is_majority, -1.0, 1.0)).mean()


@partial(jax.jit, static_argnames="length")
def train_step(weights: Weights, key: Any, lr: float, length: int) -> tuple[Weights, Any]:
    """Return the weights after a step of gradient descent, and the loss before it."""
    loss, gradient = jax.value_and_grad(mean_loss)(weights, *draw_rows(key, length, 64))
    return jax.tree.map(lambda weight, slope: weight - lr * jnp.clip(slope, -1, 1), weights, gradient), loss


@jax.jit
def evaluate(weights: Weights) -> dict[int, Any]:
    """Return the accuracy by length."""
    tests = {length: draw_rows(jax.random.key(length), length, 200) for length in LENGTHS}
    return {
        length: ((compute_logits(weights, bits) > 0) == is_majority).mean()
        for length, (bits, is_majority) in tests.items()
    }


def main() -> None:
    """Train from the last checkpoint, or from the start without a checkpoint; report and save when it is due."""
    # Outside of a sweep these values are used; in a sweep those of its configuration.
    run = lengthwise.member({"lr": 0.3, "width": 16}, steps=200, every=50)
    width = run.config["width"]
    key = jax.random.key(run.seed)
    state_key, head_key, data_key = jax.random.split(key, 3)
    weights = {"state": jax.random.normal(state_key, (width, width)) / width**0.5, "bias": jnp.zeros(width)}
    weights |= {"bit": jnp.ones(width), "head": jax.random.normal(head_key, (width,)) / width**0.5}

    # A member that was killed or paused starts this script again.
    start = 0
    checkpoint = run.checkpoints / "last.pickle"
    if checkpoint.exists():
        start, weights = pickle.loads(checkpoint.read_bytes())

    # Random numbers depend on the number of the step, so a resumed run draws the same rows.
    for step in range(start + 1, run.steps + 1):
        length = 5 if step % 2 else 11
        weights, loss = train_step(weights, jax.random.fold_in(data_key, step), run.config["lr"], length)
        if run.due(step):
            stop = run.report(step, {"accuracy": evaluate(weights)}, loss=loss)
            checkpoint.with_suffix(".new").write_bytes(pickle.dumps((step, jax.device_get(weights))))
            checkpoint.with_suffix(".new").replace(checkpoint)
            if stop:
                return


if __name__ == "__main__":
    main()
