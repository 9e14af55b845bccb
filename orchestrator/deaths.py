"""What terminal, report and status say of packs that died."""

from collections.abc import Sequence
from pathlib import Path


def counted(number: int, noun: str) -> str:
    """counted(1, "pack") -> "1 pack"; counted(2, "pack") -> "2 packs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def death_sentence(errors: Sequence[str], folder: Path) -> str:
    """How many packs were given up, the last error, and what to do; empty when none was."""
    if not errors:
        return ""
    more = f"details: lengthwise status {folder}; try them again: lengthwise resume {folder} --retry-failed"
    return f"{counted(len(errors), 'pack')} died: {errors[-1]}; {more}"
