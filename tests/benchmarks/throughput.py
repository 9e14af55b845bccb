"""Arms of the benchmark run and compared: whole runs of W1, and rates of all arms of W1, W2 and W3."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sweep_arms import collected, command, is_sweep
from workloads import WORKLOADS, Workload, with_seeds

HERE = Path(__file__).resolve().parent
DECIDING = ("B-eager", "B-compiled", "C-reused", "J-vmap", "L-auto", "L-ray")
LONG = ("B-eager", "J-vmap", "L-auto")
_SCRIPTS = ("B-eager", "B-compiled", "C-reused")
ALL = {
    "W1": (*_SCRIPTS, "J-vmap", *(f"{way}-{how}" for way in "DEF" for how in ("eager", "compiled"))),
    "W2": (*_SCRIPTS, "J-vmap", "E-eager", "F-eager", "F-compiled"),
    "W3": (*_SCRIPTS, "E-eager", "E-compiled"),
}
Row = dict[str, Any]


def run_arm(arm: str, name: str, cache: Path, seeds: int | None = None) -> Row:
    """One arm in a fresh process, from its start to its end; adds the largest memory of one process of its tree."""
    storage = Path(tempfile.mkdtemp(prefix="bench-"))
    out = storage / "found.json"
    caches = {"XDG_CACHE_HOME": str(cache), "TORCHINDUCTOR_CACHE_DIR": str(cache / "lengthwise" / "inductor")}
    environment = {**os.environ, **caches, "BENCH_STORAGE": str(storage)}
    if seeds:
        environment["BENCH_SEEDS"] = str(seeds)
    if is_sweep(arm):
        words = command(arm, with_seeds(name, seeds), storage)
        environment["PYTHONPATH"] = str(HERE.parents[1])
    else:
        words = [sys.executable, str(HERE / "arms.py"), arm, name, str(out)]
    with (storage / "log").open("w") as log:
        began = time.time()
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
        largest = 0
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.25)
                break
            largest = max(largest, _largest_process(process.pid))
        wall = time.time() - began
    if process.returncode:
        raise RuntimeError(f"arm {arm} failed:\n{(storage / 'log').read_text()[-3000:]}")
    row: Row = {"members": collected(storage)} if is_sweep(arm) else json.loads(out.read_text())
    row.update(arm=arm, workload=name, wall=wall, began=began, largest=largest, load=os.getloadavg()[0])
    shutil.rmtree(storage)
    return row


def _largest_process(pid: int) -> int:
    """Bytes of the largest process under `pid`, itself included."""
    largest = 0
    try:
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            largest = max(largest, each.memory_info().rss)
    except psutil.Error:
        pass
    return largest


def rate(work: Workload, members: Sequence[Row]) -> float:
    """Member-steps per second of the machine between first and last evaluation: without start-up, compiling and end."""
    steps = work.steps - work.every
    groups: dict[Any, list[Row]] = {}
    for member in members:
        groups.setdefault((member.get("pack", member.get("part")), tuple(member["times"])), []).append(member)
    speeds = [len(group) * steps / (times[-1] - times[0]) for (_, times), group in groups.items()]
    return statistics.median(speeds) * min(2, len(groups))


class Checked:
    """Every member's curves exist, and medians over seeds agree with those of the first arm within its quartiles."""

    def __init__(self) -> None:
        self._first: dict[Any, Any] = {}

    def __call__(self, work: Workload, row: Row) -> None:
        members, arm = row["members"], row["arm"]
        assert len(members) == work.members, f"{arm}: {len(members)} of {work.members} members"
        for average in ("raw", "ema"):
            for c in range(len(work.configurations)):
                curves = np.array([member["curves"][average] for member in members if member["configuration"] == c])
                assert curves.shape == (work.seeds, work.vocabulary - 1) and np.isfinite(curves).all(), arm
                q25, median, q75 = np.percentile(curves, [25, 50, 75], axis=0)
                other = self._first.setdefault((work.name, average, c), (q25, median, q75))
                gap, spread = np.abs(median - other[1]).mean(), max((q75 - q25).mean(), (other[2] - other[0]).mean())
                assert gap <= spread + 0.005, f"{arm} {average} {c}: medians {gap:.4f} apart, quartiles {spread:.4f}"


