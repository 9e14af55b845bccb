"""Draw the picture of README.md and the screen in orchestrator/README.md from a run of the quickstart.

    make quickstart-pages

Run it after every change of figures, of the screen or of what the quickstart trains.
"""

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from PIL import Image

from orchestrator.record.state.state import SweepState
from orchestrator.report.terminal import Screen
from orchestrator.results.make_summary import summarize
from orchestrator.text.consoles import UncroppedConsole
from tests.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART, PICTURE = ROOT / "search_spaces" / "quickstart.yaml", ROOT / "search_spaces" / "quickstart.png"
SIZE, CROPPED, COLORS = (1060, 852), (1044, 732), 256  # of the picture, in pixels; cropped: without bar and table
PAGE = ROOT / "orchestrator" / "README.md"
SCREEN = re.compile(r"(?<=```\n)Sweep quickstart\n.*?(?=\n```)", re.DOTALL)
COMPARED = "#3"  # the configuration whose seeds differ most
WIDTH, HEIGHT = 100, 24  # of the screen in characters


def run_quickstart(storage: Path) -> Path:
    """Run the quickstart, without MLflow, in a new storage folder; return the folder of the sweep."""
    storage /= "sweeps"
    command = [sys.executable, "-m", "orchestrator", "run", str(QUICKSTART), "--storage", str(storage)]
    options = ["--set", "resources.scheduler=local", "--set", "tracking.enabled=false"]
    subprocess.run([*command, *options], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return storage / "quickstart"


def extend_and_confirm(folder: Path) -> None:
    """Add the seeds that README.md adds, with which two configurations have an interval, and try the best on others."""
    for words in (["extend", str(folder), "--seeds", "10"], ["confirm", str(folder), "--top", "3", "--seeds", "10"]):
        command = [sys.executable, "-m", "orchestrator", *words]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def screen_of(folder: Path) -> str:
    """Return the screen of a sweep on a terminal, with the folder that the page names, which takes less room."""
    out = io.StringIO()
    look = {"width": WIDTH, "height": HEIGHT, "force_terminal": True, "color_system": None}
    with contextlib.chdir(folder.parents[1]):
        summary = summarize(SweepState.load(folder.relative_to(folder.parents[1])))
        UncroppedConsole(file=out, **look).print(Screen(summary))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().split("\n"))


def draw_report(folder: Path, storage: Path) -> None:
    """Write a picture of the first screen of a sweep's report.html, as a browser shows it."""
    page = storage / "page.html"
    text = (folder / "report.html").read_text(encoding="utf-8")
    page.write_text(text.replace(str(folder), "sweeps/quickstart"), encoding="utf-8")
    with Browser(storage / "profile", *SIZE) as tab:
        tab.open(f"{page.as_uri()}#{quote(json.dumps({'second': COMPARED}))}")  # as the page keeps what was clicked
        tab.screenshot(PICTURE)
    with Image.open(PICTURE) as image:
        first_screen = image.convert("RGB").crop((0, 0, *CROPPED))
        # The other methods keep few colors of the ramp, which takes little room.
        first_screen = first_screen.quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    first_screen.save(PICTURE, optimize=True)


def main() -> None:
    """Run the quickstart and write all of them."""
    with tempfile.TemporaryDirectory() as storage:
        folder = run_quickstart(Path(storage))
        screen = screen_of(folder)
        PAGE.write_text(SCREEN.sub(lambda _: screen, PAGE.read_text(encoding="utf-8"), count=1), encoding="utf-8")
        extend_and_confirm(folder)
        draw_report(folder, Path(storage))


if __name__ == "__main__":
    main()
