"""Stacked transformer block: attention and MLP on a residual stream, with a choice of norms."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from trainers.models.attention import Drop, apply_attention
from trainers.models.key_value_cache import LayerCache
from trainers.positions.context import CHUNK_SITES, HIDDEN_SITE, Pass
from trainers.positions.position import Position
from trainers.tensors.layers import layer_norm, linear, rms_norm
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter, uniform_parameter

Drops = tuple[Drop | None, Drop | None, Drop | None, Drop | None]
MASK_SITES = ("attention", "residual", "residual")  # of the first three dropout masks of a block; the fourth: hidden
BIASES = ("qkv", "output", "mlp")


@dataclass(frozen=True, kw_only=True)
class BlockForm:
    """The architecture of transformer blocks.

    norm: none, pre (before each branch), post (after each sum) or residual (the stream itself, before each branch).
    norm_type: layer, layer_unbiased (with a gain only), rms or rms_unscaled (without a gain).
    mlp: gelu or gated. biases: the maps with a bias. branches: number of branches in the model, two per block.
    init: normal (matrices start normal(0, std^2), biases zero), depth (the same, but maps onto the residual stream
    start normal(0, std^2 / branches)) or torch (as torch.nn.Linear).
    """

    norm: str
    norm_type: str
    mlp: str
    biases: tuple[str, ...]
    init: str
    std: float
    branches: int = 1
    epsilon: float = 1e-5

    def declare_map_parameters(
        self, name: str, rows: int, columns: int, biased: bool, *, to_stream: bool = False
    ) -> tuple[Parameter, ...]:
        """Return a matrix, and a bias without weight decay if `biased`.

        to_stream: whether the map ends on the residual stream, which matters for the initial values.
        """
        if self.init == "torch":
            bound = rows**-0.5
            matrix = uniform_parameter(name, (rows, columns), -bound, bound, hidden=True)
            bias = uniform_parameter(f"{name}_bias", (columns,), -bound, bound, decay=False)
        else:
            # As in GPT-2: the variance of the residual stream then does not grow with the number of branches.
            std = self.std / self.branches**0.5 if to_stream and self.init == "depth" else self.std
            matrix = Parameter(name=name, shape=(rows, columns), std=std, hidden=True)
            bias = Parameter(name=f"{name}_bias", shape=(columns,), std=0.0, decay=False)
        return (matrix, bias) if biased else (matrix,)

    def declare_norm_parameters(self, name: str, width: int) -> tuple[Parameter, ...]:
        """Return the gain (initially 1) and bias (initially 0) of a norm, if it has them; no weight decay."""
        gain = Parameter(name=f"{name}_gain", shape=(width,), std=0.0, mean=1.0, decay=False)
        bias = Parameter(name=f"{name}_bias", shape=(width,), std=0.0, decay=False)
        return {"layer": (gain, bias), "rms_unscaled": ()}.get(self.norm_type, (gain,))

    def normalize(self, x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
        """Return `x` (M, ..., D) normalized, with the parameters of `declare_norm_parameters`."""
        if self.norm_type in ("layer", "layer_unbiased"):
            return layer_norm(x, weights[f"{name}_gain"], weights.get(f"{name}_bias"), self.epsilon)
        return rms_norm(x, weights.get(f"{name}_gain"))


def declare_block_parameters(
    name: str, form: BlockForm, width: int, inner: int, hidden: int, extra: tuple[Parameter, ...] = ()
) -> tuple[Parameter, ...]:
    """Return the parameters of a block.

    inner: width of all heads together. hidden: width after the first map of the MLP. extra: parameters of the
    positional encoding.
    """
    is_mlp_biased = "mlp" in form.biases
    hidden_out = hidden // 2 if form.mlp == "gated" else hidden
    parameters = [
        *form.declare_map_parameters(f"{name}.qkv", width, 3 * inner, "qkv" in form.biases),
        *form.declare_map_parameters(f"{name}.output", inner, width, "output" in form.biases, to_stream=True),
        *form.declare_map_parameters(f"{name}.in", width, hidden, is_mlp_biased),
        *form.declare_map_parameters(f"{name}.out", hidden_out, width, is_mlp_biased, to_stream=True),
        *extra,
    ]
    for key in ("norm1", "norm2") if form.norm != "none" else ():
        parameters += form.declare_norm_parameters(f"{name}.{key}", width)
    return tuple(parameters)


def apply_block(
    x: Tensor,
    forward_pass: Pass,
    *,
    name: str,
    layer: int,
    heads: int,
    form: BlockForm,
    position: Position,
    drops: Drops,
    cache: LayerCache | None = None,
) -> Tensor:
    """Return the residual stream (M, B, T, D) of the queries after a block; drops: from `make_block_drops`."""
    # A post-norm acts on each sum, the other norms on the input of a branch.
    drop_weights, drop_attention, drop_mlp, drop_hidden = drops
    x, inputs = _normalize_inputs(x, forward_pass, form, f"{name}.norm1")
    branch = apply_attention(
        inputs, forward_pass, name=name, layer=layer, heads=heads, position=position, drop=drop_weights, cache=cache
    )
    x = x + (branch if drop_attention is None else drop_attention(branch, 0))
    x = form.normalize(x, forward_pass.weights, f"{name}.norm1") if form.norm == "post" else x

    # The MLP is a second branch of the same form.
    x, inputs = _normalize_inputs(x, forward_pass, form, f"{name}.norm2")
    branch = _apply_mlp(inputs, forward_pass.weights, name, form.mlp, drop_hidden)
    x = x + (branch if drop_mlp is None else drop_mlp(branch, 0))
    return form.normalize(x, forward_pass.weights, f"{name}.norm2") if form.norm == "post" else x


def _apply_mlp(x: Tensor, weights: Mapping[str, Tensor], name: str, kind: str, drop: Drop | None) -> Tensor:
    """Return `<name>.in` (D, F), the activation, `drop` and `<name>.out` of `x`, with biases if they exist.

    gelu: exact GELU (arXiv:1606.08415), `out` is (F, D). gated: the first half of F times SiLU of the second half
    (SwiGLU, arXiv:2002.05202), `out` is (F / 2, D).
    """
    hidden = linear(x, weights[f"{name}.in"], weights.get(f"{name}.in_bias"))
    if kind == "gated":
        first, second = hidden.chunk(2, dim=-1)
        hidden = first * functional.silu(second)
    else:
        hidden = functional.gelu(hidden)
    hidden = hidden if drop is None else drop(hidden, 0)
    return linear(hidden, weights[f"{name}.out"], weights.get(f"{name}.out_bias"))


def _normalize_inputs(x: Tensor, forward_pass: Pass, form: BlockForm, name: str) -> tuple[Tensor, Tensor]:
    """Return the residual stream before a branch, and the inputs of the branch."""
    if form.norm not in ("pre", "residual"):
        return x, x
    normalized = form.normalize(x, forward_pass.weights, name)
    return (normalized if form.norm == "residual" else x), normalized


def make_block_drops(noise: Noise | None, sites: tuple[str, ...], layer: int) -> Drops:
    """Return the dropout of attention weights, both branches and the inner MLP of a block; None without dropout."""
    # The sites of random numbers are listed in trainers/positions/context.py.
    first, second, third = (
        _make_drop(noise, site in sites, 1 + len(MASK_SITES) * layer + k) for k, site in enumerate(MASK_SITES)
    )
    return first, second, third, _make_drop(noise, "hidden" in sites, HIDDEN_SITE + layer)


def _make_drop(noise: Noise | None, is_active: bool, site: int) -> Drop | None:
    """Return the dropout at a site, None without dropout."""
    if noise is None or noise.rate_M is None or not is_active:
        return None
    return lambda x, chunk: noise(x, site + CHUNK_SITES * chunk)
