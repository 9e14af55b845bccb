"""The report and the pages of MLflow that links lead to, in a real browser: they show the sweep without an error."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.tracking.address import make_default_uri
from orchestrator.tracking.ui import list_sweep_links, run_server

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
pytestmark = pytest.mark.skipif(not BROWSER, reason="needs a browser (Debian: chromium)")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=20000")


def open_page(url: str, profile: Path) -> tuple[str, list[str]]:
    """The document after its scripts, and what they logged, but what says that AG Grid is old or a layout slow."""
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", "--window-size=1400,900", "--dump-dom", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    logged = re.findall(r':CONSOLE:\d+\] "(.*)', done.stderr)
    return done.stdout, [
        line for line in logged if not line.startswith("AG Grid:") and "ResizeObserver loop" not in line
    ]


@pytest.mark.slow
def test_the_pages_of_mlflow_show_the_sweep(sweep: Any, publish: Any, tmp_path: Path) -> None:
    publish(sweep.folder)
    uri = make_default_uri(sweep.folder.parent)
    with run_server(sweep.folder.parent / "mlflow.db") as (url, _):
        ((_, links),) = list_sweep_links(uri, url)
        for what, link in links:
            document, logged = open_page(link, tmp_path / "profile")
            assert logged == [], what
            if "configurations" in what:
                assert "#0" in document and "page not found" not in document.lower(), what
