"""What git and the digests say of this repository, read once: every sweep of a test asks, and no test changes it."""

from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.code import code_record
from orchestrator.code.repository import RepositoryReader

REPOSITORY = Path(__file__).resolve().parents[1]
_run_git, _compute_digest = RepositoryReader._run_git, code_record.compute_engine_digest
_outputs: dict[tuple[str, ...], Any] = {}


def read_once() -> None:
    """Let this process and its forks run git and compute digests of this repository once, of others every time."""
    RepositoryReader._run_git = _run_git_once
    code_record.compute_engine_digest = _compute_digest_once


def read_now() -> None:
    """Read it at once, for the forks of this process."""
    read_once()
    with RepositoryReader([REPOSITORY]) as reader:
        reader.read()
    code_record.compute_part_digests()


def _run_git_once(reader: RepositoryReader, folder: Path, command: tuple[str, ...]) -> Any:
    if folder != REPOSITORY:
        return _run_git(reader, folder, command)
    output = _outputs.get(command) or _run_git(reader, folder, command)
    if not output.problem:
        _outputs[command] = output
    return output


def _compute_digest_once(part: str) -> str:
    is_own = code_record.LENGTHWISE_FOLDER == REPOSITORY  # some tests put a copy in its place
    return _compute_own_digest(part) if is_own else _compute_digest(part)


@cache
def _compute_own_digest(part: str) -> str:
    return _compute_digest(part)
