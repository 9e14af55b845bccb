"""Train every case with two revisions and compare curves and weights bit for bit, on one CPU core.

    python tests/side_by_side/compare.py --before REVISION [--only TEXT] [--compiled]

The code before is REVISION, in a git worktree that goes away again; the code now is this checkout as it stands,
uncommitted changes included. The cases, and the script that trains them, are those of this checkout for both. Prints a
line for each case; exits 1 when one differs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]

Arrays = Mapping[str, NDArray[Any]]


def main() -> int:
    """Train with both, compare, say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, metavar="REVISION", help="the revision to compare with")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this in their name")
    parser.add_argument("--compiled", action="store_true", help="also the compiled cases, which take a minute or two")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        options = ["--only", asked.only, *(["--compiled"] if asked.compiled else [])]
        with worktree(asked.before, folder / "code") as code:
            before = trained(code, folder / "before", options)
        now = trained(REPOSITORY, folder / "now", options)
    if not before and not now:
        raise SystemExit(f"no case has {asked.only!r} in its name")
    differing = 0
    for name in dict.fromkeys([*before, *now]):
        found = difference(before.get(name, {}), now.get(name, {}))
        differing += found is not None
        print(f"{name}: {found or 'equal'}")
    print(f"{differing} of {len(before.keys() | now.keys())} cases differ from {asked.before}")
    return 1 if differing else 0


@contextmanager
def worktree(revision: str, path: Path) -> Iterator[Path]:
    """A checkout of a revision, removed at the end."""
    git = ["git", "-C", str(REPOSITORY), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(path), revision], check=True)
    try:
        yield path
    finally:
        subprocess.run([*git, "remove", "--force", str(path)], check=True)


def trained(code: Path, folder: Path, options: list[str]) -> dict[str, dict[str, NDArray[Any]]]:
    """What train_all.py writes with this code, by case."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"}
    check = "import sys, trainers; sys.exit(0 if trainers.__file__.startswith(sys.argv[1]) else trainers.__file__)"
    command = [sys.executable, "-c", check, str(code.resolve())]
    subprocess.run(command, env=environment, cwd=folder, check=True)
    command = [sys.executable, str(HERE / "train_all.py"), str(folder), *options]
    if subprocess.run(command, env=environment, cwd=folder).returncode:
        raise SystemExit(f"the cases could not be trained with {code}")
    found = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            arrays = dict(file)
        found[str(arrays.pop("case"))] = arrays
    return found


def difference(before: Arrays, now: Arrays) -> str | None:
    """The first array that is not the same, bit for bit, and where; None when all are."""
    for name in dict.fromkeys([*before, *now]):
        if name not in before or name not in now:
            return f"{name}: only {'before' if name in before else 'now'}"
        old, new = before[name], now[name]
        if old.dtype != new.dtype or old.shape != new.shape:
            return f"{name}: {old.dtype}{list(old.shape)} before, {new.dtype}{list(new.shape)} now"
        if old.tobytes() != new.tobytes():
            return f"{name}: {_first(old, new)}"
    return None


def _first(old: NDArray[Any], new: NDArray[Any]) -> str:
    """Where two arrays of one shape first differ, and in how many places."""
    width = old.dtype.itemsize
    bits = [np.frombuffer(array.tobytes(), f"V{width}") for array in (old, new)]
    places = np.flatnonzero(bits[0] != bits[1])
    at = tuple(map(int, np.unravel_index(places[0], old.shape)))
    return f"{len(places)} of {old.size} differ, first at {list(at)}: {old[at]!s} before, {new[at]!s} now"


if __name__ == "__main__":
    sys.exit(main())
