"""Threshold relative attention (Opper et al., arXiv:2503.23174), as in the authors' notebook on flip-flops.

With q and k normalised (RMS norm without a gain):

    S_ij = q_i . k_j / sqrt(E),   delta_i = log sigmoid(w_h . x_i + b_h)
    the keys of query i are those it may see with S_ij > 0; without any it mixes nothing
    D_ij = delta_i * (how many of them there are from j up to i, j among them)
    A_ij = softmax_j(S_ij + D_ij)

The notebook is TRA_FFL.ipynb of "Understanding Attention Glitches with Threshold Relative Attention" (ICML 2025
workshop MOSS). Shapes: M members, B rows, T queries, K keys, H heads, E head width.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from trainers.positions.context import Context, Scores
from trainers.positions.gates import gate_parameters, log_gates, running
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.norm import rms_norm
from trainers.tensors.parameters import Parameter
from trainers.tensors.precision import wide


@register("position", "tra")
class ThresholdRelative(Position):
    """Keys of no positive score are dropped, and distance counts the keys that remain, times a trained gate.

    The count is hard: it gives the scores no gradient. Scores are float32 at least, so that none falls to zero by
    rounding. The paper's models are causal; in a bidirectional one, keys on the other side are counted likewise.
    """

    threshold: bool = setting(True, help="drop keys of no positive score; else all keys count")
    distance: str = setting("contextual", choices=("contextual", "absolute"), help="keys that remain, or positions")
    gate: str = setting("query", choices=("query", "head", "off"), help="of each query and head, of each head, or none")
    qk_norm: bool = setting(True, help="normalise queries and keys, without a gain")
    dropout_on: str = setting(
        "logits", choices=("logits", "weights"), help="where dropout of attention acts; logits: the notebook's"
    )

    @property
    def drops_scores(self) -> bool:
        """Whether dropout acts on the logits."""
        return self.dropout_on == "logits"

    @property
    def metrics(self) -> Mapping[str, str]:
        """What it records at each query, of what is not switched off.

        surviving_keys: the share of the keys it may see that remain. dead_rows: 1 where none does. gate: |delta|.
        contextual_distance: the greatest count.
        """
        found = ["surviving_keys", "dead_rows"] if self.threshold else []
        found += ["gate"] if self.gate != "off" else []
        found += ["contextual_distance"] if self.distance == "contextual" else []
        return dict.fromkeys(found, "none")

    @property
    def largest(self) -> frozenset[str]:
        """The greatest distance is the greatest of all."""
        return frozenset({"contextual_distance"})

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """The gate: D H + H numbers, or H where it is one for each head."""
        return {"query": gate_parameters(name, sizes), "head": gate_parameters(name, sizes)[1:], "off": ()}[self.gate]

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        """Queries and keys of length sqrt(E)."""
        if not self.qk_norm:
            return context.q, context.k
        numbers = wide(context.q.dtype)  # rounded once more, a score might change its sign
        return rms_norm(context.q.to(numbers)), rms_norm(context.k.to(numbers))

    def score(self, context: Context) -> Scores:
        """The logits S + D, and the keys that remain."""
        scores, allowed = context.exact_products(), context.allowed
        keep = None
        if self.threshold:
            keep = scores > 0 if allowed is None else (scores > 0) & allowed
        counted = allowed if keep is None else keep
        if counted is None:
            counted = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        distance, gate = self._distance(context, counted, scores.dtype), self._gate(context, scores.dtype)
        if context.recording:
            self._tell(context, scores, counted, distance, gate)
        return Scores(logits=scores if gate is None else torch.addcmul(scores, gate, distance), keep=keep)

    def _distance(self, context: Context, counted: Tensor, dtype: torch.dtype) -> Tensor:
        """How far each key is, 1 for the nearest one; what it says of keys that are not counted is of no use."""
        if self.distance == "absolute":
            return context.differences().abs().to(dtype) + 1
        sums, own = running(counted, context, dtype)
        return own + 1 - sums if context.causal else (own - sums).abs() + 1

    def _gate(self, context: Context, dtype: torch.dtype) -> Tensor | None:
        """delta <= 0, broadcastable to (M, B, H, T, K)."""
        if self.gate == "off":
            return None
        if self.gate == "query":
            return log_gates(context).to(dtype)[..., None]
        bias = context.weights[f"{context.name}.gate_bias"].to(dtype)
        return functional.logsigmoid(bias)[:, None, :, None, None]

    def _tell(self, context: Context, scores: Tensor, counted: Tensor, distance: Tensor, gate: Tensor | None) -> None:
        shape, allowed = scores.shape[:-1], context.allowed
        counts = self.distance == "contextual" and context.causal  # the first key is then as far as there are keys left
        kept = distance[..., 0] - 1 + counted[..., 0] if counts else counted.sum(dim=-1)
        found = dict[str, Tensor]()
        if self.threshold:
            found["surviving_keys"] = kept / (scores.shape[-1] if allowed is None else allowed.sum(dim=-1))
            found["dead_rows"] = kept == 0
        if gate is not None:
            found["gate"] = -gate[..., 0]
        if self.distance == "contextual":
            found["contextual_distance"] = kept if counts else (distance * counted).amax(dim=-1)
        for name, value in found.items():
            context.record(name, value.to(scores.dtype).expand(shape))
