"""Write the sweeps of a version: run, killed and resumed by the code of that version, to be read by every later one.

Run it from a checkout of the version whose sweeps are to be kept:

    python tests/sweeps/write.py tests/sweeps/2.0.0 [NAME ...]

The path of the checkout goes into the ledgers, so it should be neutral, such as /tmp/lengthwise.

VERSION/NAME/sweep.yaml is the file that a sweep was begun with, and is replaced by the one in its folder.
Of `finished` one configuration diverges with one of its seeds, and one is drawn twice; the others differ in sampler,
model, task, averages and in what is kept.

It takes some minutes on two cores. The sweeps named `interrupted_...` and `tpe...` are killed (SIGKILL) when
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
from orchestrator.results.make_summary import summarize

SHIPPED = ("sweep.yaml", "events.jsonl", "curves.parquet", "curves", "checkpoints", "weights")
NEUTRAL = (
    "import platform, runpy, socket; "
    "socket.gethostname = lambda: 'somewhere'; platform.platform = lambda *_: 'Linux'; "
    "runpy.run_module('orchestrator', run_name='__main__')"
)
ATTEMPTS = 8


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
    scored, drawn = sum(configuration.is_scored for configuration in state.configurations.values()), len(state.draws)
    packed = all(len(configuration.members) == 2 for configuration in state.configurations.values())
    return 12 <= scored < drawn < 22 and drawn % 4 == 0 and packed


def drawing_generation(state: SweepState) -> bool:
    """At least a dozen configurations have scores, and one generation is drawn in part."""
    scored, drawn = sum(configuration.is_scored for configuration in state.configurations.values()), len(state.draws)
    return 12 <= scored < drawn < 22 and drawn % 4 != 0


RUNS = ("finished", "judged_at_best", "kept_weights", "grid", "race", "program")
KILLS: dict[str, Callable[[SweepState], object]] = {
    "interrupted_eager": some_of_each,
    "interrupted_compiled": midway,
    "interrupted_encoder": some_of_each,
    "interrupted_weights": unnamed_weights,
    "tpe": within_generation,
    "tpe_drawing": drawing_generation,
}
VERSIONS = {
    "1.0.0": (*(name for name in RUNS if name not in ("race", "program")), *KILLS),
    "2.0.0": ("finished", "race", "program", "interrupted_eager"),
}


def lengthwise(*arguments: object) -> subprocess.Popen[bytes]:
    """The command line of the code in this folder, in a process group of its own."""
    command = [sys.executable, "-c", NEUTRAL, *map(str, arguments)]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)


def done(*arguments: object) -> None:
    """Run the command line to its end."""
    if (code := lengthwise(*arguments).wait(timeout=300)) != 0:
        raise SystemExit(f"lengthwise {' '.join(map(str, arguments))} ended with {code}")


def killed(file: Path, folder: Path, wanted: Callable[[SweepState], object]) -> None:
    """Run a sweep file and kill driver and workers once it is in the wanted state; again where the moment is missed."""
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        driver = lengthwise("run", file, "--storage", folder.parent)
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
        if state.end_status is None and wanted(state):
            return
        print(f"{folder.name}: missed the moment, once more")
    raise SystemExit(f"{folder.name}: missed the moment {ATTEMPTS} times")


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
        | {"test": (at.median, at.q25, at.q75) if (at := row.test_quartiles) else None}
        for row in summarize(SweepState.load(folder)).rows
    ]


def drawn(folder: Path) -> list[list[Any]]:
    """(number, config_id, values, score) of every draw."""
    state = SweepState.load(folder)
    draws = sorted(state.draws.values(), key=lambda draw: draw.number)
    return [[draw.number, draw.config_id, draw.values, state.configurations[draw.config_id].score] for draw in draws]


def resumed(target: Path, name: str, scratch: Path) -> None:
    """Resume a copy of a shipped sweep to its end and keep what it comes to."""
    folder = scratch / "resumed" / name
    shutil.copytree(target / name, folder)
    done("resume", folder)
    shutil.copy(folder / "curves.parquet", target / f"{name}.resumed.parquet")
    write_json(target / f"{name}.resumed.json", drawn(folder))


def main() -> None:
    """Write the named sweeps, or all of them, into the folder given first."""
    target = Path(sys.argv[1]).resolve()
    names = sys.argv[2:] or VERSIONS[target.name]
    with tempfile.TemporaryDirectory(prefix="lengthwise-") as temporary:
        scratch = Path(temporary)
        for name in names:
            folder, began = scratch / name, time.monotonic()
            file = shutil.copytree(target / name, scratch / "files" / name) / "sweep.yaml"
            if name in RUNS:
                done("run", file, "--storage", scratch)
                kept = [folder]
                if name == "finished":
                    done("confirm", folder, "--top", 2, "--seeds", 3)
                    kept.append(scratch / "finished-confirm")
                for source in kept:
                    ship(source, target)
                    write_json(target / f"{source.name}.summary.json", ranked(source))
            else:
                killed(file, folder, KILLS[name])
                if name == "interrupted_weights":
                    known = unnamed_weights(SweepState.load(folder))[0]
                    shutil.copy(known, known.with_name(known.name.rpartition("-")[0] + "-0123456789ab.safetensors"))
                ship(folder, target)
                resumed(target, name, scratch)
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
