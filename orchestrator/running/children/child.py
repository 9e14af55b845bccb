"""Starts a child process that imports a module ahead of its work and then serves one connection.

    python -m orchestrator.running.children.child MODULE DESCRIPTOR [ARGUMENT ...]

The child imports MODULE and calls its `serve(DESCRIPTOR, *ARGUMENTS)`.
"""

import gc
import os
import sys
from importlib import import_module

import psutil


def start_child(module: str, descriptor: int, *arguments: str) -> psutil.Popen:
    """Start a child that serves this file descriptor, in its own session: Ctrl-C reaches the driver alone."""
    command = [sys.executable, "-m", "orchestrator.running.children.child", module, str(descriptor), *arguments]
    return psutil.Popen(command, pass_fds=[descriptor], start_new_session=True)


def load(module: str) -> None:
    """Import a module with garbage collection off: imports create no garbage, and frozen pages stay shared in forks."""
    gc.disable()
    import_module(module)
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    _, name, number, *more = sys.argv
    load(name)
    sys.modules[name].serve(int(number), *more)
    os._exit(0)  # skip the clean-up of large libraries
