"""`python -m orchestrator` is `lengthwise`: what `ray job submit` calls where nothing is installed."""

import gc

from orchestrator.cli import main


def command() -> None:
    """Run the command line; the process then ends without a search for garbage, which takes half a second."""
    try:
        main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    command()
