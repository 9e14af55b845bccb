"""`python -m orchestrator` is `lengthwise`: what `ray job submit` calls where nothing is installed."""

import gc
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder: its modules have nothing to do with lengthwise

from orchestrator.running.driving.interrupts import EXIT_CODE, Interrupts


def command() -> None:
    """Run the command line, with garbage collection seldom: imports create none.

    Signals are handled from here on to the end of the process.
    """
    gc.set_threshold(100_000, 50, 50)
    try:
        Interrupts().install()
        from orchestrator.cli.main import main  # takes half a second

        main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(EXIT_CODE)
    finally:
        gc.freeze()


if __name__ == "__main__":
    command()
