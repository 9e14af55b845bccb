"""Single-layer attention-only transformer (arXiv:2510.08341), in a plain form and an equal form by token tables.

A causal attention head on a residual stream, without MLP or positions; logits at position t (E' is E or its layer
norm):

    logits_t = E[x_t] U + sum_{s <= t} softmax_s(E'[x_t] W_Q . E'[x_s] W_K / sqrt(width)) E'[x_s] W_V W_O U

Nothing depends on the position, so scores and values are functions of token ids: with the tables
A = (E' W_Q)(E' W_K)^T / sqrt(width), B = E U and D = E' W_V W_O U, each (V, V),

    logits_t = B[x_t] + sum_{s <= t} softmax_s(A[x_t, x_s]) D[x_s].

Both forms are equal, also in their gradients of the matrices. Shapes: M members, B rows, T positions, D width, K value
width, V vocabulary.
"""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from trainers.errors import Problem, find_repeated_name_problems
from trainers.models.dropout import DROPOUT_SITES, dropout_rate, dropout_sites
from trainers.models.model import Model, Recorded
from trainers.positions.context import Recorder
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.supervised import make_loss_mask
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.device_constants import make_constant
from trainers.tensors.layers import embed, layer_norm, linear
from trainers.tensors.masked import subtract_largest, weighted_exp_
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter


