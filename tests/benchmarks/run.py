"""The benchmark: every arm does the same work, arms interleaved over rounds, medians and ranges printed.

    python tests/benchmarks/run.py [--rounds 3] [--workloads W1,W4] [--arms A-eager,F-compiled]

Figures go to bench-results/<time>.json as well. Quote ratios: the machine is noisy.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parent))
import workloads
from arms import ARMS

HERE = Path(__file__).parent
SINGLE = ("A-eager", "A-compiled")  # arms that run one member at a time in this process


def run_arm(arm: str, name: str, cache: Path, seeds: int | None = None) -> dict[str, Any]:
    """One arm in a fresh process; adds the largest memory of its process tree, sampled ten times a second."""
    storage = Path(tempfile.mkdtemp(prefix="bench-"))
    out = storage / "found.json"
    environment = {**os.environ, "BENCH_STORAGE": str(storage), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    if seeds:
        environment["BENCH_SEEDS"] = str(seeds)
    with (storage / "log").open("w") as log:
        began = time.time()
        process = subprocess.Popen(
            [sys.executable, str(HERE / "arms.py"), arm, name, str(out)], env=environment, stdout=log, stderr=log
        )
        worker_peak = 0
        while process.poll() is None:
            worker_peak = max(worker_peak, largest_child(process.pid))
            time.sleep(0.1)
    if process.returncode:
        raise RuntimeError(f"arm {arm} failed:\n{(storage / 'log').read_text()[-3000:]}")
    found: dict[str, Any] = json.loads(out.read_text())
    found.update(wall=time.time() - began, worker_peak=worker_peak, load=os.getloadavg()[0])
    shutil.rmtree(storage)
    return found


def largest_child(pid: int) -> int:
    """Memory of the largest training process under `pid`: a Ray worker, else the process itself."""
    largest = 0
    try:
        for child in psutil.Process(pid).children(recursive=True):
            if child.name().startswith("ray::"):
                largest = max(largest, child.memory_info().rss)
        return largest or psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return largest


def steady(arm: str, work: workloads.Workload, members: list[dict[str, Any]]) -> float:
    """Member-steps per second of the whole machine between first and last evaluation, without start-up or compiling."""
    steps = work.steps - work.every
    if "pack" not in members[0]:
        speeds = [steps / (one["times"][-1] - one["times"][0]) for one in members]
        return statistics.median(speeds) * (1 if arm in SINGLE else 2)
    packs: dict[str, list[dict[str, Any]]] = {}
    for one in members:
        packs.setdefault(one["pack"], []).append(one)
    speeds = [len(group) * steps / (group[0]["times"][-1] - group[0]["times"][0]) for group in packs.values()]
    return statistics.median(speeds) * min(2, len(packs))


def same_work(work: workloads.Workload, arm: str, members: list[dict[str, Any]], reference: dict[Any, Any]) -> None:
    """Every member's curves exist, and the medians over seeds agree with the reference arm's within its quartiles."""
    assert len(members) == work.members, f"{arm}: {len(members)} of {work.members} members"
    for average in ("raw", "ema"):
        for c in range(len(work.configurations)):
            curves = np.array([one["curves"][average] for one in members if one["configuration"] == c])
            assert curves.shape == (work.seeds, work.vocabulary - 1) and np.isfinite(curves).all(), arm
            q25, median, q75 = np.percentile(curves, [25, 50, 75], axis=0)
            if (average, c) in reference:
                other = reference[average, c]
                gap, spread = np.abs(median - other[1]).mean(), max((q75 - q25).mean(), (other[2] - other[0]).mean())
                assert gap <= spread + 0.005, (
                    f"{arm} {average} {c}: medians differ by {gap:.4f}, quartiles by {spread:.4f}"
                )
            else:
                reference[average, c] = (q25, median, q75)


def throughput(name: str, arms: list[str], rounds: int, cache: Path) -> list[dict[str, Any]]:
    work: workloads.Workload = getattr(workloads, name)
    reference: dict[Any, Any] = {}
    rows = []
    for turn in range(rounds):
        for arm in arms:
            found = run_arm(arm, name, cache)
            same_work(work, arm, found["members"], reference)
            rows.append(
                {
                    "workload": name,
                    "arm": arm,
                    "round": turn,
                    "wall": found["wall"],
                    "steady": steady(arm, work, found["members"]),
                    "with_start": work.members * work.steps / found["wall"],
                    "driver_peak": found["peak"],
                    "worker_peak": found["worker_peak"],
                    "load": found["load"],
                }
            )
            print(
                f"{name} round {turn + 1} {arm}: {rows[-1]['wall']:.1f} s, {rows[-1]['steady']:.0f} steady", flush=True
            )
    return rows


def overhead(rounds: int, cache: Path) -> list[dict[str, Any]]:
    """W4: sweeps of one step, few and many members; the slope is what one more member costs."""
    rows = []
    for turn in range(rounds):
        for arm in ("F-eager", "C-reused", "C-fresh"):
            sizes = workloads.W4_SEEDS if arm == "F-eager" else (4, 24)
            found = {size: run_arm(arm, "W4", cache, seeds=size) for size in sizes}
            few, many = sizes
            rows.append(
                {
                    "workload": "W4",
                    "arm": arm,
                    "round": turn,
                    "per_member": (found[many]["wall"] - found[few]["wall"]) / (many - few),
                    "wall": found[few]["wall"],
                    "driver_few": found[few]["peak"],
                    "driver_many": found[many]["peak"],
                    "load": found[many]["load"],
                }
            )
            print(f"W4 round {turn + 1} {arm}: {1e3 * rows[-1]['per_member']:.1f} ms a member", flush=True)
    return rows


def spread(values: list[float], digits: int = 0) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def table(rows: list[dict[str, Any]]) -> None:
    """Markdown tables of medians and ranges over rounds."""
    for name in dict.fromkeys(row["workload"] for row in rows if row["workload"] != "W4"):
        mine = [row for row in rows if row["workload"] == name]
        arms = list(dict.fromkeys(row["arm"] for row in mine))

        def of(arm: str, key: str, mine: list[dict[str, Any]] = mine) -> list[float]:
            return [row[key] for row in mine if row["arm"] == arm]

        def ratio(arm: str, base: str, arms: list[str] = arms) -> str:
            pairs = [a / b for a, b in zip(of(arm, "steady"), of(base, "steady"), strict=True)] if base in arms else []
            return spread(pairs, 1) if pairs else "-"

        print(f"\n{name}: member-steps per second, median (range) over rounds\n")
        print(
            "| arm | steady | over A-eager | over A-compiled | with start-up | first run s | later runs s "
            "| worker MiB | driver MiB |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for arm in arms:
            walls = of(arm, "wall")
            memory = [statistics.median(of(arm, key)) / 2**20 for key in ("worker_peak", "driver_peak")]
            print(
                f"| {arm} | {spread(of(arm, 'steady'))} | {ratio(arm, 'A-eager')} | {ratio(arm, 'A-compiled')} "
                f"| {spread(of(arm, 'with_start'))} | {walls[0]:.1f} | {spread(walls[1:], 1) if walls[1:] else '-'} "
                f"| {memory[0]:.0f} | {memory[1]:.0f} |"
            )
    if small := [row for row in rows if row["workload"] == "W4"]:
        print("\nW4: sweeps of one step; what one more member costs\n")
        print("| arm | ms per member | driver MiB, few members | driver MiB, many members |")
        print("|---|---|---|---|")
        for arm in dict.fromkeys(row["arm"] for row in small):
            mine = [row for row in small if row["arm"] == arm]
            few, many = (statistics.median(row[key] for row in mine) / 2**20 for key in ("driver_few", "driver_many"))
            print(f"| {arm} | {spread([1e3 * row['per_member'] for row in mine], 1)} | {few:.0f} | {many:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", default="W1,W4")
    parser.add_argument("--arms", default=",".join(ARMS))
    options = parser.parse_args()
    cache = Path(tempfile.mkdtemp(prefix="bench-cache-"))  # empty: the first round compiles cold
    rows = []
    for name in options.workloads.split(","):
        rows += (
            overhead(options.rounds, cache)
            if name == "W4"
            else throughput(name, options.arms.split(","), options.rounds, cache)
        )
    shutil.rmtree(cache)
    table(rows)
    folder = Path("bench-results")
    folder.mkdir(exist_ok=True)
    machine = {"platform": platform.platform(), "processor": platform.processor(), "cores": os.cpu_count()}
    path = folder / time.strftime("%Y%m%dT%H%M%S.json")
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))
    print(f"\n{path}")


if __name__ == "__main__":
    main()
