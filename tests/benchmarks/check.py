"""Whether whole runs are still as far ahead of scripts as they were. `make bench-check` runs it, in about a minute.

    python tests/benchmarks/check.py [--save]

One round of W1: two scripts side by side, then lengthwise with empty and with filled caches. Each ratio is compared
with that of saved.json; one that fell below three quarters of it is a failure (exit code 1). `--save` keeps the ratios
that were measured in its place.
"""

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from throughput import ratios, whole  # noqa: E402

SAVED = HERE / "saved.json"
ALLOWED = 0.75  # of a saved ratio: single runs of one machine differ by a fifth


def main() -> None:
    """Measure, compare or save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="keep what is measured now")
    asked = parser.parse_args()
    rows = whole(1, ("B-eager", "L-auto"))
    measured = {f"W1, caches {caches}": ratios(rows, "W1", "L-auto", caches)[0] for caches in ("empty", "filled")}
    if asked.save:
        SAVED.write_text(json.dumps(measured, indent=1) + "\n")
        print(f"{SAVED}: {measured}")
        return
    saved = json.loads(SAVED.read_text())
    worse = [name for name, ratio in saved.items() if measured[name] < ALLOWED * ratio]
    for name, ratio in saved.items():
        print(f"{name}: {measured[name]:.2f} times as fast as two scripts, saved {ratio:.2f}")
    if worse:
        sys.exit(f"slower than {ALLOWED:g} of what was saved: {'; '.join(worse)}")


if __name__ == "__main__":
    main()
