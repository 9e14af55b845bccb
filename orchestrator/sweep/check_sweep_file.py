"""Check a sweep file that was read, as `run`, `validate` and `lengthwise.run` do."""

from pathlib import Path

from orchestrator.plan.checks.sweep_file_checks import check_parsed_sweep
from orchestrator.record.files.recorded_modules import use_recorded_files
from orchestrator.sweep.resolve_initial_weights import resolve_initial_weights
from search_spaces import SweepSpec
from search_spaces.grammar.load import Reading


def check_sweep_file(reading: Reading, storage: Path | None) -> SweepSpec:
    """Return the checked specification; initial weights of other sweeps are looked up in `storage`.

    Raises SweepFileError with every problem of the file.
    """
    use_recorded_files(reading.spec)
    return check_parsed_sweep(resolve_initial_weights(reading, storage))
