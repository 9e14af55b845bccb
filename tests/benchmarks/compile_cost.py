"""What compiling the step of W1 costs, and what it gains: seconds of wall and of CPU, member-steps a CPU-second.

    python tests/benchmarks/compile_cost.py

Three processes, one thread each: uncompiled, compiled with an empty cache, compiled with the cache of the second. Each
trains packs of 32 and of 16 members in turn.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SIZES, STEPS, TURNS = (32, 16), 60, 5


def spent() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(compiled: bool) -> None:
    """Print the first step and the rate of each size, in this process."""
    import torch

    from tests.benchmarks.workloads import W1
    from tests.trainers.runs import make_stepper
    from trainers.config.member import MemberConfig
    from trainers.packs.pack import Pack
    from trainers.packs.training_state import TrainingState

    torch.set_num_threads(1)
    for size in SIZES:
        settings = [{**W1.member(number % 4, "table", compiled), "seed": number // 4} for number in range(size)]
        pack = Pack([MemberConfig.from_dict(member) for member in settings], torch.device("cpu"))
        state = TrainingState.make_initial(pack)
        wall, cpu = time.monotonic(), spent()
        step = make_stepper(pack)
        step(state)
        wall, cpu = time.monotonic() - wall, spent() - cpu
        rates = []
        for _ in range(TURNS):
            began = time.process_time()
            for _ in range(STEPS):
                step(state)
            rates.append(STEPS * size / (time.process_time() - began))
        print(
            f"  {size} members: first step {wall:.1f} s, {cpu:.1f} of CPU; then {max(rates):,.0f} member-steps a CPU-s"
        )


def main() -> None:
    """Run the three processes in turn."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TORCHINDUCTOR_CACHE_DIR": cache}
        for name, compiled in (("uncompiled", ""), ("compiled, empty cache", "1"), ("compiled, cached", "1")):
            print(name, flush=True)
            subprocess.run([sys.executable, __file__, "--here", compiled], check=True, env=environment)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        measure(bool(sys.argv[2]))
    else:
        main()
