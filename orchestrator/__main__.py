"""Run `lengthwise` as `python -m orchestrator`, also without an installation, as `ray job submit` does."""

import gc
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder, whose modules could hide others

from orchestrator.cli.command_end import report_end
from orchestrator.running.driving.interrupts import Interrupts


def command() -> None:
    """Run the command line with rare garbage collection, because imports create no garbage; exit with its code.

    Handles SIGINT and SIGTERM until the process ends.
    """
    gc.set_threshold(100_000, 50, 50)
    code = 0
    try:
        Interrupts().install_handlers()
        from orchestrator.cli.main import app  # takes half a second
        from orchestrator.text.consoles import make_streams_lenient
        from orchestrator.text.redaction import mask_log_records

        # A character that the terminal lacks must not end a run, and logs of libraries may contain passwords.
        make_streams_lenient()
        mask_log_records()
        app()
    except BaseException as end:
        code = report_end(end)
    finally:
        gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    command()
