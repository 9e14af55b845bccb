"""What people write without us: one model, one seed after another, in ordinary PyTorch.

    python tests/benchmarks/baseline.py WORKLOAD OUT.json [--part 0/2] [--compiled]

The same mathematics as the stacked engine: an attention-only transformer or a decoder, dropout on the attention
weights, AdamW, one EMA, sampled targets, total variation at every length from raw and averaged weights. Random numbers
are torch's own. `--part 0/2`: every second member, from the first; two such scripts keep two cores busy.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from workloads import WORKLOADS, Workload, workload


class AttentionOnly(nn.Module):
    def __init__(self, vocabulary: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.unembedding = nn.Linear(width, vocabulary, bias=False)
        self.dropout = dropout

    def reset(self, generator: torch.Generator) -> None:
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(0.0, 0.1, generator=generator)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(x.shape[-1])
        causal = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).tril()
        weights = functional.dropout(scores.masked_fill(~causal, -torch.inf).softmax(-1), self.dropout, self.training)
        return self.unembedding(x + self.output(weights @ self.value(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads, self.dropout = heads, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(b, t, width))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width, 4, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def reset(self, generator: torch.Generator) -> None:
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.LayerNorm):
                    module.reset_parameters()
                elif isinstance(module, nn.Linear | nn.Embedding):
                    module.weight.normal_(0.0, 0.1, generator=generator)
                    if getattr(module, "bias", None) is not None:
                        module.bias.zero_()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


class Trainer:
    """Trains seeds one by one; the module is kept between them so that a compiled one is compiled once."""

    def __init__(self, work: Workload, compiled: bool, device: str = "cpu") -> None:
        self.work, self.device = work, device
        self.models: dict[float, Any] = {}  # by their dropout
        self.compiled = compiled
        torch.set_num_threads(1)  # faster than two for models this small

    def model(self, dropout: float) -> tuple[Any, Any]:
        if dropout not in self.models:
            work, layers = self.work, self.work.layers
            plain: Any = (
                Decoder(work.vocabulary, work.width, layers, dropout)
                if layers
                else AttentionOnly(work.vocabulary, work.width, dropout)
            ).to(self.device)
            self.models[dropout] = (plain, torch.compile(plain, dynamic=False) if self.compiled else plain)
        return self.models[dropout]

    def train(self, configuration: int, seed: int) -> dict[str, Any]:
        """Curves after the last step, and when each evaluation ended."""
        work = self.work
        rate, decay, dropout, ema = work.configurations[configuration]
        generator = torch.Generator(self.device).manual_seed(seed)
        torch.manual_seed(seed)
        plain, model = self.model(dropout)
        plain.reset(generator)
        average = [parameter.detach().clone() for parameter in plain.parameters()]
        named = list(plain.named_parameters())
        whole = not work.layers  # a decoder's embedding, biases and norms do not decay
        decays = [p for n, p in named if whole or (p.dim() == 2 and not n.startswith("embedding"))]
        others = [p for n, p in named if not (whole or (p.dim() == 2 and not n.startswith("embedding")))]
        groups = [{"params": decays, "weight_decay": decay}]
        groups += [{"params": others, "weight_decay": 0.0}] if others else []
        optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99))
        curves, times, loss_sum = {}, [], torch.zeros((), device=self.device)
        for step in range(1, work.steps + 1):
            rows = torch.rand(work.batch_size, work.vocabulary, generator=generator, device=self.device).argsort(1)
            logits = model(rows[:, : work.train_length])
            loss = functional.cross_entropy(
                logits.reshape(-1, work.vocabulary), rows[:, 1 : work.train_length + 1].reshape(-1)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch._foreach_lerp_(average, [parameter.detach() for parameter in plain.parameters()], 1.0 - ema)
            loss_sum += loss.detach()
            if step % work.every == 0 or step == work.steps:
                curves = {"raw": self.curve(plain, None), "ema": self.curve(plain, average)}
                times.append(time.time())
        return {"configuration": configuration, "seed": seed, "curves": curves, "times": times}

    @torch.no_grad()
    def curve(self, model: Any, weights: list[torch.Tensor] | None) -> list[float]:
        """Mean total variation at lengths 1..v-1."""
        v = self.work.vocabulary
        rows = torch.rand(self.work.samples, v, device=self.device).argsort(1)[:, : v - 1]
        model.eval()
        if weights is None:
            logits = model(rows)
        else:
            names = [name for name, _ in model.named_parameters()]
            logits = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (rows,))
        model.train()
        absent = (functional.one_hot(rows, v).cumsum(1) == 0).float()
        target = absent / absent.sum(-1, keepdim=True)
        return (0.5 * (logits.softmax(-1) - target).abs().sum(-1)).mean(0).tolist()


def main() -> None:
    """Train a part of the members, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", default="0/1", help="members: FIRST/EVERY")
    parser.add_argument("--compiled", action="store_true")
    asked = parser.parse_args()
    work = workload(asked.workload)
    trainer = Trainer(work, asked.compiled)
    asked.out.write_text(json.dumps([trainer.train(*member) for member in work.part(asked.part)]))


if __name__ == "__main__":
    main()
