"""What a sweep costs besides training: for a member more, a seed more, and with 10,000 configurations."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from throughput import run_arm
from workloads import W1, W4_SEEDS

HERE = Path(__file__).resolve().parent
SEEDS = (1, 8, 64)
CONFIGURATIONS = (1_000, 10_000)


def measured() -> dict[str, Any]:
    """Every figure, once."""
    results: dict[str, Any] = {"members": {}, "seeds": {}, "configurations": []}
    with tempfile.TemporaryDirectory(prefix="bench-cache-") as folder:
        cache = Path(folder)
        for arm, sizes in {"L-auto": W4_SEEDS, "L-ray": W4_SEEDS, "C-reused": (4, 24), "C-fresh": (4, 24)}.items():
            few, many = (run_arm(arm, "W4", cache, seeds=size)["wall"] for size in sizes)
            results["members"][arm] = {"each": (many - few) / (sizes[1] - sizes[0]), "few": sizes[0], "wall": few}
            print(f"W4 {arm}: {results['members'][arm]}", flush=True)
        for arm in ("B-eager", "L-auto"):
            walls = [run_arm(arm, "W1_ONE", cache, seeds=seeds)["wall"] for seeds in SEEDS]
            b, a = np.polyfit(SEEDS, walls, 1)
            results["seeds"][arm] = {"walls": dict(zip(map(str, SEEDS), walls, strict=True)), "a": a, "b": b}
            print(f"seeds {arm}: {results['seeds'][arm]}", flush=True)
    for count in CONFIGURATIONS:
        results["configurations"].append(_many(count))
        print(results["configurations"][-1], flush=True)
    return results


def _many(count: int) -> dict[str, Any]:
    """A sweep of so many configurations whose packs are not trained, then its report and a resume of half of it."""
    row: dict[str, Any] = {"configurations": count}
    with tempfile.TemporaryDirectory(prefix="bench-") as storage:
        for verb in ("run", "report", "resume"):
            done = subprocess.run(
                [sys.executable, str(HERE / "overhead.py"), verb, storage, str(count)], check=True, capture_output=True
            )
            row[verb] = json.loads(done.stdout.splitlines()[-1])
    return row


def page(results: Mapping[str, Any]) -> str:
    """The tables."""
    lines = ["| a sweep of one step | seconds | ms for one more member |", "|---|---|---|"]
    for arm, times in results["members"].items():
        lines.append(f"| {arm}, {times['few']} members | {times['wall']:.1f} | {1e3 * times['each']:.1f} |")
    lines += ["", f"| one configuration of W1 | {' | '.join(f'{s} seeds, s' for s in SEEDS)} | a, s | b, s |"]
    lines += ["|---|" + "---|" * (len(SEEDS) + 2)]
    for arm, times in results["seeds"].items():
        walls = " | ".join(f"{wall:.1f}" for wall in times["walls"].values())
        lines.append(f"| {arm} | {walls} | {times['a']:.2f} | {times['b']:.3f} |")
    lines += ["", "| configurations, not trained | verb | seconds | ms each | memory, MiB |", "|---|---|---|---|---|"]
    for row in results["configurations"]:
        for verb in ("run", "report", "resume"):
            seconds, peak = row[verb]["seconds"], row[verb]["peak"]
            each = 1e3 * seconds / row["configurations"]
            lines.append(f"| {row['configurations']:,} | {verb} | {seconds:.1f} | {each:.2f} | {peak / 2**20:.0f} |")
    return "\n".join(lines) + "\n"


def _untrained(work: Any, reporter: Any) -> None:
    """What a worker would report of a pack, without training it: numbers drawn by the names of its members."""
    from trainers.config.recorded_members import build_recorded_member
    from trainers.evaluation.results import Evaluation

    member = build_recorded_member(work.members[0], work.member_ids[0][1])
    count, metrics, labels = len(work.member_ids), tuple(member.metrics), tuple(member.training.averages)
    shape = (count, len(labels), len(metrics), len(member.evaluated_lengths))
    values = np.random.default_rng(count).random(shape, dtype=np.float32)
    reporter.report(
        Evaluation(
            step=member.training.steps,
            final=True,
            averages=labels,
            metrics=metrics,
            lengths=member.evaluated_lengths,
            values_MAKL=values,
            loss_M=np.ones(count),
            failed_at_M=np.full(count, -1),
            seconds=1.0,
            form="plain",
            compiled=False,
            weights=(),
        )
    )


def _verb(verb: str, storage: Path, count: int) -> None:
    """One command on a sweep of `count` configurations; prints its seconds and its peak memory."""
    import yaml

    from orchestrator.cli.main import main
    from orchestrator.running.schedulers import inline

    inline.train_pack = _untrained  # type: ignore[assignment]
    if verb == "run":
        sections = W1.sweep("auto", False, "inline", "auto")
        sections["training"]["averages"]["ema"]["decay"] = 0.9
        sections["space"] = {"training.learning_rate": {"log_uniform": [1e-4, 1e-1]}}
        sections["search"] = {"sampler": "random", "configurations": count, "seed": 0}
        sections |= {"seeds": 2, "tracking": {"enabled": False}}
        sections["evaluation"] = {"every": None, "samples": 10, "lengths": [5, 6, 7, 8]}
        (storage / "many.yaml").write_text(yaml.safe_dump(sections, sort_keys=False))
        words = ["run", str(storage / "many.yaml"), "--storage", str(storage)]
    else:
        folder = storage / "bench"
        if verb == "resume":
            lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
            (folder / "events.jsonl").write_bytes(b"".join(lines[: len(lines) // 2]))
        words = [verb, str(folder)]
    began = time.monotonic()
    sys.argv = ["lengthwise", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": time.monotonic() - began, "peak": peak}))


if __name__ == "__main__":
    _verb(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
