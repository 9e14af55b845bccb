"""Throw-away torch modules: some that vmap can run for all members at once, and one for each thing it cannot."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainers.models.dropout import dropout_rate
from trainers.models.keyed_dropout import dropout
from trainers.models.vmapped import Vmapped
from trainers.settings.fields import setting


class Net(nn.Module):
    """Running means of embeddings and a gated map."""

    def __init__(self, inputs: int, outputs: int, positions: int, inner: nn.Module | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding(inputs, 8)
        self.inner = inner or nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8))
        self.head = nn.Linear(8, outputs)
        self.register_buffer("counts", torch.arange(1, positions + 1).float())

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens).cumsum(dim=-2) / self.counts[: tokens.shape[-1], None]
        output = self.inner(x)
        return self.head(output[0] if isinstance(output, tuple) else output)


class Attends(nn.Module):
    """One head of the library's attention."""

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (2, 4)).transpose(-2, -3)
        return (
            functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True).transpose(-2, -3).flatten(-2)
        )


class Refuses(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2] > 3:
            raise ValueError("no more than 3")
        return x


class Drawn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.still = nn.Parameter(torch.ones(8), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.still


class Broken(nn.Module):
    def __init__(self, inputs: int, outputs: int, positions: int) -> None:
        raise RuntimeError("no such thing")


class Counts(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class Remembers(nn.Module):
    """Keeps its last output, and reads it as a number."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 1.0

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.last
        self.last = float(x.detach().sum())
        return x


class Steps(nn.Module):
    """A cell of the library, called step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        state, states = x.new_zeros(len(x), 8), []
        for vector in x.unbind(1):
            state = self.cell(vector, state)
            states.append(state)
        return torch.stack(states, dim=1)


class OfWidth(Vmapped):
    """A module with a setting of its own."""

    width: int = setting(8, low=1, help="hidden width")

    def build(self, inputs: int, outputs: int, positions: int) -> nn.Module:
        return Net(
            inputs, outputs, positions, nn.Sequential(nn.Linear(8, self.width), nn.Tanh(), nn.Linear(self.width, 8))
        )


class Dropping(Vmapped):
    """Dropout twice by the same layer, with a rate for each member."""

    dropout: float = dropout_rate()
    recurrent: bool = setting(False, help="whether vmap cannot run it")

    def build(self, inputs: int, outputs: int, positions: int) -> nn.Module:
        inner, drop = Steps() if self.recurrent else nn.Linear(8, 8), nn.Dropout(self.dropout)
        return Net(inputs, outputs, positions, nn.Sequential(drop, inner, drop))


class Does(nn.Module):
    """A function without parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _net_with(inner: Callable[..., nn.Module], *arguments: object, name: str = "", **more: object) -> type[nn.Module]:
    class Of(Net):
        def __init__(self, inputs: int, outputs: int, positions: int) -> None:
            super().__init__(inputs, outputs, positions, inner(*arguments, **more))

    Of.__name__ = name or f"With{inner.__name__}"
    return Of


WithDrops = _net_with(Does, lambda x: functional.dropout(x, 0.1))
WithNoisy = _net_with(Does, lambda x: x + torch.randn_like(x))
WithRenorms = _net_with(Does, lambda x: torch.renorm(x.flatten(0, 1), 2, 0, 1.0).unflatten(0, x.shape[:2]))
WithReads = _net_with(Does, lambda x: x * (1.0 if float(x.detach().abs().sum()) >= 0 else 2.0))
WithInfinite = _net_with(Does, lambda x: x / 0)
WithSees = _net_with(Does, lambda x: x + x.mean(dim=-2, keepdim=True), name="WithSees")
WithNarrow = _net_with(Does, lambda x: x[..., :2, :])
WithAttends, WithDrawn, WithFrozen, WithRefuses = map(_net_with, (Attends, Drawn, Frozen, Refuses))
WithDropout = _net_with(nn.Dropout, 0.25)
WithDroppedSteps = _net_with(lambda: nn.Sequential(Steps(), nn.Dropout(0.25)), name="WithDroppedSteps")
WithoutDropout = _net_with(nn.Dropout, 0.0)
WithLstm, WithGru = (_net_with(layer, 8, 8, batch_first=True) for layer in (nn.LSTM, nn.GRU))
WithTimeFirst = _net_with(nn.GRU, 8, 8, name="WithTimeFirst")  # reads the rows of a batch as time
WithDeepGru = _net_with(nn.GRU, 8, 8, num_layers=2, dropout=0.5, batch_first=True)
WithCounts, WithRemembers, WithSteps = map(_net_with, (Counts, Remembers, Steps))
WithConv = _net_with(nn.Conv1d, 8, 8, 1)


class Pooled(Net):
    """Adds the mean embedding of the real tokens of a row: padding changes nothing."""

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        x = self.table(tokens)
        real = (torch.arange(tokens.shape[-1]) < lengths[:, None])[..., None]
        mean = torch.where(real, x, 0.0).sum(dim=-2, keepdim=True) / lengths[:, None, None]
        return self.head(self.inner(x + mean))


class Grouped(Net):
    """Sums of embeddings within the group of a token, and its position id."""

    def forward(self, tokens: Tensor, ids: Tensor, groups: Tensor) -> Tensor:
        same = (groups[:, :, None] == groups[:, None, :]).tril().to(self.table.weight.dtype)
        return self.head(self.inner(same @ self.table(tokens) + ids[..., None] / 10))


class MayAsk(Net):
    """Asks for lengths, which may be None."""

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        logits = super().forward(tokens)
        return logits if lengths is None else logits * lengths[:, None, None]


class Deeper(Net):
    """Applies its inner map once in training steps, and three times elsewhere."""

    def forward(self, tokens: Tensor, training: bool) -> Tensor:
        x = self.table(tokens).cumsum(dim=-2)
        for _ in range(1 if training else 3):
            x = self.inner(x)
        return self.head(x)


class DeeperIfAsked(Deeper):
    """Reads a number outside of training, which vmap cannot."""

    def forward(self, tokens: Tensor, training: bool) -> Tensor:
        if not training and float(self.head.bias.sum()) == 0.0:
            return super().forward(tokens, True)
        return super().forward(tokens, training)


class MixesDeeper(Deeper):
    """Mixes rows outside of training."""

    def forward(self, tokens: Tensor, training: bool) -> Tensor:
        logits = super().forward(tokens, training)
        return logits if training else logits.mean(dim=0, keepdim=True).expand_as(logits)


class Masked(Net):
    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return super().forward(tokens * mask)


class MixesAsked(Net):
    """Mixes rows through what it is given."""

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return super().forward(tokens) + self.table(tokens).mean() * lengths[:, None, None]


class Functional(Net):
    """Drops by the function, at the rate of the member or its own."""

    def __init__(self, inputs: int, outputs: int, positions: int, rate: float | None = 0.25) -> None:
        super().__init__(inputs, outputs, positions)
        self.rate = rate

    def forward(self, tokens: Tensor) -> Tensor:
        x = dropout(self.table(tokens), self.rate).cumsum(dim=-2) / self.counts[: tokens.shape[-1], None]
        return self.head(dropout(self.inner(x), self.rate))


class WithoutRate(Functional):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes, rate=None)


class DroppingFunction(Vmapped):
    """Its members have rates of their own, which the function takes."""

    dropout: float = dropout_rate()

    def build(self, inputs: int, outputs: int, positions: int) -> nn.Module:
        return WithoutRate(inputs, outputs, positions)
