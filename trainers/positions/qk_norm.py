"""Normalised queries and keys (Henry et al., arXiv:2010.04245), here by the RMS norm and without a gain."""

from torch import Tensor

from trainers.positions.context import Context
from trainers.tensors.norm import rms_norm
from trainers.tensors.precision import wide


def normalize(context: Context) -> tuple[Tensor, Tensor]:
    """Return queries and keys of norm sqrt(E), float32 at least: rounding might change the sign of a score."""
    dtype = wide(context.q.dtype)
    return rms_norm(context.q.to(dtype)), rms_norm(context.k.to(dtype))
