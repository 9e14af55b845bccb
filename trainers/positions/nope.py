"""No positional encoding: a causal mask is the only hint of order (Kazemnejad et al., arXiv:2305.19466)."""

from trainers.config.registry import register
from trainers.positions.position import Position


@register("position", "nope")
class Nope(Position):
    """No positional encoding."""
