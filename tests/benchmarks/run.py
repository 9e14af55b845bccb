"""The benchmark: every arm does the same work, medians and ranges printed. `make bench` runs it.

    python tests/benchmarks/run.py [--rounds 3] [--parts whole,steady,overhead] [--jax PYTHON] [--out FOLDER]

whole     W1 from the command to the prompt, by the arms that decide, in turns over the rounds
steady    one round of all arms of W1, W2 and W3
overhead  one round: what a member, a seed and a configuration cost besides training

results.json and results.md are written to FOLDER after each part. Quote ratios: machines are noisy. `--jax` names a
Python that has jax; without one the arms of JAX are left out, and the tables say so.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import overhead  # noqa: E402
import throughput  # noqa: E402


def there(arms: Sequence[str], jax: str | None) -> list[str]:
    """The arms that can run."""
    return [arm for arm in arms if jax or arm != "J-vmap"]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of the arms that decide")
    parser.add_argument("--parts", default="whole,steady,overhead")
    parser.add_argument("--long", action="store_true", help="whole runs of W1 with 5,000 steps, too; one round")
    parser.add_argument("--jax", metavar="PYTHON", help="a Python that has jax")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), metavar="FOLDER")
    asked = parser.parse_args()
    parts = asked.parts.split(",")
    if unknown := [part for part in parts if part not in ("whole", "steady", "overhead")]:
        parser.error(f"--parts {','.join(unknown)}: allowed: whole, steady, overhead")
    if asked.jax:
        os.environ["BENCH_JAX"] = asked.jax
    asked.out.mkdir(parents=True, exist_ok=True)
    machine = {"platform": platform.platform(), "cores": os.cpu_count(), "jax": bool(asked.jax)}
    results: dict[str, Any] = {"machine": machine}
    pages: list[str] = []
    for part in parts:
        if part == "whole":
            results[part] = throughput.whole(asked.rounds, there(throughput.DECIDING, asked.jax))
            if asked.long:
                results[part] += throughput.whole(1, there(throughput.LONG, asked.jax), "W1_LONG")
            pages.append(throughput.whole_page(results[part]))
        elif part == "steady":
            results[part] = throughput.steady({name: there(arms, asked.jax) for name, arms in throughput.ALL.items()})
            pages.append(throughput.steady_page(results[part]))
        else:
            results[part] = overhead.measured()
            pages.append(overhead.page(results[part]))
        (asked.out / "results.json").write_text(json.dumps(results, indent=1))
        (asked.out / "results.md").write_text("\n".join(pages))
        print(pages[-1], flush=True)


if __name__ == "__main__":
    main()
