"""What writing costs: tokens a CPU-second of texts that are written state by state, with and without kept keys.

    python tests/benchmarks/decoding.py [--batch 256] [--states 12] [--position learned] [--turns 3]

A decoder of 2 layers and width 64, 14 tokens that all states see, states of 8 tokens, all of them written: no row ends
early. The same rows are also passed over once, as in training (arXiv:2406.06467, each state beside a copy of the one
before), which says how many passes a text is worth. Turns follow each other, the fastest counts; one thread.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from trainers.evaluation.forward import Forward  # noqa: E402
from trainers.evaluation.generate import generate_states  # noqa: E402
from trainers.models.decoder import Decoder  # noqa: E402
from trainers.random import Stream  # noqa: E402
from trainers.settings import registry  # noqa: E402
from trainers.tasks.decoding import Decoding  # noqa: E402
from trainers.tasks.task import Task  # noqa: E402
from trainers.tensors.batch import Batch  # noqa: E402
from trainers.tensors.noise import Noise  # noqa: E402
from trainers.tensors.parameters import ParameterLayout  # noqa: E402

SHARED, WIDTH, PAD, MARK, END, OTHERS = 14, 8, 0, 1, 2, 3


class Anew(Decoder):
    """The same decoder, which keeps nothing."""

    supports_masked_cache = False


def task(tokens: int, symbols: int) -> Task:
    """Any task of so many positions."""
    return registry.build("task", {"name": "copy_string", "train_length": tokens // 2, "symbols": symbols})


def every_state_is_full(logits_MBV: Tensor, number: int) -> Tensor:
    """The likeliest token, and the mark at the end of each state."""
    token = logits_MBV.argmax(dim=-1).clamp(min=OTHERS)
    return torch.full_like(token, MARK) if number % WIDTH == WIDTH - 1 else token


def fastest(call: Callable[[], object], turns: int) -> float:
    """CPU-seconds."""
    seconds = float("inf")
    for _ in range(turns):
        began = time.process_time()
        call()
        seconds = min(seconds, time.process_time() - began)
    return seconds


@torch.no_grad()
def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--states", type=int, default=12)
    parser.add_argument("--position", default="learned")
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    row = SHARED + (2 * asked.states - 1) * WIDTH
    of = task(row, 20)
    settings = {"layers": 2, "width": 64, "heads": 4, "position": asked.position}
    weights: dict[str, Tensor] | None = None
    prompt = torch.randint(OTHERS, 20, (1, asked.batch, SHARED), generator=torch.Generator().manual_seed(0))
    sizes = {"shared": SHARED, "states": asked.states, "width": WIDTH, "mark": MARK}
    seconds = dict[str, float]()
    for name, cls in {"with a KV cache": Decoder, "without one": Anew}.items():
        model = cls(**settings)
        layout = ParameterLayout(model.parameters(of))
        weights = weights or layout.split(torch.randn(1, layout.size, generator=torch.Generator().manual_seed(1)) / 20)
        noise = Noise(Stream(torch.zeros(1, dtype=torch.int64), "dropout", torch.tensor(0)), None, training=False)
        forward = Forward(model, weights, "plain", noise)
        call = partial(generate_states, forward, prompt, Decoding(end=END, pad=PAD), [every_state_is_full], **sizes)
        call()
        seconds[name] = fastest(call, asked.turns)
    ids = torch.arange(SHARED + 2 * WIDTH)
    pairs = [ids[: SHARED + WIDTH], *[ids[SHARED:]] * (asked.states - 1)]
    groups = torch.cat(
        [torch.full_like(branch, k) for k, branch in enumerate([ids[:SHARED], pairs[0][SHARED:], *pairs[1:]])]
    )
    tokens = torch.randint(OTHERS, 20, (1, asked.batch, row), generator=torch.Generator().manual_seed(2))
    whole = Batch(tokens, tokens, torch.cat(pairs).expand_as(tokens), groups.expand_as(tokens))
    single = fastest(partial(forward, whole), asked.turns)
    written = asked.batch * asked.states * WIDTH
    print(f"{asked.batch} rows, {asked.states} states of {WIDTH} tokens behind {SHARED}: {written:,} tokens")
    print("\n| | CPU-seconds | tokens a CPU-second | passes over the row |\n|---|---|---|---|")
    for name, took in {**seconds, "one pass over the row": single}.items():
        rate = f"{written / took:,.0f}" if name in seconds else ""
        print(f"| {name} | {took:.2f} | {rate} | {took / single:.1f} |")


if __name__ == "__main__":
    main()
