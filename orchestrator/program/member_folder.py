"""The files that lengthwise keeps in the folder of a member, beside those that its program writes there."""

import re
from pathlib import Path

LOCK_FILE = "lock"
USED_UP_HOURS_FILE = "member_hours_used_up_at"
_ATTEMPT_FILE = re.compile(r"attempt-\d+\.(jsonl|log|config\.json|declared\.json)")
_OLD_FILES = ("config.json", "declared.json")  # written by versions before 2.1


def read_attempt_number(path: Path) -> int:
    """Return the number of the attempt that has written a file; 0 for a program's own files of similar names."""
    match = re.fullmatch(r"attempt-(\d+)", path.stem)
    return int(match[1]) if match else 0


def is_written_by_lengthwise(name: str) -> bool:
    """Return whether lengthwise, and not the program, writes a file of this name into the folder of a member."""
    return name in (LOCK_FILE, USED_UP_HOURS_FILE, *_OLD_FILES) or bool(_ATTEMPT_FILE.fullmatch(name))
