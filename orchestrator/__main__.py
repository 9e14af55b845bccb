"""`python -m orchestrator` is `lengthwise`: what `ray job submit` calls where nothing is installed."""

import gc

from orchestrator.cli import main


def command() -> None:
    """Run the command line. Little garbage is looked for, and none at the end: among what is imported there is none."""
    gc.set_threshold(100_000, 50, 50)
    try:
        main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    command()
