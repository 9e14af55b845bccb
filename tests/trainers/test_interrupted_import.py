"""Ctrl-C while this package is imported."""

import subprocess
import sys

PROGRAM = """
import importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "numpy.lib":
            sys.meta_path.remove(self)  # once
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in what a shell runs beside itself
sys.meta_path.insert(0, Interrupting())
import trainers
print("went on")
"""


def test_is_not_swallowed_where_torch_would() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in done.stderr and "went on" not in done.stdout
