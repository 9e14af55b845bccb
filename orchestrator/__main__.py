"""`python -m orchestrator` is `lengthwise`: what `ray job submit` calls where nothing is installed."""

from orchestrator.cli import main

if __name__ == "__main__":
    main()
