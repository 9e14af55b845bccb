"""Forgetting attention (FoX, Lin et al., arXiv:2503.02130): a forget gate of every token reduces earlier scores."""

from collections.abc import Mapping

import torch
from torch import Tensor

from trainers.positions.context import Context, Scores
from trainers.positions.gates import compute_cumulative_sums, compute_log_gates, declare_gate_parameters
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter


@register("position", "fox")
class Fox(Position):
    """Scores of key j fall by the log forget gates of the tokens after it, sum over l = j+1..i of log f_l.

    f_t = sigmoid(w_h . x_t + b_h) of each token and head; only gates of visible tokens count. The paper's models are
    causal; a bidirectional model sums the gates of the tokens between i and j, including one of the two. Their "Pro"
    block normalizes queries and keys, too, with a gain.
    """

    qk_norm: bool = setting(False, help="normalize queries and keys, without a gain")

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return the parameters of the gate, initialized as torch.nn.Linear; the paper does not state how."""
        return declare_gate_parameters(name, sizes)

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        """Return queries and keys, normalized if `qk_norm` is set."""
        return context.normalized() if self.qk_norm else (context.q, context.k)

    def key_state(self, context: Context) -> Mapping[str, Tensor]:
        """Return log f of each token."""
        # Queries of later passes need the gates of earlier tokens, so they are cached with the keys.
        return {"log_forget": compute_log_gates(context)}

    def score(self, context: Context) -> Scores:
        """Return the sums of log f between query and key as a bias."""
        # Without masked tokens all queries have the same sums; otherwise each query sums only the gates that it sees.
        logs = context.state["log_forget"]
        if context.groups is None and context.visible is None:
            sums = logs.cumsum(dim=-1)
            bias = context.select_queries(sums)[..., :, None] - sums[..., None, :]
        else:
            logs = logs[..., None, :]  # (M, B, H, 1, K)
            allowed = context.allowed
            allowed = torch.ones((), dtype=torch.bool, device=logs.device) if allowed is None else allowed
            sums, at_query = compute_cumulative_sums(
                torch.where(allowed, logs, 0.0).expand(*logs.shape[:3], context.count, -1), context
            )
            bias = at_query - sums

        # For later keys the difference has the wrong sign, so models that are not causal take minus its size.
        return Scores(bias=bias if context.causal else -bias.abs())
