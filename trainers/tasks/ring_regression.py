"""Ring regression with exact population losses (Sabbaghi et al., arXiv:2406.01895, section 5 and appendix D.4)."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.task import Batch, EvaluationBatch, Task
from trainers.tensors.device_constants import make_constant

_CPU = torch.device("cpu")


@register("task", "ring_regression")
class RingRegression(Task):
    """Input: Gaussian vectors on a ring of n positions. Output: at each, a fixed combination of its neighbourhood.

    y_i = alpha <theta, x_i> + sum_k beta_k (<theta, x_(i-k)> + <theta, x_(i+k)>) with ||theta|| = 1. In training only
    the vectors of a window are not zero, and only its positions are scored; in tests all vectors and positions count.
    Nothing is sampled: a model returns coefficients, and losses are expectations over the Gaussian inputs. "Length" is
    the position, 1..n; the trained ones are in the window, in the middle. First row of the target matrix, and window:

    >>> RingRegression(ring=5, window=2, alpha=2.0, betas=(0.5,)).make_target(torch.float32).tolist()[0]
    [2.0, 0.5, 0.0, 0.0, 0.5]
    >>> RingRegression(ring=5, window=2).trained_lengths
    (2, 3)
    """

    causal: ClassVar[bool] = False
    # test_loss: expected squared error at a position, all vectors Gaussian; train_loss: within the window.
    metrics: ClassVar[Mapping[str, str]] = {"test_loss": "minimize", "train_loss": "minimize"}

    ring: int = setting(51, low=3, help="positions n")
    window: int = setting(10, low=1, help="positions of the training window")
    alpha: float = setting(2.0, help="coefficient of the position itself")
    betas: tuple[float, ...] = setting((0.5,), help="coefficients of the neighbours at distance 1, 2, ...")
    augmented: bool = setting(False, help="train on every circular shift of the window, averaged")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield problems of a window or neighbourhood that overlaps itself, and of a target that is no Gram matrix."""
        half = (self.ring - 1) // 2
        if self.window > half + 1:
            yield self._make_problem("window", f"{self.window} is more than half the ring", f"<= {half + 1}")
        if len(self.betas) > half:
            yield self._make_problem("betas", f"has more than {half} entries", f"<= {half} entries")
        smallest_alpha = 2 * sum(abs(beta) for beta in self.betas)  # makes the matrix diagonally dominant
        if self.alpha < smallest_alpha:
            message = f"{self.alpha} is less than twice the sum of betas: the target need not be a Gram matrix"
            yield self._make_problem("alpha", message, f">= {smallest_alpha:g}")

    @property
    def inputs(self) -> int:
        """Number of positions of the ring; the vectors themselves are never drawn."""
        return self.ring

    @property
    def outputs(self) -> int:
        """Number of values at each position: n coefficients along theta, n orthogonal to it."""
        return 2 * self.ring

    @property
    def train_positions(self) -> int:
        """Number of positions of the ring."""
        return self.ring

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """Positions of the training window, counted from 1."""
        start = (self.ring - self.window) // 2
        return tuple(range(start + 1, start + self.window + 1))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Every position, counted from 1."""
        return tuple(range(1, self.ring + 1))

    def make_target(self, dtype: torch.dtype, device: torch.device = _CPU) -> Tensor:
        """Return T_ir, the coefficient of <theta, x_r> in y_i, (n, n)."""
        beyond = (0.0,) * (self.ring - 1 - len(self.betas))
        by_distance = make_constant((self.alpha, *self.betas, *beyond), device, dtype)
        return by_distance[self._measure_distances(device)]

    def make_pair_weights(self, dtype: torch.dtype, device: torch.device = _CPU) -> Tensor:
        """Return the weight of each pair of positions in the training loss, (n, n)."""
        if self.augmented:
            # The share of all shifts of the window that contain both positions.
            return (self.window - self._measure_distances(device)).clamp(min=0).to(dtype) / self.ring
        in_window = torch.zeros(self.ring, dtype=dtype, device=device)
        in_window[self.trained_lengths[0] - 1 : self.trained_lengths[-1]] = 1.0
        return in_window[:, None] * in_window[None, :]

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return inputs and targets as text; nothing is drawn."""
        first, last = self.trained_lengths[0], self.trained_lengths[-1]
        inputs = f"any {self.window} neighbours" if self.augmented else f"positions {first} to {last}"
        sums = [f"{beta:g} <theta, x(i-{k}) + x(i+{k})>" for k, beta in enumerate(self.betas, start=1)]
        target = " + ".join([f"{self.alpha:g} <theta, x(i)>", *sums])
        return [f"x ~ N(0, I) at {inputs}, 0 at the other {self.ring - self.window}"], [f"there y(i) = {target}"]

    def sample(self, stream: Stream, batch: int) -> Batch:
        """Return empty rows, because nothing is drawn."""
        empty = torch.zeros(len(stream.seeds_S), batch, self.ring, dtype=torch.int64, device=stream.seeds_S.device)
        return Batch(empty, empty)

    def loss(self, logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the expected squared error summed over the window, and 1, (M,)."""
        errors = self._compute_errors(logits_MBTV)
        loss_M = (errors * self.make_pair_weights(errors.dtype, errors.device)).sum(dim=(1, 2))
        return loss_M, torch.ones_like(loss_M)

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield a single empty batch, because the expectations are exact."""
        yield EvaluationBatch(self.sample(stream, 1), lengths)

    def score_rows(self, logits_MBTV: Tensor, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
        """Return the expected squared error at each position, (M, 1, L)."""
        errors = self._compute_errors(logits_MBTV)
        columns = make_constant(tuple(length - 1 for length in lengths), errors.device)
        window_errors = errors * self.make_pair_weights(errors.dtype, errors.device)
        losses = {"test_loss": errors.sum(dim=2), "train_loss": window_errors.sum(dim=2)}
        return {name: loss[:, None, columns] for name, loss in losses.items()}

    def _measure_distances(self, device: torch.device) -> Tensor:
        """Return the distance on the ring of every pair of positions, int64 (n, n)."""
        position = torch.arange(self.ring, device=device)
        distance = (position[:, None] - position[None, :]).abs()
        return torch.minimum(distance, self.ring - distance)

    def _compute_errors(self, logits_MBTV: Tensor) -> Tensor:
        """Return the expected squared error that x_r contributes to y_i, (M, n, n)."""
        along, orthogonal = logits_MBTV[:, 0].chunk(2, dim=-1)
        return (along - self.make_target(along.dtype, along.device)) ** 2 + orthogonal**2
