"""What a sweep of a program costs besides the program: thousands of members, each a pack of its own.

The driver records what made-up workers report, eight packs at a time. Then the ledger is replayed, and `status` and
`report` read it. Prints CPU-seconds, those of child processes included, because other work on the machine changes them
less than the time that passes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

WORKERS = 8


def measured(configurations: int, seeds: int, evaluations: int, budget: bool) -> dict[str, Any]:
    """Return the CPU-seconds and the peak memory of every verb, on one sweep of this size."""
    measurements: dict[str, Any] = {}
    sizes = [str(configurations), str(seeds), str(evaluations), *(["--budget"] if budget else [])]
    with tempfile.TemporaryDirectory(prefix="bench-") as storage:
        for verb in ("run", "replay", "status", "report"):
            words = [sys.executable, str(Path(__file__).resolve()), *sizes, "--verb", verb, "--storage", storage]
            output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            measurements[verb] = json.loads(output.splitlines()[-1])
            print(
                f"{verb:8} {measurements[verb]['cpu']:6.1f} CPU-s {measurements[verb]['peak'] / 2**20:6.0f} MiB",
                flush=True,
            )
        measurements["ledger"] = (Path(storage) / "many" / "events.jsonl").stat().st_size
        print(f"ledger   {measurements['ledger'] / 2**20:6.1f} MiB", flush=True)
    return measurements


def _spec(configurations: int, seeds: int, evaluations: int, budget: bool) -> dict[str, Any]:
    return {
        "name": "many",
        "study": "bench",
        "program": {"function": "math.sqrt"},
        "config": {"width": 64},
        "training": {"steps": 100 * evaluations},
        "evaluation": {
            "every": 100,
            "lengths": [5, 10, 20, 40],
            "trained_lengths": [5, 10],
            "metrics": {"exact_match": "maximize"},
        },
        "space": {"config.lr": {"log_uniform": [1e-4, 1e-1]}, "config.depth": {"choice": [1, 2, 4]}},
        "search": {"configurations": configurations},
        "seeds": seeds,
        "objective": {"metric": "exact_match", "lengths": [20, 40]},
        "tracking": {"enabled": False},
        **({"budget": {"hours": 1e6, "member_steps": 1e12}} if budget else {}),
    }


def _run(storage: Path, sizes: tuple[int, int, int], budget: bool) -> None:
    """Drive a sweep as a scheduler does, without fsync: what the disk takes is not measured."""
    import os

    from orchestrator.code.provenance import read_provenance
    from orchestrator.plan.packing.packs import Cluster, Packer
    from orchestrator.record.ledger.ledger import Ledger
    from orchestrator.record.ledger.records import INLINE_SCHEMA
    from orchestrator.record.state.state import SweepState
    from orchestrator.running.driving.driver import SweepDriver
    from orchestrator.sweep.specification import write_spec
    from search_spaces import dump_yaml, parse_sweep
    from trainers.evaluation.results import Evaluation

    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    spec = parse_sweep(dump_yaml(_spec(*sizes, budget)), "the benchmark")
    first = {"name": spec.name, "study": spec.study, "spec": spec.resolved(), "spec_hash": spec.spec_hash}
    first |= {"provenance": read_provenance(), "schema": INLINE_SCHEMA}
    steps, generator = 100 * sizes[2], np.random.default_rng(0)
    with Ledger.create(storage / spec.name, first) as ledger:
        write_spec(spec.resolved(), ledger.folder)
        cluster = Cluster(workers=WORKERS, bytes_per_worker=1e9, description="made up")
        state = SweepState.load(ledger.folder)
        driver = SweepDriver(spec, ledger, state, packer=Packer(spec, cluster), workers=WORKERS)
        running: deque[tuple[str, int]] = deque()
        while not driver.has_ended() or running:
            while len(running) < WORKERS and (pack := driver.take_next_pack()) is not None:
                driver.on_hand_out(pack[0])
                running.append((pack[0], 0))
            pack_id, step = running.popleft()
            step += 100
            evaluation = Evaluation(
                step=step,
                final=step == steps,
                averages=("raw",),
                metrics=("exact_match",),
                lengths=(5, 10, 20, 40),
                values_MAKL=generator.random((1, 1, 1, 4), dtype=np.float32),
                loss_M=np.ones(1),
                failed_at_M=np.full(1, -1),
                seconds=step / 100,
                form="program",
                compiled=False,
            )
            driver.on_evaluation(pack_id, evaluation.to_bytes())
            if step == steps:
                driver.on_complete(pack_id)
            else:
                running.append((pack_id, step))
        ledger.append("end", status="complete", message="")


def _verb(verb: str, storage: Path, sizes: tuple[int, int, int], budget: bool) -> None:
    """Do one of the verbs in this process; print its CPU-seconds and its peak memory."""
    if verb == "run":
        _run(storage, sizes, budget)
    elif verb == "replay":
        from orchestrator.record.state.state import SweepState

        before = _cpu_seconds()
        SweepState.load(storage / "many")
        return _print(before)
    else:
        from orchestrator.cli.main import main

        sys.argv = ["lengthwise", verb, str(storage / "many")]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
    _print(0.0)
    return None


def _print(before: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu": _cpu_seconds() - before, "peak": peak}))


def _cpu_seconds() -> float:
    """Return the CPU-seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configurations", type=int, nargs="?", default=400)
    parser.add_argument("seeds", type=int, nargs="?", default=5)
    parser.add_argument("evaluations", type=int, nargs="?", default=20)
    parser.add_argument("--budget", action="store_true", help="limit hours and member-steps, far beyond what is used")
    parser.add_argument("--verb", choices=("run", "replay", "status", "report"))
    parser.add_argument("--storage", type=Path)
    given = parser.parse_args()
    sizes = (given.configurations, given.seeds, given.evaluations)
    if given.verb:
        _verb(given.verb, given.storage, sizes, given.budget)
    else:
        measured(*sizes, given.budget)
