"""Report how a command ended. Imports little at first, because an interrupt may come before anything is imported."""

import os
import sys
import traceback

from orchestrator.running.driving.interrupts import INTERRUPTED_EXIT_CODE

DEBUG_VARIABLE = "LENGTHWISE_DEBUG"


def report_end(exception: BaseException) -> int:
    """Print why a command ended, an expected error as one message on stderr without a traceback; return its exit code.

    Commands end with SystemExit, or with any exception: the user's code may raise anything.
    """
    if _is_interrupt(exception):
        sys.stderr.write("interrupted\n")
        return INTERRUPTED_EXIT_CODE
    if isinstance(exception, SystemExit):
        code = exception.code if isinstance(exception.code, int) else int(exception.code is not None)
    else:
        _print_error(exception)
        code = choose_exit_code(exception)

    # Output that could not be written is a failure, too.
    from orchestrator.text.consoles import LenientOutput  # imports rich

    sys.stdout.flush()
    return code or int(LenientOutput.lost)


def choose_exit_code(error: BaseException) -> int:
    """Return the exit code for an error: its own, 2 for an invalid sweep file, else 1."""
    from orchestrator.errors import LengthwiseError
    from search_spaces import SweepFileError

    if isinstance(error, LengthwiseError):
        return error.exit_code
    return 2 if isinstance(error, SweepFileError) else 1


def _is_interrupt(exception: BaseException) -> bool:
    """Return whether a signal ended a command: KeyboardInterrupt, or the SystemExit that typer makes of it."""
    if isinstance(exception, SystemExit) and exception.__context__ is not None:
        return isinstance(exception.__context__.__cause__, KeyboardInterrupt)
    return isinstance(exception, KeyboardInterrupt)


def _print_error(error: BaseException) -> None:
    """Print an error on stderr: its message, for an internal error also its type, or a traceback for debugging."""
    from orchestrator.errors import LengthwiseError
    from orchestrator.machine.exhaustion import describe_out_of_memory
    from orchestrator.text.consoles import make_console, say
    from orchestrator.text.redaction import make_printable
    from search_spaces import SweepFileError

    if os.environ.get(DEBUG_VARIABLE):
        sys.stderr.write(make_printable("".join(traceback.format_exception(error))))
    elif isinstance(error, LengthwiseError | SweepFileError):
        say(make_console(stderr=True), error.full_text if isinstance(error, SweepFileError) else str(error))
    elif memory := describe_out_of_memory(error):
        sys.stderr.write(f"{make_printable(memory)}\n")  # a console would need memory
    elif isinstance(error, OSError) and error.filename and not isinstance(error, FileNotFoundError):
        message = f"{error.filename2 or error.filename}: cannot be used: {error.strerror}"
        say(make_console(stderr=True), message)
    else:
        console = make_console(stderr=True)
        say(console, f"internal error: {type(error).__name__}: {error}")
        say(console, f"to see the traceback, set {DEBUG_VARIABLE}=1")
