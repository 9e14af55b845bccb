"""An LSTM layer (Hochreiter and Schmidhuber, 1997) of stacked linear maps, because nn.LSTM does not work with vmap.

    i, f, g, o = W x_t + b + U h_(t-1) + b'
    c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g),   h_t = sigmoid(o) tanh(c_t)

Shapes: M members, B rows, T positions, D width, H hidden width, V output tokens.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from trainers.errors import Problem, find_repeated_name_problems
from trainers.models.dropout import dropout_rate, dropout_sites
from trainers.models.model import Model
from trainers.positions.context import Recorder
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.layers import embed, linear
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter, uniform_parameter
from trainers.tensors.precision import matmul


@register("model", "lstm")
class Lstm(Model):
    """Embedding, an LSTM layer and a head, without positional encoding.

    Initial values and both biases are as in torch.nn.Embedding, LSTM and Linear. Dropout acts on the embedding and on
    the input of the head (`residual`).
    """

    compiling = "asked"  # a program unrolls all positions and takes long to compile

    width: int = setting(128, low=1, help="embedding width")
    hidden: int | None = setting(None, low=1, help="width of the state; null: the same as width")
    dropout: float = dropout_rate()
    dropout_sites: tuple[str, ...] = dropout_sites(("embedding", "residual"))

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem if dropout should act on attention, and problems of repeated sites."""
        if "attention" in self.dropout_sites:
            given = list(self.dropout_sites)
            message = "an LSTM has no attention"
            yield Problem(key="dropout_sites", given=given, message=message, allowed="embedding, residual")
        yield from find_repeated_name_problems("dropout_sites", self.dropout_sites)

    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """Return embedding, maps of input and state to the four gates, and head; biases have no weight decay."""
        d, h = self.width, self.hidden or self.width
        bound = h**-0.5
        return (
            Parameter(name="embedding", shape=(task.inputs, d), std=1.0, decay=False),
            uniform_parameter("input", (d, 4 * h), -bound, bound, hidden=True),
            uniform_parameter("input_bias", (4 * h,), -bound, bound, decay=False),
            uniform_parameter("state", (h, 4 * h), -bound, bound, hidden=True),
            uniform_parameter("state_bias", (4 * h,), -bound, bound, decay=False),
            uniform_parameter("head", (h, task.outputs), -bound, bound),
            uniform_parameter("head_bias", (task.outputs,), -bound, bound, decay=False),
        )

    def count_operations(self, task: Task, rows: int, positions: int) -> float:
        """Return the operations (twice the multiply-adds) of a forward pass over `rows` rows of `positions` tokens."""
        h = self.hidden or self.width
        return 2.0 * rows * positions * (4 * h * (self.width + h) + h * task.outputs)

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

        # The input map does not depend on the state, so one product serves all positions.
        x = self._drop(embed(weights["embedding"], batch.tokens), 0, noise)
        inputs = linear(x, weights["input"], weights["input_bias"] + weights["state_bias"])

        # The state depends on the previous position, so positions follow one another.
        h = c = x.new_zeros(*x.shape[:2], weights["state"].shape[1])
        states = []
        for current in inputs.unbind(dim=2):
            i, f, g, o = (current + matmul(h, weights["state"])).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        hidden = self._drop(torch.stack(states, dim=2), 1, noise)
        return linear(hidden, weights["head"], weights["head_bias"])

    def _drop(self, x: Tensor, site: int, noise: Noise | None) -> Tensor:
        """Return `x` with dropout if it acts at this site: 0 the embedding, 1 the input of the head."""
        is_active = ("embedding", "residual")[site] in self.dropout_sites
        return noise(x, site) if noise is not None and is_active else x
