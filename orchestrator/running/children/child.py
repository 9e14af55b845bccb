"""Start a child process that imports a module early and then serves one connection.

    python -m orchestrator.running.children.child MODULE DESCRIPTOR [ARGUMENT ...]

The child imports MODULE and calls its `serve(DESCRIPTOR, *ARGUMENTS)`. If the import fails, it sends an `import_error`.
"""

import gc
import json
import os
import sys
import traceback
from importlib import import_module
from multiprocessing.connection import Connection

import psutil

from orchestrator.code.packages import make_module_command
from orchestrator.running.pack.retries import describe_exception


def start_child(module: str, descriptor: int, *arguments: str) -> psutil.Popen:
    """Start a child that serves this file descriptor, in a new session, so that Ctrl-C reaches only the driver."""
    command = make_module_command("orchestrator.running.children.child", module, str(descriptor), *arguments)
    return psutil.Popen(command, pass_fds=[descriptor], start_new_session=True)


def import_without_gc(module: str) -> None:
    """Import a module with garbage collection off: imports create no garbage, and frozen pages stay shared in forks."""
    gc.disable()
    import_module(module)
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    _, name, number, *arguments = sys.argv
    try:
        import_without_gc(name)
    except Exception as error:
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")
        ]
        message = describe_exception(error, [(frame.filename, frame.lineno) for frame in frames[-1:]])
        Connection(int(number)).send_bytes(json.dumps({"import_error": [message, traceback.format_exc()]}).encode())
        os._exit(1)
    sys.modules[name].serve(int(number), *arguments)
    os._exit(0)  # skip the clean-up of large libraries
