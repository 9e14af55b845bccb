"""Virtual nodes on one machine (virtual_nodes.sh), and the small sweep that runs on them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil

ROOT = Path(__file__).parents[2]
NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc")
QUICKSTART = "search_spaces/quickstart.yaml"
SMALL = (
    "search.configurations=3",
    "seeds=2",
    "training.steps=24000",
    "training.compile=false",
    "evaluation.every=4000",
    "evaluation.samples=100",
    "resources.pack=2",
    "resources.checkpoint_seconds=2",
    "tracking.enabled=false",
)
CURVES = ["config_id", "seed", "average", "metric", "length", "step"]
PATIENCE = 600.0  # seconds


def options(*settings: str) -> list[str]:
    """Return settings as options of the command line."""
    return [word for setting in settings for word in ("--set", setting)]


def read_curves(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "curves.parquet").set_index(CURVES).sort_index()[["value"]]


def find_missing(tools: tuple[str, ...], packages: str) -> str | None:
    """Return why nodes with these tools cannot be started here, or None."""
    if os.geteuid() != 0:
        return "only root can start nodes with networks of their own"
    if absent := [tool for tool in (*tools, "ip", "unshare", "nsenter") if shutil.which(tool) is None]:
        return f"not installed: {', '.join(absent)} (Debian: {packages} iproute2)"
    if any(Path(path).is_relative_to("/tmp") for path in (ROOT, sys.prefix)):
        return "the nodes have a /tmp of their own, so they cannot see this checkout: move it out of /tmp"
    asked = subprocess.run(["unshare", *NAMESPACES, "ip", "link", "add", "x", "type", "bridge"], capture_output=True)
    return None if asked.returncode == 0 else "this machine lets nobody make networks"


def wait_for(what: str, holds: Callable[[], object], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"{what}, not seen:\n{log.read_text() if log.exists() else 'no log'}"
        time.sleep(0.5)


@dataclass
class VirtualNodes:
    """Running nodes of `script`; `folder` is what they see as /srv/shared, `process` the first of their namespaces."""

    script: Path
    folder: Path
    process: int

    def enter(self, *words: str, node: int | None = None) -> list[str]:
        """Return the command by which root runs these words on the machine that connects the nodes, or on a node."""
        outside = ["nsenter", "--target", str(self.process), "--all", f"--wd={ROOT}"]
        if node is None:
            return [*outside, *words]
        process = subprocess.run([*outside, "cat", f"/srv/node{node}.pid"], capture_output=True, text=True, check=True)
        return [*outside, "nsenter", "--target", process.stdout.strip(), "--all", f"--wd={ROOT}", *words]

    def command(self, *words: str, node: int | None = None) -> list[str]:
        """Return what `call` runs."""
        return self.enter(*words, node=node)

    def call(self, *words: str, node: int | None = None) -> str:
        """Run a command to its end and return what it prints."""
        asked = subprocess.run(self.command(*words, node=node), capture_output=True, text=True)
        assert asked.returncode == 0, (words, asked.stdout, asked.stderr)
        return asked.stdout.strip()

    def plug(self, node: int) -> None:
        subprocess.run(self.enter(str(self.script), "plug", str(node)), check=True)

    def unplug(self, node: int) -> None:
        """Let a node vanish from the network, then kill its processes."""
        subprocess.run(self.enter(str(self.script), "unplug", str(node)), check=True)


@contextmanager
def started(script: Path, folder: Path) -> Iterator[int]:
    """Start the nodes of a script; yield the first process of their namespaces, whose end is theirs too."""
    with (folder / "up.log").open("w") as log:
        outer = subprocess.Popen(["unshare", *NAMESPACES, str(script), "up", str(folder)], stdout=log, stderr=log)
    try:
        wait_for("the namespaces", lambda: psutil.Process(outer.pid).children(), folder / "up.log")
        yield psutil.Process(outer.pid).children()[0].pid
    finally:
        outer.send_signal(signal.SIGKILL)
        outer.wait()