@register("model", "attention_only")
class AttentionOnly(Model):
    """A causal attention head on a residual stream, without MLP, positions or biases."""

    supports_bfloat16 = False  # its table form works in place

    width: int = setting(32, low=1, help="embedding width d")
    value_width: int | None = setting(None, low=1, help="value width d_v; null: the same as width")
    norm: str = setting(
        "none", choices=("none", "pre", "post"), help="layer norm: before attention, or after the residual sum"
    )
    attention: str = setting("softmax", choices=("softmax", "constant"), help="learned scores, or equal weights 1/s")
    dropout: float = dropout_rate()
    dropout_sites: tuple[str, ...] = dropout_sites(("attention",))
    init_std: float = setting(0.1, above=0.0, help="standard deviation of every initial matrix entry")
    form: str = setting(
        "auto", choices=("auto", "plain", "table"), help="how logits are computed; auto: table if it is exact"
    )

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem of a repeated dropout site, and of a table form that is not exact."""
        yield from find_repeated_name_problems("dropout_sites", self.dropout_sites)
        if self.form == "table" and (reason := self._explain_inexact_table()):
            yield Problem(
                key="form", given="table", message=f"the table form is not exact with {reason}", allowed="auto or plain"
            )

    def choose_form(self, task: Task) -> str:
        """Return `table` if it is exact and not disabled, else `plain`."""
        return "plain" if self.form == "plain" or self._explain_inexact_table() else "table"

    def _explain_inexact_table(self) -> str | None:
        """Return the setting with which the table form is not exact, None if it is exact."""
        if self.norm == "post":
            return "norm: post"
        sites = [site for site in self.dropout_sites if site != "attention"]
        return f"dropout at {sites[0]}" if self.dropout > 0 and sites else None

    @property
    def metrics(self) -> Mapping[str, str]:
        """Metrics of the attention weights, without dropout.

        attention_uniformity: the number of tokens a query sees times its largest attention weight (1: uniform
        attention), averaged over the scored queries. In rows of s tokens and in batches of several lengths, length s
        scores the query at position s; otherwise all queries with a counted target are scored.
        The others are averages over the rows of the displacement table D, equal at every length. balance: the standard
        deviation of the off-diagonal entries. table_displacement: mean off-diagonal minus diagonal.
        """
        return dict.fromkeys(("attention_uniformity", "balance", "table_displacement"), "none")

    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """Return the matrices of the module docstring, untied."""
        # The order of the parameters gives the site of their draws, so it must not change.
        v_in = task.inputs
        v_out = task.outputs
        d = self.width
        k = self.value_width or self.width
        std = self.init_std
        parameters = [
            Parameter(name="embedding", shape=(v_in, d), std=std),
            Parameter(name="unembedding", shape=(d, v_out), std=std),
        ]
        if self.attention == "softmax":
            parameters += [Parameter(name=name, shape=(d, d), std=std, hidden=True) for name in ("query", "key")]

        maps = {"value": (d, k), "output": (k, d)}
        parameters += [Parameter(name=name, shape=shape, std=std, hidden=True) for name, shape in maps.items()]
        if self.norm != "none":
            parameters += [
                Parameter(name="norm_gain", shape=(d,), std=0.0, mean=1.0, decay=False),
                Parameter(name="norm_bias", shape=(d,), std=0.0, decay=False),
            ]
        return tuple(parameters)

    def count_operations(self, task: Task, rows: int, positions: int) -> float:
        """Return the operations (twice the multiply-adds) of a forward pass over `rows` rows of `positions` tokens."""
        # The tables are computed once for each pass, whatever its number of rows.
        v = task.outputs
        d, k = self.width, self.value_width or self.width
        tables = 2.0 * v * (2 * d * d + 2 * d * k + 3 * d * v)
        if self.choose_form(task) == "table":
            return tables + 2.0 * rows * positions * (2 * v * v + positions * v)
        return 2.0 * rows * positions * (2 * d * d + 2 * d * k + d * v + positions * (d + k))

    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        """Return logits (M, B, T, V) at every position. Raises ValueError for a batch with groups."""
        if batch.groups is not None:
            raise ValueError(f"{self.name} does not support batches with groups; use a decoder")
        # The fastest form works in place and has no dropout, so it serves evaluation only.
        if form != "table":
            return self._compute_plain_logits(weights, batch.tokens, noise, record)
        if noise is None or noise.training:
            return self._compute_table_logits(weights, batch.tokens, noise)
        return self._compute_logits_by_token(weights, batch.tokens, record)

    def compute_attention(self, weights: Mapping[str, Tensor], batch: Batch, noise: Noise | None) -> tuple[Tensor, ...]:
        """Return the attention weights (M, B, 1, T, T) of its single head."""
        return (self._compute_attention_weights(self._look_up_scores(weights, batch.tokens), None)[:, :, None],)

    def measure_rows(
        self, weights: Mapping[str, Tensor], batch: Batch, lengths: tuple[int, ...], recorded: Recorded
    ) -> dict[str, Tensor]:
        """Return the sum of the largest attention weights of the scored queries, and their number, (M, B, L) each.

        At length s, each weight is multiplied by the number of keys that its query sees, divided by s.
        """
        # A pass over these rows has recorded the largest weights; after other passes they are computed again.
        passes = zip(recorded.get("tokens", ()), recorded.get("largest", ()), strict=True)
        largest = [recorded_weights for tokens, recorded_weights in passes if tokens is batch.tokens]
        largest_MBT = (
            largest[0]
            if largest
            else self._compute_attention_weights(self._look_up_scores(weights, batch.tokens), None).amax(dim=-1)
        )

        # Rows of several lengths have one query per length; rows of a single length have several, which are summed.
        scored_MBT = make_loss_mask(batch)
        if len(lengths) > 1 or lengths[0] == batch.tokens.shape[-1]:  # length s is scored at position s, which sees s
            columns = make_constant(tuple(s - 1 for s in lengths), largest_MBT.device)
            largest_MBL = largest_MBT.index_select(2, columns)
            scored_MBL = scored_MBT.index_select(2, columns)
            return {"largest": largest_MBL * scored_MBL, "queries": scored_MBL.expand(largest_MBL.shape)}
        share = torch.arange(1, largest_MBT.shape[-1] + 1, device=largest_MBT.device) / lengths[0]
        sums = (largest_MBT * share * scored_MBT).sum(dim=-1, keepdim=True)
        return {"largest": sums, "queries": scored_MBT.sum(dim=-1, keepdim=True).expand(sums.shape)}

    def reduce(
        self, rows: Mapping[str, Tensor], weights: Mapping[str, Tensor], lengths: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """Return its metrics, (M, L); metrics of the table are NaN if the numbers of outputs and inputs differ."""
        mean = rows["largest"].sum(dim=1) / rows["queries"].sum(dim=1)
        uniformity = mean * make_constant(lengths, mean.device)

        # Metrics of the displacement table compare its diagonal with the other entries, so it must be square.
        table = self._compute_displacement(weights)
        size = table.shape[-1]
        if table.shape[1] != size:  # no diagonal
            undefined = torch.full_like(uniformity, torch.nan)
            return {"attention_uniformity": uniformity, "balance": undefined, "table_displacement": undefined}
        shifted = table.flatten(1)[:, 1:].reshape(len(table), size - 1, size + 1)  # each row ends in a diagonal entry
        off_diagonal = shifted[..., :-1].reshape(len(table), size, size - 1).float()
        displacement = (off_diagonal.mean(dim=-1) - table.diagonal(dim1=1, dim2=2).float()).mean(dim=1)
        return {
            "attention_uniformity": uniformity,
            "balance": off_diagonal.std(dim=-1, correction=0).mean(dim=1)[:, None].expand(-1, len(lengths)),
            "table_displacement": displacement[:, None].expand(-1, len(lengths)),
        }

    def _normalize(self, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Return the layer norm of `x`."""
        return layer_norm(x, weights["norm_gain"], weights["norm_bias"])

    def _compute_displacement(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return the contribution of each attended token to the logits, D = E' W_V W_O U, (M, V, V)."""
        e = weights["embedding"]
        attended = self._normalize(weights, e) if self.norm == "pre" else e
        return torch.bmm(torch.bmm(torch.bmm(attended, weights["value"]), weights["output"]), weights["unembedding"])

    def _drop(self, x: Tensor, site: str, noise: Noise | None) -> Tensor:
        """Return `x` with dropout if it acts at this site."""
        return noise(x, DROPOUT_SITES.index(site)) if noise is not None and site in self.dropout_sites else x

    def _compute_attention_weights(self, scores_MBTT: Tensor, noise: Noise | None) -> Tensor:
        """Return the causal softmax over the scores, with dropout of the weights."""
        positions = scores_MBTT.shape[-1]
        causal = torch.ones(positions, positions, dtype=torch.bool, device=scores_MBTT.device).tril()
        weights = torch.softmax(scores_MBTT.masked_fill(~causal, -torch.inf), dim=-1)
        return self._drop(weights, "attention", noise)

    def _compute_plain_logits(
        self, weights: Mapping[str, Tensor], tokens_MBT: Tensor, noise: Noise | None, record: Recorder | None
    ) -> Tensor:
        """Return the logits (M, B, T, V) of the plain form."""
        x = self._drop(embed(weights["embedding"], tokens_MBT), "embedding", noise)
        normed = self._normalize(weights, x) if self.norm == "pre" else x
        m, b, t, _ = x.shape
        if self.attention == "softmax":
            q = linear(normed, weights["query"])
            k = linear(normed, weights["key"])
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.width)
        else:
            scores = x.new_zeros(m, b, t, t)
        attention = self._compute_attention_weights(scores, noise)
        if record is not None:
            record("tokens", tokens_MBT)
            record("largest", attention.amax(dim=-1))

        # The residual sum, and its logits.
        attended = torch.matmul(attention, linear(normed, weights["value"]))
        y = x + self._drop(linear(attended, weights["output"]), "residual", noise)
        return linear(self._normalize(weights, y) if self.norm == "post" else y, weights["unembedding"])

    def _compute_table_logits(self, weights: Mapping[str, Tensor], tokens_MBT: Tensor, noise: Noise | None) -> Tensor:
        """Return the logits (M, B, T, V) of the table form in training: B[x_t] plus the attended rows of D."""
        e = weights["embedding"]
        m, vocabulary, _ = e.shape
        _, b, t = tokens_MBT.shape
        # The last token and the attention are both weights over token ids, so one product with both tables gives the
        # logits.
        one_hot = _make_one_hot(tokens_MBT, vocabulary, e.dtype)
        attention = self._compute_attention_weights(self._look_up_scores(weights, tokens_MBT), noise)
        mixed = torch.matmul(attention, one_hot)  # attention as weights over token ids
        token_weights = torch.cat([one_hot, mixed], dim=-1).reshape(m, b * t, 2 * vocabulary)
        tables = torch.cat([torch.bmm(e, weights["unembedding"]), self._compute_displacement(weights)], dim=1)
        return torch.bmm(token_weights, tables).reshape(m, b, t, -1)

    def _compute_logits_by_token(
        self, weights: Mapping[str, Tensor], tokens_MBT: Tensor, record: Recorder | None
    ) -> Tensor:
        """Return the logits of the table form without dropout: attention over token ids, weighted by their counts.

        Rows are the last dimension and sums run over token ids, which is several times faster on a CPU.
        """
        # One product with one-hot tokens looks up scores and logits at once.
        e = weights["embedding"]
        (m, vocabulary, _), (_, b, t) = e.shape, tokens_MBT.shape
        scores = (
            self._compute_score_table(weights)
            if self.attention == "softmax"
            else e.new_zeros(m, vocabulary, vocabulary)
        )
        last = e.new_zeros(m, vocabulary, t, b).scatter_(1, tokens_MBT.mT[:, None], 1.0)
        counts = last.cumsum(dim=2).flatten(2)
        tables = torch.cat([scores, torch.bmm(e, weights["unembedding"])], dim=2).mT
        scores_logits = torch.bmm(tables, last.flatten(2))
        scores = scores_logits[:, :vocabulary]
        logits = scores_logits[:, vocabulary:]

        # Equal tokens have equal scores, so a softmax over token ids, weighted by counts, equals that over positions.
        _, differences = subtract_largest(scores, (1.0 - counts).clamp_(min=0.0), dim=1)
        attention = weighted_exp_(differences, counts)
        sums = attention.sum(dim=1, keepdim=True)
        if record is not None:
            record("tokens", tokens_MBT)
            record("largest", sums.reciprocal().reshape(m, t, b).mT)  # the largest is 1 before the division
        logits = logits.baddbmm(self._compute_displacement(weights).mT, attention.div_(sums))
        return logits.reshape(m, -1, t, b).permute(0, 3, 2, 1)

    def _look_up_scores(self, weights: Mapping[str, Tensor], tokens_MBT: Tensor) -> Tensor:
        """Return attention scores by table look-up, (M, B, T, T)."""
        e = weights["embedding"]
        m, vocabulary, _ = e.shape
        _, b, t = tokens_MBT.shape
        if self.attention == "constant":
            return e.new_zeros(m, b, t, t)
        rows = torch.bmm(
            _make_one_hot(tokens_MBT, vocabulary, e.dtype).reshape(m, b * t, vocabulary),
            self._compute_score_table(weights),
        )
        return torch.gather(rows.reshape(m, b, t, vocabulary), -1, tokens_MBT[:, :, None, :].expand(m, b, t, t))

    def _compute_score_table(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return the scores of every pair of tokens, A = (E' W_Q)(E' W_K)^T / sqrt(width), (M, V, V)."""
        attended = self._normalize(weights, weights["embedding"]) if self.norm == "pre" else weights["embedding"]
        return torch.bmm(torch.bmm(attended, weights["query"]), torch.bmm(attended, weights["key"]).mT) / math.sqrt(
            self.width
        )


def _make_one_hot(tokens: Tensor, vocabulary: int, dtype: torch.dtype) -> Tensor:
    """Return token ids as one-hot vectors, (..., V)."""
    # Rows of the identity matrix: comparing every token with every id is seven times slower on a CPU.
    return functional.embedding(tokens, torch.eye(vocabulary, dtype=dtype, device=tokens.device))
