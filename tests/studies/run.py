"""Run the sweeps of the set complement study that fit on two cores, and write the gallery from their ledgers.

    python tests/studies/run.py [--storage DIR] [--gallery-only]

Every `*_cpu.yaml` goes through the command line, one after the other. A sweep that is finished is not run again, an
interrupted one is gone on with.
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from gallery import write_gallery
from measures import Sweep

from orchestrator.state import SweepState
from search_spaces import load_sweep

ROOT = Path(__file__).parents[2]
FILES = ROOT / "search_spaces" / "set_complement"
GALLERY = ROOT / "search_spaces" / "gallery"


def main() -> int:
    """Run what is missing, then write the gallery; the exit code of the first command that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storage", type=Path, default=Path("sweeps"))
    parser.add_argument("--gallery-only", action="store_true", help="run nothing")
    given = parser.parse_args()
    files = sorted(FILES.glob("*_cpu.yaml"))
    for file in [] if given.gallery_only else files:
        if code := bring_to_its_end(file, given.storage):
            return code
    sweeps = {file.stem: Sweep(given.storage / file.stem) for file in files}
    print(f"wrote {write_gallery(sweeps, GALLERY)}")
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