def whole(rounds: int, arms: Sequence[str], name: str = "W1") -> list[Row]:
    """Whole runs in turns: every arm with empty caches, and lengthwise once more with what it then has."""
    rows, check = list[Row](), Checked()
    for turn in range(rounds):
        for arm in arms:
            with tempfile.TemporaryDirectory(prefix="bench-cache-") as cache:
                for caches in ("empty", "filled") if arm == "L-auto" else ("empty",):
                    row = run_arm(arm, name, Path(cache))
                    check(WORKLOADS[name], row)
                    kept = {key: row[key] for key in ("workload", "arm", "wall", "load")}
                    rows.append({**kept, "round": turn, "caches": caches, **_phases(row)})
                    print(f"{name} round {turn + 1} {arm}, caches {caches}: {row['wall']:.1f} s", flush=True)
    return rows


def _phases(row: Row) -> Row:
    """Seconds from the command to the first evaluation of any member, and from the last one to the prompt."""
    times = [time for member in row["members"] for time in member["times"]]
    return {"first": min(times) - row["began"], "rest": row["began"] + row["wall"] - max(times)}


def steady(arms_of: Mapping[str, Sequence[str]]) -> list[Row]:
    """One round of the arms of each work."""
    rows, check = list[Row](), Checked()
    with tempfile.TemporaryDirectory(prefix="bench-cache-") as cache:
        for name, arms in arms_of.items():
            for arm in arms:
                row = run_arm(arm, name, Path(cache))
                check(WORKLOADS[name], row)
                kept = {key: row[key] for key in ("workload", "arm", "wall", "largest", "load")}
                rows.append({**kept, "rate": rate(WORKLOADS[name], row["members"])})
                print(f"{name} {arm}: {rows[-1]['rate']:.0f} member-steps a second, {row['wall']:.1f} s", flush=True)
    return rows


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Median and range."""
    middle = f"{statistics.median(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def ratios(rows: Sequence[Row], name: str, arm: str, caches: str) -> list[float]:
    """Seconds of the best script of each round over those of an arm."""
    ratios_of_arm = []
    for turn in sorted({row["round"] for row in rows}):
        mine = [r for r in rows if r["round"] == turn and r["workload"] == name]
        best = min((r["wall"] for r in mine if r["arm"].startswith("B-")), default=0.0)
        ratios_of_arm += [best / r["wall"] for r in mine if r["arm"] == arm and r["caches"] == caches]
    return ratios_of_arm


def whole_page(rows: Sequence[Row]) -> str:
    """The table of the whole runs."""
    lines = [
        "| work | arm | caches | command to prompt, s | best script / this | to the first evaluation, s "
        "| from the last, s | load |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, arm, caches in dict.fromkeys((r["workload"], r["arm"], r["caches"]) for r in rows):
        mine = [r for r in rows if (r["workload"], r["arm"], r["caches"]) == (name, arm, caches)]
        lines.append(
            f"| {name} | {arm} | {caches} | {spread([r['wall'] for r in mine])} "
            f"| {spread(ratios(rows, name, arm, caches), 2)} | {spread([r['first'] for r in mine])} "
            f"| {spread([r['rest'] for r in mine])} | {spread([r['load'] for r in mine])} |"
        )
    return "\n".join(lines) + "\n"


def steady_page(rows: Sequence[Row]) -> str:
    """The table of rates."""
    lines = [
        "| work | arm | member-steps a second | over the best script | whole run, s | largest process, MiB | load |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        best = max(r["rate"] for r in rows if r["workload"] == row["workload"] and r["arm"].startswith("B-"))
        lines.append(
            f"| {row['workload']} | {row['arm']} | {row['rate']:,.0f} | {row['rate'] / best:.2f} | {row['wall']:.1f} "
            f"| {row['largest'] / 2**20:.0f} | {row['load']:.1f} |"
        )
    return "\n".join(lines) + "\n"
