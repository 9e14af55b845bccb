"""Write the sweeps under 1.0.0/: run, killed and resumed by the code of that version, to be read by every later one.

Run it from a checkout of the version whose sweeps are to be kept:

    python tests/sweeps/write.py tests/sweeps/1.0.0 [NAME ...]

It takes five to ten minutes on two cores. The sweeps named `interrupted_...` and `tpe...` are killed (SIGKILL) when
their ledger has come to the wanted state.

Everything is as the code wrote it, apart from this: the process is told a neutral name of machine and platform before
it begins, since both go into the ledger. Figures, tables, the report, lock and owner files are left out.
`interrupted_weights` has one file more than was written: the copy of a kept-weights file under another checksum, as an
attempt on another processor would leave.

Beside the folder of a sweep: NAME.summary.json, what the code made of a finished one; NAME.resumed.json and
NAME.resumed.parquet, configurations and curves of an interrupted one after it was resumed to its end.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from orchestrator.record.state.state import SweepState
from orchestrator.results.summarise import summary

SHIPPED = ("sweep.yaml", "events.jsonl", "curves.parquet", "curves", "checkpoints", "weights")
NEUTRAL = (
    "import platform, runpy, socket; "
    "socket.gethostname = lambda: 'somewhere'; platform.platform = lambda *_: 'Linux'; "
    "runpy.run_module('orchestrator', run_name='__main__')"
)
ATTEMPTS = 8

BASE = """name: {name}
study: tests
task: {{name: set_complement, vocabulary: 6, train_length: 3}}
model: {{name: attention_only, width: 8, dropout: 0.1}}
training:
  steps: {steps}
  batch_size: 8
  learning_rate: 0.003
  compile: {compile}
  averages: {{raw: {{}}, ema: {{decay: 0.9}}}}
evaluation: {{every: {every}, samples: 10}}
objective: {{metric: total_variation, average: ema, lengths: [4], direction: minimize, threshold: 0.5}}
tracking: {{enabled: false}}
"""


def based(name: str, rest: str, *, steps: int = 60, every: int = 20, compiled: bool = False) -> str:
    """The text of a sweep on six tokens; `rest` says what it varies, its seeds and resources."""
    return BASE.format(name=name, steps=steps, every=every, compile=str(compiled).lower()) + rest


FINISHED = based(
    "finished",
    """space:
  training.learning_rate: {choice: [0.003, 0.03, 800000.0]}    # with the last one of three seeds diverges
  training.batch_size: {choice: [8, 16]}
search: {configurations: 7, seed: 1}                           # seven draws of six values: one is drawn twice
seeds: 3
""",
)
INTERRUPTED_EAGER = based(
    "interrupted_eager",
    """space:
  training.learning_rate: {log_uniform: [0.001, 0.1]}
  model.dropout: {uniform: [0.05, 0.5]}
  training.batch_size: {choice: [8, 16]}
search: {configurations: 6}
seeds: 2
resources: {pack: 2, checkpoint_seconds: null, checkpoint_steps: 150}
""",
    steps=900,
    every=200,
)
INTERRUPTED_COMPILED = based(
    "interrupted_compiled",
    """space:
  training.learning_rate: {log_uniform: [0.001, 0.1]}
search: {configurations: 1}
seeds: 1
resources: {pack: 1, checkpoint_seconds: null, checkpoint_steps: 150}
""",
    steps=900,
    every=200,
    compiled=True,
)
JUDGED_AT_BEST = """name: judged_at_best
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: soft}
model: {name: attention_only, width: 8, norm: pre}
training:
  steps: 80
  batch_size: 8
  learning_rate: 0.003
  clip: 1.0
  compile: false
  schedule: {name: cosine, warmup: 10}
  averages: {raw: {}, slow: {kind: ema, decay: 0.99}, bema: {rho: 5.0}}
space:
  training.learning_rate: {log_uniform: [0.01, 0.3]}
  training.averages.slow.decay: {one_minus_log_uniform: [0.9, 0.999]}
search: {configurations: 4}
seeds: 3
evaluation: {every: 20, samples: 10, lengths: [1, 2, 4, 5]}
objective: {metric: kl, average: raw, lengths: [4], direction: minimize, evaluation: best, threshold: 0.5}
tracking: {enabled: false}
"""
KEPT_WEIGHTS = based(
    "kept_weights",
    """space:
  training.weight_decay: {log_uniform: [0.001, 0.1]}
search: {sampler: qmc, configurations: 2, seed: 1}
seeds: [3, 5]
resources: {keep_weights: true}
""",
)
INTERRUPTED_WEIGHTS = based(
    "interrupted_weights",
    """space:
  training.weight_decay: {log_uniform: [0.001, 0.1]}
