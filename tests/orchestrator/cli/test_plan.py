"""`plan`: what would run and what it would cost; nothing is written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import refused


@pytest.mark.parametrize("scheduler", ["ray", "auto"])
def test_plan_says_what_would_run_and_what_it_would_cost(scheduler, lengthwise, tiny, tmp_path):
    chosen = ("--set", f"resources.scheduler={scheduler}")
    done = lengthwise.succeeds("plan", tiny, "--storage", tmp_path / "storage", "--workers", "2", *chosen)
    for text in (
        "configurations  4",
        "seeds           2",
        "1 pack of 6 members and 1 pack of 2 members",
        "steps           60",
        "MiB",
    ):
        assert text in done.stdout
    assert not [line for line in done.stdout.splitlines() if line.endswith(" ")]
    durations = [line for line in done.stdout.splitlines() if re.search(r"\d (s|min|h)\b", line)]
    assert len(durations) == 1 and durations[0].startswith("estimated time"), durations
    assert not (tmp_path / "storage").exists()


def test_options_that_could_not_be_followed_are_refused(lengthwise, tiny, tmp_path):
    storage = tmp_path / "storage"
    inline = ("--set", "resources.scheduler=inline", "--workers", "4", "--storage", storage)
    for verb in ("plan", "run"):
        refused(lengthwise(verb, tiny, *inline), "--workers 4", "resources.scheduler: inline", "allowed: 1")
    refused(lengthwise("list", "sweeps", "--import", "my_tasks"), "--import")
    refused(lengthwise("list", "task", "--storage", storage), "--storage")
    refused(lengthwise("list", "--storage", storage), "--storage")
    assert not storage.exists()


def test_a_limit_of_memory_is_one_sentence(lengthwise, tiny, tmp_path):
    line = f'ulimit -v 300000; exec "{sys.executable}" -m orchestrator plan "$@"'
    words, where = ["bash", "-c", line, "plan", tiny], Path(__file__).parents[3]
    done = subprocess.run(words, env=lengthwise.environment, cwd=where, capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and not done.stdout and "0.3 GiB (ulimit -v)" in line and "2 GiB" in line
