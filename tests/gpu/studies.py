"""The sweeps that only a GPU decides, in the order of their value, as far as the time goes.

    python tests/gpu/studies.py [--minutes 25] [--out gpu_studies] [--device cuda|cpu] [--studies NAME ...]

Each sweep of search_spaces/gpu gets twice the time that it should take, or what is left, and stops at its next
evaluation when that is over; the same command resumes it. The folder holds the sweeps, and what search_spaces/gpu can
take in, written at the end: results/NAME.tar.xz of every finished sweep, and page.md. Needs what lengthwise needs, but
neither Ray nor MLflow.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
SPACES = ROOT / "search_spaces" / "gpu"
HOURS = {  # of one H100, estimated and rounded up, in the order of value
    "othello_gpu": 0.9,
    "addition_gpu": 0.4,
    "flip_flop_gpu": 0.6,
    "cycles_gpu": 5,
    "multiplication_gpu": 1,
    "multiplication_three_gpu": 1,
    "parity_gpu": 1.5,
    "copy_gpu": 2.5,
    "induction_gpu": 2.5,
    "noise_gpu": 0.3,
}
SETTINGS = ("resources.scheduler=inline", "tracking.enabled=false")


def main(arguments: Sequence[str]) -> int:
    """Run or resume the sweeps, pack what has ended, draw the page; return 0, or 1 when a sweep failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=25.0, help="for all sweeps together")
    parser.add_argument("--out", type=Path, default=Path("gpu_studies"), metavar="FOLDER")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--studies", nargs="+", choices=HOURS, default=list(HOURS), metavar="NAME")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of lengthwise run")
    asked = parser.parse_args(arguments)
    if asked.minutes <= 0:
        parser.error(f"--minutes {asked.minutes:g}: allowed: more than 0")
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no CUDA device here; allowed: cpu")
    asked.out.mkdir(parents=True, exist_ok=True)
    for file in SPACES.glob("*.yaml"):  # results and page are written beside the claims
        shutil.copy(file, asked.out)
    settings = [*SETTINGS, *(["resources.gpus=0"] if asked.device == "cpu" else []), *asked.set]
    end, failed = time.monotonic() + 60 * asked.minutes, list[str]()
    for name in asked.studies:
        if (left := end - time.monotonic()) < 1:
            break
        seconds = round(min(2 * 3600 * HOURS[name], left))
        print(f"{name}: at most {seconds} s", flush=True)
        options = ["--storage", str(asked.out / "sweeps"), "--resume", "--max-time", f"{seconds}s"]
        sets = [word for setting in settings for word in ("--set", setting)]
        if lengthwise("run", str(asked.out / f"{name}.yaml"), *options, *sets):
            failed.append(name)
    page = ["--storage", str(asked.out / "sweeps"), "--keep", "--page", str(asked.out / "page.md")]
    if lengthwise("claims", str(asked.out / "claims.yaml"), *page):
        failed.append("claims")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def lengthwise(*words: str) -> int:
    """Run a command of lengthwise; return its exit code."""
    return subprocess.run([sys.executable, "-m", "orchestrator", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
