"""Factored linear attention on positions alone (Sabbaghi et al., arXiv:2406.01895, appendix D.1 to D.3).

    APE:  y_i = sum_r (p_i . p_r) <v, x_r>,   p_1..p_n trained, v = theta fixed
    RPE:  y_i = sum_r (p_(i-r) . u) <v, x_r>,  differences on the ring, p trained, u fixed, v = theta or trained

theta is the first unit vector, without loss of generality. Only coefficients matter, so tokens are ignored.
Shapes: M members, N ring positions, D width.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.models.model import Model
from trainers.positions.context import Recorder
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.ring_regression import RingRegression
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.tensors.parameters import Parameter
from trainers.tensors.precision import matmul


@register("model", "linear_attention")
class LinearAttention(Model):
    """Linear attention for ring regression: a Gram matrix of positions, or a coefficient for each difference."""

    trial_task: ClassVar[Mapping[str, Any]] = {"name": "ring_regression", "ring": 9, "window": 3}
    supports_bfloat16 = False  # its losses are exact

    width: int = setting(200, low=2, help="width d of inputs and positional vectors")
    encoding: str = setting("rpe", choices=("ape", "rpe"), help="absolute or relative positional vectors")
    free_value: bool = setting(False, help="also train v of the relative form, from random initial values")

    def find_task_problems(self, task: Task) -> Iterator[Problem]:
        """Yield a problem unless the task is ring regression."""
        if not isinstance(task, RingRegression):
            message = "returns coefficients, not logits"
            yield Problem(key="name", given=self.name, message=message, allowed="task ring_regression")

    def parameters(self, task: Task) -> tuple[Parameter, ...]:
        """Return positional vectors of squared norm about 1, with weight decay; for RPE also u, fixed, and a free v."""
        n = task.inputs
        std = self.width**-0.5
        vectors = Parameter(name="positions", shape=(n, self.width), std=std)
        if self.encoding == "ape":
            return (vectors,)
        names = ("u", "v") if self.free_value else ("u",)
        return (vectors, *(Parameter(name=name, shape=(self.width,), std=std, decay=False) for name in names))

    def count_operations(self, task: Task, rows: int, positions: int) -> float:
        """Return the operations (twice the multiply-adds) of a forward pass."""
        return 2.0 * positions * self.width * (positions if self.encoding == "ape" else 1)

    def logits(
        self,
        weights: Mapping[str, Tensor],
        batch: Batch,
        noise: Noise | None,
        form: str,
        record: Recorder | None = None,
    ) -> Tensor:
        """Return coefficients of <e_1, x_r> and the norm of the rest, (M, 1, N, 2N)."""
        p = weights["positions"]
        if self.encoding == "ape":
            gram = torch.bmm(p, p.mT)
            return torch.cat([gram, torch.zeros_like(gram)], dim=-1)[:, None]

        # The relative form has a coefficient for each difference on the ring; u is fixed, so it has no gradient.
        u = weights["u"].detach()[:, :, None]
        coefficients = matmul(p, u)[..., 0]
        position = torch.arange(p.shape[1], device=p.device)
        a = coefficients[:, (position[:, None] - position[None, :]) % p.shape[1]]
        if not self.free_value:
            return torch.cat([a, torch.zeros_like(a)], dim=-1)[:, None]

        # A free v has a part along theta and a part across it.
        v = weights["v"]
        along = v[:, :1, None]
        across = torch.linalg.vector_norm(v[:, 1:], dim=1)[:, None, None]
        return torch.cat([a * along, a * across], dim=-1)[:, None]
