"""Train every case with two revisions: weights and losses are equal bit for bit, curves to rounding, on one CPU core.

    python tests/side_by_side/compare.py --before REVISION [--only TEXT] [--compiled]

The code before is REVISION, in a git worktree that goes away again; the code now is this checkout as it stands,
uncommitted changes included. The cases, and the script that trains them, are those of this checkout for both. A value
of a curve may be off by ABSOLUTE or by RELATIVE, one of a metric in TIMES_LENGTH by as much times its length. Prints a
line for each case, and the most that each metric has moved; exits 1 when a case differs by more.
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

ABSOLUTE, RELATIVE = 2e-6, 1e-5
TIMES_LENGTH = {"displacement"}  # a logarithm of odds times the length


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
    differing, moved = 0, dict[str, float]()
    for name in dict.fromkeys([*before, *now]):
        change = difference(before.get(name, {}), now.get(name, {}), moved)
        differing += change is not None
        print(f"{name}: {change or 'equal'}")
    for metric, most in sorted(moved.items()):
        print(f"{metric}: off by {most:.1e} at most")
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
    arrays_by_case = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            arrays = dict(file)
        arrays_by_case[str(arrays.pop("case"))] = arrays
    return arrays_by_case


def difference(before: Arrays, now: Arrays, moved: dict[str, float]) -> str | None:
    """The first array that is not the same, and where; None when all are.

    What curves are off by goes into `moved`, the most for each metric: the curves are the arrays named curve METRIC.
    A metric that is measured now alone is no difference.
    """
    for name in dict.fromkeys([*before, *(name for name in now if name in before or "curve " not in name)]):
        if name not in before or name not in now:
            return f"{name}: only {'before' if name in before else 'now'}"
        old, new = before[name], now[name]
        if old.dtype != new.dtype or old.shape != new.shape:
            return f"{name}: {old.dtype}{list(old.shape)} before, {new.dtype}{list(new.shape)} now"
        metric = name.rpartition("curve ")[2] if "curve " in name else None
        same = _bits(old) == _bits(new) if metric is None else _near(old, new, before["lengths"], metric, moved)
        if not same.all():
            return f"{name}: {_first(old, new, same)}"
    return None


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    """Every number of an array as its bytes."""
    return np.frombuffer(array.tobytes(), f"V{array.dtype.itemsize}").reshape(array.shape)


def _near(
    old: NDArray[Any], new: NDArray[Any], lengths: NDArray[Any], metric: str, moved: dict[str, float]
) -> NDArray[np.bool_]:
    """Where a curve (..., L) is what it was, or off by rounding."""
    equal = (old == new) | (np.isnan(old) & np.isnan(new))
    with np.errstate(invalid="ignore"):  # one infinity from another
        off = np.where(equal, 0.0, np.abs(new.astype(np.float64) - old))
    if off.any():
        moved[metric] = max(moved.get(metric, 0.0), float(np.nanmax(off)))
    allowed = np.maximum(ABSOLUTE, RELATIVE * np.abs(old)) * (lengths if metric in TIMES_LENGTH else 1)
    near: NDArray[np.bool_] = equal | (np.isfinite(off) & (off <= allowed))
    return near


def _first(old: NDArray[Any], new: NDArray[Any], same: NDArray[np.bool_]) -> str:
    """Where two arrays of one shape first differ, and in how many places."""
    places = np.flatnonzero(~same)
    at = tuple(map(int, np.unravel_index(places[0], old.shape)))
    return f"{len(places)} of {old.size} differ, first at {list(at)}: {old[at]!s} before, {new[at]!s} now"


if __name__ == "__main__":
    sys.exit(main())