search: {sampler: qmc, configurations: 4, seed: 1}
seeds: [3, 5]
resources: {keep_weights: true, pack: 2, checkpoint_seconds: null, checkpoint_steps: 40}
""",
)
LEARNING = """space:
  training.learning_rate: {log_uniform: [0.001, 0.1]}
  model.norm: {choice: [none, pre, post]}
  model.dropout: {uniform: [0.05, 0.5], when: {model.norm: [none, pre]}}
search: {sampler: tpe, configurations: 22, generation: 4}
seeds: 2
"""
TPE = based("tpe", LEARNING, every=30)
TPE_DRAWING = based("tpe_drawing", LEARNING, every=30)
GRID = """name: grid
study: tests
task: {name: ring_regression, ring: 7, window: 3}
model: {name: linear_attention, width: 8, encoding: ape}
training: {optimizer: gradient_descent, steps: 60, batch_size: 1, learning_rate: 0.005, dtype: float64, compile: false}
space:
  model.encoding: {grid: [ape, rpe]}
  task.augmented: {grid: [false, true], when: {model.encoding: ape}}
  training.weight_decay: {grid: [0.0, 0.01]}
search: {sampler: grid}
seeds: 2
evaluation: {every: 30, samples: 1}
objective: {metric: test_loss, average: raw, lengths: [2, 6], direction: minimize, reduce: max}
tracking: {enabled: false}
"""
INTERRUPTED_ENCODER = """name: interrupted_encoder
study: tests
task: {name: padded_addition, width: 4, train_digits: 2}
model: {name: encoder, layers: 1, width: 8, heads: 2, hidden: 8, position: rpe, dropout: 0.1}
training:
  steps: 400
  batch_size: 8
  learning_rate: 0.003
  weight_decay: 0.1
  clip: 1.0
  compile: false
  schedule: {name: linear, warmup: 20}
  averages: {raw: {}, ema: {decay: 0.9}}
space:
  model.position: {grid: [rpe, {name: significance, ordinary: 1}]}
  model.dropout: {choice: [0.1, 0.3]}
