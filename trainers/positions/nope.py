"""No positional encoding: a causal mask is the only hint of order (Kazemnejad et al., arXiv:2305.19466)."""

from trainers.positions.position import Position
from trainers.settings.registry import register


@register("position", "nope")
class Nope(Position):
    """No positional encoding."""
