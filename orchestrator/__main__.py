"""Run `lengthwise` as `python -m orchestrator`, also without an installation, as `ray job submit` does."""

import gc
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder, whose modules could hide others

from orchestrator.running.driving.interrupts import INTERRUPTED_EXIT_CODE, Interrupts


def command() -> None:
    """Run the command line with rare garbage collection, because imports create no garbage.

    Handles SIGINT and SIGTERM until the process ends.
    """
    gc.set_threshold(100_000, 50, 50)
    try:
        Interrupts().install_handlers()
        from orchestrator.cli.main import main  # takes half a second

        main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED_EXIT_CODE)
    finally:
        gc.freeze()


if __name__ == "__main__":
    command()