search: {configurations: 2}
seeds: 2
evaluation: {every: 100, samples: 10}
objective: {metric: digit_accuracy, average: ema, lengths: [3], direction: maximize, threshold: 0.9}
resources: {pack: 2, checkpoint_seconds: null, checkpoint_steps: 60}
tracking: {enabled: false}
"""


def complete(state: SweepState) -> int:
    """How many packs have ended."""
    return sum(pack.status == "complete" for pack in state.packs.values())


def midway(state: SweepState) -> bool:
    """Whether a pack has an evaluation, not its last one, and a newer checkpoint."""
    for pack in state.packs.values():
        newest = max((state.folder / "checkpoints" / pack.pack_id).glob("step-*.ckpt"), default=None)
        if pack.status == "running" and newest and pack.step < int(newest.stem.removeprefix("step-")) < pack.steps:
            return True
    return False


def untouched(state: SweepState) -> bool:
    """Whether a pack has not begun: no evaluation and no checkpoint."""
    return any(
        not pack.evaluations and not (state.folder / "checkpoints" / pack.pack_id).exists()
        for pack in state.packs.values()
    )


def some_of_each(state: SweepState) -> bool:
    """Packs that are complete, one in its middle, one not begun."""
    return complete(state) >= 1 and midway(state) and untouched(state)


def unnamed_weights(state: SweepState) -> list[Path]:
    """Kept weights of packs whose last evaluation is not in the ledger, once another pack has ended."""
    open_packs = [pack for pack in state.packs.values() if pack.status != "complete"]
    prefixes = tuple(f"{name}-{seed}-" for pack in open_packs for name, seed in pack.members if pack.step < pack.steps)
    written = sorted((state.folder / "weights").glob("*.safetensors"))
    return [path for path in written if path.name.startswith(prefixes)] if complete(state) else []


def within_generation(state: SweepState) -> bool:
    """At least a dozen configurations have scores, and one generation is drawn, packed and not done."""
    scored, drawn = sum(draw.scored for draw in state.draws.values()), len(state.draws)
    packed = all(len(found.members) == 2 for found in state.configurations.values())
    return 12 <= scored < drawn < 22 and drawn % 4 == 0 and packed


def drawing_generation(state: SweepState) -> bool:
    """At least a dozen configurations have scores, and one generation is drawn in part."""
    scored, drawn = sum(draw.scored for draw in state.draws.values()), len(state.draws)
    return 12 <= scored < drawn < 22 and drawn % 4 != 0


RUNS: dict[str, str] = {
    "finished": FINISHED,
    "judged_at_best": JUDGED_AT_BEST,
    "kept_weights": KEPT_WEIGHTS,
    "grid": GRID,
}
KILLS: dict[str, tuple[str, Callable[[SweepState], object]]] = {
    "interrupted_eager": (INTERRUPTED_EAGER, some_of_each),
    "interrupted_compiled": (INTERRUPTED_COMPILED, midway),
    "interrupted_encoder": (INTERRUPTED_ENCODER, some_of_each),
    "interrupted_weights": (INTERRUPTED_WEIGHTS, unnamed_weights),
    "tpe": (TPE, within_generation),
    "tpe_drawing": (TPE_DRAWING, drawing_generation),
}


def lengthwise(*arguments: object) -> subprocess.Popen[bytes]:
    """The command line of the code in this folder, in a process group of its own."""
    command = [sys.executable, "-c", NEUTRAL, *map(str, arguments)]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)


def done(*arguments: object) -> None:
    """Run the command line to its end."""
    if (code := lengthwise(*arguments).wait(timeout=300)) != 0:
        raise SystemExit(f"lengthwise {' '.join(map(str, arguments))} ended with {code}")


def killed(folder: Path, text: str, wanted: Callable[[SweepState], object]) -> None:
    """Run a sweep and kill driver and workers once it is in the wanted state; again where the moment is missed."""
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        driver = lengthwise("run", file_of(folder, text), "--storage", folder.parent)
        while driver.poll() is None:
            if (folder / "events.jsonl").exists() and wanted(SweepState.load(folder)):
                processes = psutil.Process(driver.pid).children(recursive=True)
                os.killpg(driver.pid, signal.SIGKILL)
                for process in processes:
                    if process.is_running():
                        process.kill()
                psutil.wait_procs(processes)
                driver.wait()
            time.sleep(0.002)
        state = SweepState.load(folder)
        if state.ended is None and wanted(state):
            return
        print(f"{folder.name}: missed the moment, once more")
    raise SystemExit(f"{folder.name}: missed the moment {ATTEMPTS} times")


def file_of(folder: Path, text: str) -> Path:
    """A sweep file beside the folder of the sweep."""
    path = folder.with_suffix(".yaml")
    path.write_text(text)
    return path


def ship(folder: Path, target: Path) -> None:
    """Copy what belongs to a sweep."""
    shutil.rmtree(target / folder.name, ignore_errors=True)
    (target / folder.name).mkdir(parents=True)
    for name in SHIPPED:
        if (folder / name).is_dir():
            shutil.copytree(folder / name, target / folder.name / name, ignore=shutil.ignore_patterns(".*"))
        elif (folder / name).exists():
            shutil.copy(folder / name, target / folder.name / name)


def write_json(path: Path, rows: list[Any]) -> None:
    """One row a line."""
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def ranked(folder: Path) -> list[dict[str, Any]]:
    """The rows of the summary of a sweep, in their order."""
    kept = ("config_id", "number", "rank", "score", "score_q25", "score_q75", "seeds_run", "seeds_failed")
    return [
        {name: getattr(row, name) for name in kept}
        | {"test": (row.test.median, row.test.q25, row.test.q75) if row.test else None}
        for row in summary(SweepState.load(folder)).rows
    ]


def drawn(folder: Path) -> list[list[Any]]:
    """(number, config_id, values, score) of every draw."""
    draws = sorted(SweepState.load(folder).draws.values(), key=lambda draw: draw.number)
    return [[draw.number, draw.config_id, draw.values, draw.score] for draw in draws]


def resumed(target: Path, name: str, scratch: Path) -> None:
    """Resume a copy of a shipped sweep to its end and keep what it comes to."""
    folder = scratch / "resumed" / name
    shutil.copytree(target / name, folder)
    done("resume", folder)
    shutil.copy(folder / "curves.parquet", target / f"{name}.resumed.parquet")
    write_json(target / f"{name}.resumed.json", drawn(folder))


def main() -> None:
    """Write the named sweeps, or all of them, into the folder given first."""
    target, names = Path(sys.argv[1]).resolve(), sys.argv[2:] or [*RUNS, *KILLS]
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        for name in names:
            folder, began = scratch / name, time.monotonic()
            if name in RUNS:
                done("run", file_of(folder, RUNS[name]), "--storage", scratch)
                kept = [folder]
                if name == "finished":
                    done("confirm", folder, "--top", 2, "--seeds", 3)
                    kept.append(scratch / "finished-confirm")
                for one in kept:
                    ship(one, target)
                    write_json(target / f"{one.name}.summary.json", ranked(one))
            else:
                killed(folder, *KILLS[name])
                if name == "interrupted_weights":
                    known = unnamed_weights(SweepState.load(folder))[0]
                    shutil.copy(known, known.with_name(known.name.rpartition("-")[0] + "-0123456789ab.safetensors"))
                ship(folder, target)
                resumed(target, name, scratch)
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
