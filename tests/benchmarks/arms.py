"""One arm of the benchmark that is no sweep of lengthwise: `python arms.py ARM WORKLOAD OUT.json`.

B-eager, B-compiled   two sequential scripts side by side, each with half of the members
C-fresh, C-reused     plain Ray Tune, one trial for each seed, actors not reused and reused
J-vmap                two JAX scripts side by side, members vmapped, steps scanned; BENCH_JAX names a Python with jax
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads import Workload, workload

HERE = Path(__file__).parent


def side_by_side(work: Workload, python: str, script: str, *options: str) -> list[dict[str, Any]]:
    """Two scripts, each with half of the members."""
    outs = [Path(os.environ["BENCH_STORAGE"]) / f"part{part}.json" for part in range(2)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [python, str(HERE / script), work.name, str(out), "--part", f"{part}/2", *options], env=environment
        )
        for part, out in enumerate(outs)
    ]
    ended = [process.wait() for process in running]
    if any(ended):
        raise RuntimeError(f"{script} failed")
    return [{"part": part, **member} for part, out in enumerate(outs) for member in json.loads(out.read_text())]


def plain_tune(work: Workload, reuse: bool) -> list[dict[str, Any]]:
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    import ray
    import torch
    from ray import tune

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    folder = str(HERE)

    def train_member(config: dict[str, Any]) -> None:
        sys.path.insert(0, folder)
        torch.set_num_threads(1)
        from baseline import Trainer

        tune.report({"found": json.dumps(Trainer(work, False).train(config["configuration"], config["seed"]))})

    space = {
        "configuration": tune.grid_search(list(range(len(work.configurations)))),
        "seed": tune.grid_search(list(range(work.seeds))),
    }
    results = tune.Tuner(
        tune.with_resources(train_member, {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(reuse_actors=reuse),
        run_config=tune.RunConfig(verbose=0, storage_path=os.environ["BENCH_STORAGE"]),
    ).fit()
    return [json.loads(result.metrics["found"]) for result in results]


JAX = os.environ.get("BENCH_JAX", sys.executable)
ARMS: dict[str, Callable[[Workload], list[dict[str, Any]]]] = {
    "B-eager": lambda work: side_by_side(work, sys.executable, "baseline.py"),
    "B-compiled": lambda work: side_by_side(work, sys.executable, "baseline.py", "--compiled"),
    "C-fresh": lambda work: plain_tune(work, False),
    "C-reused": lambda work: plain_tune(work, True),
    "J-vmap": lambda work: side_by_side(work, JAX, "vmap_jax.py"),
}


def main() -> None:
    """Run one arm and write what it found."""
    arm, name, out = sys.argv[1:4]
    Path(out).write_text(json.dumps({"members": ARMS[arm](workload(name))}))


if __name__ == "__main__":
    main()
