"""Run the sweeps of the studies that fit on two cores, and write the gallery from their ledgers.

    python -m orchestrator.studies.run [--study set_complement] [--study arithmetic] [--storage DIR] [--gallery-only]

Every `*_cpu.yaml` of a study goes through the command line, one after the other, and so does what is small at its full
size. A sweep that is finished is not run again, an interrupted one is gone on with. Without --study: every study.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import LengthwiseError
from orchestrator.record.state.state import SweepState
from orchestrator.studies.measures import Sweep
from orchestrator.studies.studies import STUDIES, Study
from orchestrator.wording import command
from search_spaces import load_sweep

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "search_spaces" / "gallery"


def main(words: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the gallery, study by study; the exit code of the first that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m orchestrator.studies.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--study", action="append", choices=tuple(STUDIES), help="may be repeated; all by default")
    parser.add_argument("--storage", type=Path, default=Path("sweeps"))
    parser.add_argument("--gallery-only", action="store_true", help="run nothing")
    given = parser.parse_args(words)
    for name in dict.fromkeys(given.study or STUDIES):
        study = STUDIES[name]
        for file in [] if given.gallery_only else study.files:
            if code := bring_to_its_end(file, given.storage):
                return code
        if code := write_page(study, given.storage):
            return code
    return 0


def write_page(study: Study, storage: Path) -> int:
    """Write the page of a study from its sweeps; 2 when one of them is missing, unfinished or damaged, and says so."""
    sweeps, problems = {}, []
    for file in study.files:
        folder = storage / file.stem
        try:
            if not (folder / "events.jsonl").exists():
                problems.append(f"{folder} is not there: {relative(file)} has not been run")
                continue
            state = SweepState.load(folder)
            if state.ended != "complete":
                problems.append(f"{folder} is not finished: it runs, or `{command('resume', folder)}` goes on with it")
            elif state.spec_hash != load_sweep(file).spec_hash:
                problems.append(f"{folder} is of another version of {relative(file)}")
            else:
                sweeps[file.stem] = Sweep(folder)
        except LengthwiseError as error:
            problems.append(str(error))
    if problems:
        print(f"the page of {study.name} needs every sweep of the study:", *problems, sep="\n  ")
        return 2
    try:
        print(f"wrote {study.write(sweeps, GALLERY)}")
    except LengthwiseError as error:
        print(error)
        return 2
    return 0


def bring_to_its_end(file: Path, storage: Path) -> int:
    """Run a sweep file, go on with it, or leave it as finished; the exit code of the command."""
    spec = load_sweep(file)
    folder = storage / spec.name
    if not (folder / "events.jsonl").exists():
        return lengthwise("run", str(file), "--storage", str(storage))
    state = SweepState.load(folder)
    if state.spec_hash != spec.spec_hash:
        print(f"{folder} is of another version of {relative(file)}; move it away, or use another --storage")
        return 2
    if state.ended == "complete":
        print(f"{spec.name} is finished")
        return 0
    return lengthwise("resume", str(folder))


def lengthwise(*words: str) -> int:
    """One command of the real command line, shown before it runs."""
    print("lengthwise", *words, flush=True)
    return subprocess.run([sys.executable, "-m", "orchestrator", *words], cwd=ROOT, check=False).returncode


def relative(file: Path) -> str:
    """A path as a person in the repository would write it."""
    return str(file.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
