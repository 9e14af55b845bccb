"""One arm of the benchmark in a process of its own: `python arms.py ARM WORKLOAD OUT.json`.

A-eager, A-compiled   a sequential script over configurations and seeds
C-fresh, C-reused     plain Ray Tune, one trial for each seed, actors not reused and reused
D-*, E-*, F-*         lengthwise: seeds stacked; seeds and configurations stacked; as E in vocabulary-table form;
                      each eager and compiled
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workloads
from workloads import Workload

STARTED = time.time()


def sequential(work: Workload, compiled: bool) -> list[dict[str, Any]]:
    from baseline import Trainer

    trainer = Trainer(work, compiled)
    return [trainer.train(c, seed) for c in range(len(work.configurations)) for seed in range(work.seeds)]


def plain_tune(work: Workload, reuse: bool) -> list[dict[str, Any]]:
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    import ray
    import torch
    from ray import tune

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    folder = str(Path(__file__).parent)

    def one(config: dict[str, Any]) -> None:
        sys.path.insert(0, folder)
        torch.set_num_threads(1)
        from baseline import Trainer

        tune.report({"found": json.dumps(Trainer(work, False).train(config["configuration"], config["seed"]))})

    space = {
        "configuration": tune.grid_search(list(range(len(work.configurations)))),
        "seed": tune.grid_search(list(range(work.seeds))),
    }
    results = tune.Tuner(
        tune.with_resources(one, {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(reuse_actors=reuse),
        run_config=tune.RunConfig(verbose=0, storage_path=os.environ["BENCH_STORAGE"]),
    ).fit()
    return [json.loads(result.metrics["found"]) for result in results]


def ours(work: Workload, form: str, compiled: bool, pack: int | str) -> list[dict[str, Any]]:
    import yaml

    storage = Path(os.environ["BENCH_STORAGE"])
    file = storage / "bench.yaml"
    file.write_text(yaml.safe_dump(work.sweep(form, compiled, pack), sort_keys=False))
    from orchestrator.cli import main

    sys.argv = ["lengthwise", "run", str(file), "--storage", str(storage)]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    return collected(storage / "bench")


def collected(folder: Path) -> list[dict[str, Any]]:
    """Final curves of every member and the times of its pack's evaluations, from the sweep's own records."""
    from orchestrator.record.curves import read_curves
    from orchestrator.record.records import read_records
    from orchestrator.record.state import SweepState

    state = SweepState.load(folder)
    frame = read_curves(state, final_only=True)
    frame = frame[frame.metric == "total_variation"].sort_values("length")
    records = [record for record in read_records(folder) if record.kind == "evaluation"]
    found = []
    for configuration in state.configurations.values():
        for seed, member in configuration.members.items():
            mine = frame[(frame.config_id == configuration.config_id) & (frame.seed == seed)]
            curves = {str(a): group.value.tolist() for a, group in mine.groupby("average", observed=True)}
            evaluations = sorted(
                (r.fields["step"], r.fields["seconds"]) for r in records if r.fields["pack_id"] == member.pack_id
            )
            times = [seconds for _, seconds in evaluations]
            found.append(
                {
                    "configuration": configuration.number,
                    "seed": seed,
                    "curves": curves,
                    "times": times,
                    "pack": member.pack_id,
                }
            )
    return found


ARMS: dict[str, Callable[[Workload], list[dict[str, Any]]]] = {
    "A-eager": lambda work: sequential(work, False),
    "A-compiled": lambda work: sequential(work, True),
    "C-fresh": lambda work: plain_tune(work, False),
    "C-reused": lambda work: plain_tune(work, True),
    "D-eager": lambda work: ours(work, "plain", False, work.seeds),
    "D-compiled": lambda work: ours(work, "plain", True, work.seeds),
    "E-eager": lambda work: ours(work, "plain", False, "auto"),
    "E-compiled": lambda work: ours(work, "plain", True, "auto"),
    "F-eager": lambda work: ours(work, "table", False, "auto"),
    "F-compiled": lambda work: ours(work, "table", True, "auto"),
}


def main() -> None:
    """Run one arm and write what it found, its wall time from the start of the process, and its own peak memory."""
    import dataclasses
    import resource

    arm, name, out = sys.argv[1:4]
    work: Workload = getattr(workloads, name)
    if seeds := os.environ.get("BENCH_SEEDS"):
        work = dataclasses.replace(work, seeds=int(seeds))
    found = ARMS[arm](work)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    Path(out).write_text(json.dumps({"members": found, "wall": time.time() - STARTED, "peak": peak}))


if __name__ == "__main__":
    main()
