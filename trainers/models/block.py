"""Stacked transformer block: attention and MLP on a residual stream, with norms before, after or nowhere."""

from collections.abc import Mapping

from torch import Tensor

from trainers.layers.mlp import mlp
from trainers.layers.norm import layer_norm
from trainers.models.attention import Drop, attention
from trainers.models.kept import Kept
from trainers.noise import Noise
from trainers.parameters import Parameter
from trainers.positions.context import CHUNK_SITES, Pass
from trainers.positions.position import Position

Drops = tuple[Drop | None, Drop | None, Drop | None]
SITES = ("attention", "residual", "residual")  # of the three masks of a block, in order


def block_parameters(
    name: str, width: int, inner: int, hidden: int, norm: str, std: float, extra: tuple[Parameter, ...] = ()
) -> tuple[Parameter, ...]:
    """Parameters of one block: matrices normal(0, std^2), biases zero, norms identity; only matrices decay.

    `inner` is the width of all heads together, `extra` are the parameters of the positional encoding.
    """

    def matrix(key: str, rows: int, columns: int) -> tuple[Parameter, Parameter]:
        return (
            Parameter(name=f"{name}.{key}", shape=(rows, columns), std=std),
            Parameter(name=f"{name}.{key}_bias", shape=(columns,), std=0.0, decay=False),
        )

    found = [*matrix("qkv", width, 3 * inner), *matrix("output", inner, width)]
    found += [*matrix("in", width, hidden), *matrix("out", hidden, width), *extra]
    for key in ("norm1", "norm2") if norm != "none" else ():
        found += norm_parameters(f"{name}.{key}", width)
    return tuple(found)


def norm_parameters(name: str, width: int) -> tuple[Parameter, Parameter]:
    """Gain one and bias zero, without weight decay."""
    return (
        Parameter(name=f"{name}_gain", shape=(width,), std=0.0, mean=1.0, decay=False),
        Parameter(name=f"{name}_bias", shape=(width,), std=0.0, decay=False),
    )


def normed(x: Tensor, weights: Mapping[str, Tensor], name: str, epsilon: float = 1e-5) -> Tensor:
    """Layer norm with the parameters of `norm_parameters`."""
    return layer_norm(x, weights[f"{name}_gain"], weights[f"{name}_bias"], epsilon)


def block(
    x: Tensor,
    seen: Pass,
    *,
    name: str,
    layer: int,
    heads: int,
    norm: str,
    position: Position,
    drops: Drops,
    epsilon: float = 1e-5,
    kept: Kept | None = None,
) -> Tensor:
    """One block on (M, B, T, D) of the queries of a pass. `drops` act on the attention weights and on both branches."""
    on_weights, on_attention, on_mlp = drops
    read = normed(x, seen.weights, f"{name}.norm1", epsilon) if norm == "pre" else x
    branch = attention(read, seen, name=name, layer=layer, heads=heads, position=position, drop=on_weights, kept=kept)
    x = x + (branch if on_attention is None else on_attention(branch, 0))
    x = normed(x, seen.weights, f"{name}.norm1", epsilon) if norm == "post" else x
    read = normed(x, seen.weights, f"{name}.norm2", epsilon) if norm == "pre" else x
    branch = mlp(read, seen.weights, name)
    x = x + (branch if on_mlp is None else on_mlp(branch, 0))
    return normed(x, seen.weights, f"{name}.norm2", epsilon) if norm == "post" else x


def block_drops(noise: Noise | None, sites: tuple[str, ...], layer: int) -> Drops:
    """The three masks of block `layer`, each with a site number of its own, None where dropout does not act."""
    return _mask(noise, sites, layer, 0), _mask(noise, sites, layer, 1), _mask(noise, sites, layer, 2)


def _mask(noise: Noise | None, sites: tuple[str, ...], layer: int, place: int) -> Drop | None:
    if noise is None or noise.rate_M is None or SITES[place] not in sites:
        return None
    site = 1 + len(SITES) * layer + place
    return lambda x, chunk: noise(x, site + CHUNK_SITES * chunk)
