"""Forgetting attention (FoX, Lin et al., arXiv:2503.02130): every token lets a part of what is before it through."""

from collections.abc import Mapping

import torch
from torch import Tensor

from trainers.positions.context import Context, Scores
from trainers.positions.gates import gate_parameters, log_gates, running
from trainers.positions.position import Position, Sizes
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter


@register("position", "fox")
class Fox(Position):
    """Scores of key j fall by the log forget gates of the tokens after it, sum over l = j+1..i of log f_l.

    f_t = sigmoid(w_h . x_t + b_h) of each token and head. A query that does not see a token is not kept from others by
    it. The paper's models are causal; in a bidirectional one, the tokens between count, i or j among them.
    """

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """The gate, as of torch.nn.Linear: the paper names no initial values."""
        return gate_parameters(name, sizes)

    def key_state(self, context: Context) -> Mapping[str, Tensor]:
        """log f of each token."""
        return {"log_forget": log_gates(context)}

    def score(self, context: Context) -> Scores:
        """The sums of log f between query and key."""
        logs = context.state["log_forget"]
        if context.groups is None and context.visible is None:
            sums = logs.cumsum(dim=-1)
            bias = context.of_queries(sums)[..., :, None] - sums[..., None, :]
        else:
            seen, logs = context.allowed, logs[..., None, :]
            seen = torch.ones((), dtype=torch.bool, device=logs.device) if seen is None else seen
            sums, own = running(torch.where(seen, logs, 0.0).expand(*logs.shape[:3], context.count, -1), context)
            bias = own - sums
        return Scores(bias=bias if context.causal else -bias.abs())
