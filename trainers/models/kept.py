"""What a causal transformer keeps of the tokens so far, so that it can go on without computing them again.

Shapes: M members, B rows, T new tokens, H heads, E head width.
"""

from dataclasses import dataclass, field, replace

from torch import Tensor

from trainers.positions.context import Context


@dataclass(frozen=True)
class Kept:
    """Keys and values (M, B, H, width, E) and key state (M, B, H, width) of one layer, written in place."""

    width: int
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def with_earlier(self, context: Context) -> Context:
        """Keep what the layer has of the new tokens, and give it what was kept of the tokens before them."""
        last = context.first + context.count
        for name, new in {"k": context.k, "v": context.v, **_prefixed(context)}.items():
            if name not in self.tensors:
                self.tensors[name] = new.new_zeros(*new.shape[:3], self.width, *new.shape[4:])
            self.tensors[name][:, :, :, context.first : last] = new
        if context.first == 0:
            return context
        found = {name: kept[:, :, :, :last] for name, kept in self.tensors.items()}
        return replace(
            context, k=found["k"], v=found["v"], state={name: found[f"state.{name}"] for name in context.state}
        )


@dataclass(frozen=True)
class KeptTokens:
    """Of every layer what it keeps; ids: the position ids to go by, int64 (M, B, width), None: 0..width-1."""

    layers: tuple[Kept, ...]
    ids: Tensor | None

    @classmethod
    def empty(cls, layers: int, width: int, placed: Tensor | None) -> "KeptTokens":
        """For so many layers; `placed` are the ids of the first tokens, or of all that there will be."""
        ids = None
        if placed is not None:
            ids = placed.new_zeros(*placed.shape[:2], width)
            ids[..., : placed.shape[-1]] = placed
        return cls(tuple(Kept(width) for _ in range(layers)), ids)


def _prefixed(context: Context) -> dict[str, Tensor]:
    return {f"state.{name}": value for name, value in context.state.items()}
