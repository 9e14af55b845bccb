"""What a GPU must show before anything is said of it: equal to the CPU, and how fast. Needs torch and numpy alone.

    python tests/gpu/run.py [--device cuda|cpu] [--minutes 8] [--parts PART ...] [--out FOLDER]

Every part has its share of the time and ends when it is over; what it did not come to is counted. After each part
results.json and results.md are written to FOLDER. Exits 1 when something differs or fails, 2 for bad input.
"""

import argparse
import json
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parents[1] / part) for part in (".", "tests/side_by_side", "tests/benchmarks"))]

import torch  # noqa: E402
from parts import PARTS, TOY, Row, Size, shown  # noqa: E402


def main(arguments: Sequence[str]) -> int:
    """Run the parts, write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all parts together")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("gpu_results"), metavar="FOLDER")
    parser.add_argument("--toy", action="store_true", help="a little of every part")
    asked = parser.parse_args(arguments)
    if asked.minutes <= 0:
        parser.error(f"--minutes {asked.minutes:g}: allowed: more than 0")
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no CUDA device here; allowed: cpu")
    asked.out.mkdir(parents=True, exist_ok=True)
    name = torch.cuda.get_device_name() if asked.device == "cuda" else platform.processor() or platform.machine()
    results: dict[str, Any] = {"device": asked.device, "name": name, "torch": torch.__version__, "parts": {}}
    seconds = asked.minutes * 60 / sum(PARTS[part][0] for part in asked.parts)
    for part in asked.parts:
        results["parts"][part] = ran(part, asked.device, TOY if asked.toy else Size(), seconds)
        (asked.out / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
        (asked.out / "results.md").write_text(page(results), encoding="utf-8")
        print(f"{part}: {summarize(results['parts'][part])}", flush=True)
    bad = any(not row["good"] for part in results["parts"].values() for row in part["rows"])
    return 1 if bad else 0


def ran(part: str, device: str, size: Size, seconds: float) -> dict[str, Any]:
    """The rows of a part, a failed case among them, and how many cases the time was too short for."""
    share, cases = PARTS[part]
    began, rows, left = time.monotonic(), list[Row](), 0
    for row, find in cases(device, size):
        if rows and time.monotonic() - began > share * seconds:
            left += 1
            continue
        try:
            rows.append({**row, **find()})
        except Exception as error:  # one failed case must not cost the others
            rows.append({**row, "good": False, "note": f"{type(error).__name__}: {error}".splitlines()[0][:200]})
            traceback.print_exc()
    return {"rows": rows, "left": left, "seconds": time.monotonic() - began}


def summarize(part: dict[str, Any]) -> str:
    """A part in a line."""
    wrong = [named(row) for row in part["rows"] if not row["good"]]
    summary = f"{len(part['rows'])} cases in {part['seconds']:.0f} s, " + (
        f"NOT good: {', '.join(wrong)}" if wrong else "good"
    )
    return f"{summary}; no time was left for {part['left']}" if part["left"] else summary


def named(row: Row) -> str:
    """A case by its name, and its members where it has them."""
    return f"{row['case']}, {row['members']} members" if "members" in row else row["case"]


def page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [f"# {results['name']} ({results['device']}), torch {results['torch']}", ""]
    for name, part in results["parts"].items():
        columns = list(dict.fromkeys(key for row in part["rows"] for key in row))
        lines += [f"## {name}", "", summarize(part), "", f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
        lines += [f"| {' | '.join(shown(row.get(key)) for key in columns)} |" for row in part["rows"]] + [""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
