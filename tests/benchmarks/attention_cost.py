"""What attention costs: time of a training step and of an evaluation, and peak memory, of each encoding, in one run.

    python tests/benchmarks/attention_cost.py [--device cpu|cuda] [--pairs 128] [--batch 64] [--members 1] [--steps 3]
        [--compile]

The model is the mini one of threshold relative attention (arXiv:2503.23174: 4 layers, 4 heads, width 256), trained on
flip-flops; 128 pairs are its window of 256 tokens. The paper's times are 65.88 min for TRA and 58.73 for RoPE: 1.12.
Turns of every encoding follow each other; the fastest turn counts, on a CPU in CPU-seconds of one thread, which other
work on the machine disturbs less. There each encoding has a process of its own for its peak, which is that of the whole
process in training, of its compiler too if steps are compiled. An evaluation reads as many rows as a step and is never
compiled.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ENCODINGS = ("rope", "alibi", "nope", "tra", "fox", "cope", "shaw")
BLOCK = {"norm": "residual", "norm_type": "rms", "mlp": "gated", "biases": ["output", "mlp"], "init": "torch"}


def options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--pairs", type=int, default=128)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3, help="steps in a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="compiled steps")
    parser.add_argument("--of", choices=ENCODINGS, help="this one alone, and nothing but its numbers")
    return parser.parse_args()


def measure(encoding: str, asked: argparse.Namespace) -> None:
    """Print seconds of the fastest turn's step and of its evaluation, and the peak of training in MiB."""
    import torch

    from orchestrator.engine.heap import keep_freed_memory
    from tests.trainers.runs import make_stepper
    from trainers.config.member import MemberConfig
    from trainers.evaluation.evaluate import evaluate
    from trainers.packs.pack import Pack
    from trainers.packs.training_state import TrainingState

    keep_freed_memory()  # as a worker does
    position = {"name": "rope", "base": 500000} if encoding == "rope" else encoding
    model = {"name": "decoder", "layers": 4, "width": 256, "heads": 4, **BLOCK, "position": position, "dropout": 0.0}
    settings = {
        "task": {"name": "flip_flop", "pairs": asked.pairs},
        "model": model,
        "training": {"steps": 100, "batch_size": asked.batch, "learning_rate": 1e-4, "compile": asked.compile},
        "evaluation": {"every": 100, "samples": asked.batch},
    }
    members = [MemberConfig.from_dict({**settings, "seed": seed}) for seed in range(asked.members)]
    pack = Pack(members, torch.device(asked.device))
    state, step, cuda = TrainingState.make_initial(pack), make_stepper(pack), asked.device == "cuda"
    clock = time.perf_counter if cuda else time.process_time
    torch.set_num_threads(1)

    def fastest(do: Callable[[], object], times: int) -> float:
        seconds = float("inf")
        for _ in range(asked.turns):
            if cuda:
                torch.cuda.synchronize()
            began = clock()
            for _ in range(times):
                do()
            if cuda:
                torch.cuda.synchronize()
            seconds = min(seconds, (clock() - began) / times)
        return seconds

    step(state)
    training = fastest(lambda: step(state), asked.steps)
    peak = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(training, fastest(lambda: evaluate(pack, state), 1), peak / 2**20)


def main() -> None:
    """Every encoding in a process of its own, then the table."""
    asked = options()
    if asked.of:
        sys.path.insert(0, str(REPOSITORY))
        measure(asked.of, asked)
        return
    costs: dict[str, list[float]] = {}
    for encoding in ENCODINGS:
        command = [sys.executable, __file__, *sys.argv[1:], "--of", encoding]
        numbers = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        costs[encoding] = training, evaluation, peak = [float(number) for number in numbers]
        print(
            f"{encoding}: {training * 1000:,.0f} ms a step, {evaluation:,.2f} s an evaluation, {peak:,.0f} MiB",
            flush=True,
        )
    print(
        f"\n| encoding | time a step : RoPE, {2 * asked.pairs} tokens, {asked.batch} rows | an evaluation : RoPE "
        "| peak MiB |\n|---|---|---|---|"
    )
    for encoding, (training, evaluation, peak) in costs.items():
        print(f"| {encoding} | {training / costs['rope'][0]:.2f} | {evaluation / costs['rope'][1]:.2f} | {peak:,.0f} |")


if __name__ == "__main__":
    main()
