"""What a member of a program costs above its bare process, and a bash loop beside `lengthwise run`.

    python tests/benchmarks/program_price.py
    python tests/benchmarks/program_price.py --members 40 --rounds 3 --parts local ray loop

A price is the median time from the report of one member to that of the next, one member at a time, less the time of
the same script in a bare loop. Arms take turns. Every figure is the median of the rounds, with its range.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "search_spaces" / "examples" / "programs"
SCRIPT = 'echo "{\\"step\\": 1, \\"curves\\": {\\"error\\": 0.$1}}" >>"$LENGTHWISE_REPORTS"\n'
SWEEP = """
name: price
study: programs
program: bash report.sh ${seed}
training: {steps: 1}
evaluation: {metrics: {error: minimize}}
space: {config.lr: {grid: [1]}}
search: {sampler: grid}
objective: {metric: error, lengths: [1]}
tracking: {enabled: false}
"""
LOOP = """
for lr in 0.001 0.01; do for seed in 0 1; do
  mkdir $lr-$seed && (cd $lr-$seed && python $PROGRAMS/pytorch.py --lr=$lr --seed=$seed --steps=200)
done; done
"""
LENGTHWISE = [sys.executable, "-m", "orchestrator"]


def wall(words: list[str], folder: Path, **environment: str) -> float:
    """Return the seconds from a command to its end. Raises CalledProcessError."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    python_path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PATH": path, "PYTHONPATH": python_path, **environment}
    began = time.perf_counter()
    subprocess.run(words, cwd=folder, env=variables, check=True, capture_output=True)
    return time.perf_counter() - began


def sweep(file: Path, *settings: str) -> tuple[float, list[float]]:
    """Return the wall time of a sweep, report included, and the times at which its evaluations were recorded."""
    words = [word for setting in settings for word in ("--set", setting)]
    with tempfile.TemporaryDirectory(prefix="bench-") as storage:
        seconds = wall([*LENGTHWISE, "run", str(file), "--storage", storage, *words], Path(storage))
        records = map(json.loads, (Path(storage) / file.stem / "events.jsonl").read_text().splitlines())
        return seconds, [record["time"] for record in records if record["kind"] == "evaluation"]


def loop() -> float:
    """Return the wall time of a loop over a training script, each in a folder of its own, since it resumes.

    It has one thread, as a member has in a sweep.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return wall(["bash", "-ec", LOOP], Path(folder), PROGRAMS=str(PROGRAMS), OMP_NUM_THREADS="1")


def bare(folder: Path, members: int) -> float:
    """Return the seconds of a process of the script, by itself."""
    loop = f"for seed in $(seq {members}); do bash report.sh $seed; done"
    return wall(["bash", "-c", loop], folder, LENGTHWISE_REPORTS=str(folder / "reports")) / members


def price(folder: Path, scheduler: str, members: int) -> float:
    """Return the seconds of one more member of a sweep."""
    settings = (f"seeds={members + 1}", f"resources.scheduler={scheduler}", "resources.workers=1")
    times = sweep(folder / "price.yaml", *settings)[1]
    return median(after - before for before, after in pairwise(times))


def main() -> None:
    """Measure in turns, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", default=["local", "ray", "loop"], choices=["local", "ray", "loop"])
    args = parser.parse_args()
    schedulers = [part for part in args.parts if part != "loop"]
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "report.sh").write_text(SCRIPT)
        (folder / "price.yaml").write_text(SWEEP)
        for _ in range(args.rounds):
            if schedulers:
                rows.setdefault("bare process", []).append(bare(folder, args.members))
            for scheduler in schedulers:
                rows.setdefault(scheduler, []).append(price(folder, scheduler, args.members))
            if "loop" in args.parts:
                rows.setdefault("bash loop", []).append(loop())
                rows.setdefault("lengthwise run", []).append(sweep(PROGRAMS / "pytorch.yaml")[0])
            last = ", ".join(f"{row} {values[-1]:.3f}" for row, values in rows.items())
            print(f"load {os.getloadavg()[0]:.1f}: {last}", file=sys.stderr, flush=True)

    print("| | s | above the bare process, s |\n|---|---|---|")
    for row, values in rows.items():
        above = f"{median(values) - median(rows['bare process']):.3f}" if row in schedulers else ""
        print(f"| {row} | {median(values):.3f} ({min(values):.3f} to {max(values):.3f}) | {above} |")


if __name__ == "__main__":
    main()
