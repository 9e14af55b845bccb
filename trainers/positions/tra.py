"""Threshold relative attention (Opper et al., arXiv:2503.23174), as in the authors' notebook on flip-flops.

With q and k normalized (RMS norm without a gain):

    S_ij = q_i . k_j / sqrt(E),   delta_i = log sigmoid(w_h . x_i + b_h)
    the keys of query i are the visible keys with S_ij > 0; without such a key its output is zero
    D_ij = delta_i * (the number of these keys from j to i, including j)
    A_ij = softmax_j(S_ij + D_ij)

The notebook is TRA_FFL.ipynb of "Understanding Attention Glitches with Threshold Relative Attention" (ICML 2025
workshop MOSS). Shapes: M members, B rows, T queries, K keys, H heads, E head width.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from trainers.positions.context import Context, Scores
from trainers.positions.gates import compute_cumulative_sums, compute_log_gates, declare_gate_parameters
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter


@register("position", "tra")
class ThresholdRelative(Position):
    """Keys without a positive score are dropped, and distance is the number of remaining keys times a trained gate.

    The count has no gradient. Scores are float32 at least, so that rounding sets no score to zero. The paper's models
    are causal; in a bidirectional model, keys on both sides are counted in the same way.
    """

    max_metrics = frozenset({"contextual_distance"})

    threshold: bool = setting(True, help="drop keys without a positive score; otherwise all keys count")
    distance: str = setting("contextual", choices=("contextual", "absolute"), help="in remaining keys, or in positions")
    gate: str = setting("query", choices=("query", "head", "off"), help="a gate per query and head, per head, or none")
    qk_norm: bool = setting(True, help="normalize queries and keys, without a gain")
    dropout_on: str = setting(
        "logits", choices=("logits", "weights"), help="where dropout of attention acts; logits: the notebook's"
    )

    @property
    def drops_scores(self) -> bool:
        """Whether dropout acts on the logits."""
        return self.dropout_on == "logits"

    @property
    def metrics(self) -> Mapping[str, str]:
        """The metrics of the enabled parts, recorded at each query.

        surviving_keys: the share of visible keys that remain. dead_rows: 1 for a query without remaining keys. gate:
        |delta|. contextual_distance: the largest count.
        """
        names = ["surviving_keys", "dead_rows"] if self.threshold else []
        names += ["gate"] if self.gate != "off" else []
        names += ["contextual_distance"] if self.distance == "contextual" else []
        return dict.fromkeys(names, "none")

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return the parameters of the gate: D H + H numbers for `query`, H numbers for `head`."""
        return {
            "query": declare_gate_parameters(name, sizes),
            "head": declare_gate_parameters(name, sizes)[1:],
            "off": (),
        }[self.gate]

    def rotate(self, context: Context) -> tuple[Tensor, Tensor]:
        """Return queries and keys of norm sqrt(E)."""
        return context.normalized() if self.qk_norm else (context.q, context.k)

    def score(self, context: Context) -> Scores:
        """Return the logits S + D, and the remaining keys."""
        # Without a threshold distances count every visible key.
        scores = context.exact_products()
        allowed = context.allowed
        keep = None
        if self.threshold:
            keep = scores > 0 if allowed is None else (scores > 0) & allowed
        counted = allowed if keep is None else keep
        if counted is None:
            counted = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)

        distance = self._measure_distance(context, counted, scores.dtype)
        gate = self._compute_gate(context, scores.dtype)
        if context.is_recording:
            self._record_metrics(context, scores, counted, distance, gate)
        return Scores(logits=scores if gate is None else torch.addcmul(scores, gate, distance), keep=keep)

    def _measure_distance(self, context: Context, counted: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the distance of each key, 1 for the nearest key; meaningless for dropped keys."""
        if self.distance == "absolute":
            return context.differences().abs().to(dtype) + 1
        # The difference of the sums counts the remaining keys after key j; 1 adds key j itself.
        sums, at_query = compute_cumulative_sums(counted, context, dtype)
        return at_query + 1 - sums if context.causal else (at_query - sums).abs() + 1

    def _compute_gate(self, context: Context, dtype: torch.dtype) -> Tensor | None:
        """Return delta <= 0, broadcastable to (M, B, H, T, K)."""
        if self.gate == "off":
            return None

        if self.gate == "query":
            return compute_log_gates(context).to(dtype)[..., None]
        bias = context.weights[f"{context.name}.gate_bias"].to(dtype)
        return functional.logsigmoid(bias)[:, None, :, None, None]

    def _record_metrics(
        self, context: Context, scores: Tensor, counted: Tensor, distance: Tensor, gate: Tensor | None
    ) -> None:
        """Record the metrics of the enabled parts for each query."""
        # In a causal pass the distance of the first key is the number of remaining keys, which saves a sum.
        shape = scores.shape[:-1]
        allowed = context.allowed
        is_counting = self.distance == "contextual" and context.causal
        surviving = distance[..., 0] - 1 + counted[..., 0] if is_counting else counted.sum(dim=-1)

        # `metrics` declares the same names for the same settings.
        measures = dict[str, Tensor]()
        if self.threshold:
            measures["surviving_keys"] = surviving / (scores.shape[-1] if allowed is None else allowed.sum(dim=-1))
            measures["dead_rows"] = surviving == 0
        if gate is not None:
            measures["gate"] = -gate[..., 0]
        if self.distance == "contextual":
            measures["contextual_distance"] = surviving if is_counting else (distance * counted).amax(dim=-1)
        for name, value in measures.items():
            context.record(name, value.to(scores.dtype).expand(shape))
