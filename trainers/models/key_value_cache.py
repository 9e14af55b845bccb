"""The KV cache of a causal transformer.

Shapes: M members, B rows, T new tokens, H heads, E head width.
"""

from dataclasses import dataclass, field, replace

from torch import Tensor

from trainers.positions.context import Context


@dataclass(frozen=True)
class LayerCache:
    """Keys and values (M, B, H, width, E) and key state (M, B, H, width) of a layer, updated in place."""

    width: int
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def append(self, context: Context) -> Context:
        """Append keys, values and key state of the new tokens; return the context with all tokens so far."""
        # The buffers have their full width from the start, so that extending them copies no earlier token.
        last = context.first + context.count
        state = {f"state.{name}": value for name, value in context.state.items()}
        for name, new in {"k": context.k, "v": context.v, **state}.items():
            if name not in self.tensors:
                self.tensors[name] = new.new_zeros(*new.shape[:3], self.width, *new.shape[4:])
            self.tensors[name][:, :, :, context.first : last] = new

        # The first tokens see only themselves, so the context has all keys already.
        if context.first == 0:
            return context
        cached = {name: tensor[:, :, :, :last] for name, tensor in self.tensors.items()}
        state = {name: cached[f"state.{name}"] for name in context.state}
        return replace(context, k=cached["k"], v=cached["v"], state=state)


@dataclass(frozen=True)
class TokenCache:
    """The caches of all layers, and the position ids, int64 (M, B, width); None means 0..width-1."""

    layers: tuple[LayerCache, ...]
    ids: Tensor | None

    @classmethod
    def empty(cls, layers: int, width: int, first_ids: Tensor | None) -> "TokenCache":
        """Return an empty cache; first_ids: the ids (M, B, T) of the first tokens, or of all `width` tokens."""
        # The ids of later tokens are written when these are appended.
        ids = None
        if first_ids is not None:
            ids = first_ids.new_zeros(*first_ids.shape[:2], width)
            ids[..., : first_ids.shape[-1]] = first_ids
        return cls(tuple(LayerCache(width) for _ in range(layers)), ids)
