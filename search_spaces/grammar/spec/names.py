"""Names that become folders and MLflow experiments: in any script, but inside the storage folder."""

import unicodedata

MAX_CHARACTERS = 100
MAX_BYTES = 200  # many file systems stop at 255 bytes, suffixes included
ALLOWED = "letters, digits, space, '.', '_' and '-', at most 100 characters, starting and ending with none of ' ' '.'"

_WINDOWS = {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
_STORAGE = {"mlflow.db", "mlruns", "mlartifacts"}  # other content of a storage folder
_INVISIBLE = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")


def normalize_name(name: str) -> str:
    """Return the name in Unicode form NFC, so that it is one folder on every system."""
    return unicodedata.normalize("NFC", name)


def name_problem(name: str) -> str | None:
    """Return what is wrong with a normalised name, None if it is safe.

    >>> name_problem("Über die Länge 2.1")
    >>> name_problem("../escape")
    "must not start with '.'"
    """
    if not name.strip():
        return "must not be empty"
    if name[0] in ". ":
        return f"must not start with {name[0]!r}"
    if name[-1] in ". ":
        return f"must not end with {name[-1]!r}"
    if ".." in name:
        return "must not contain '..'"
    if bad := next((letter for letter in name if not _allowed(letter)), None):
        shown = repr(bad) if bad.isprintable() else "the character"
        return f"must not contain {shown} (U+{ord(bad):04X})"
    if unicodedata.category(name[0]).startswith("M"):
        return "must not start with a combining mark"
    if len(name) > MAX_CHARACTERS:
        return f"is {len(name)} characters long"
    if len(name.encode()) > MAX_BYTES:
        return f"is {len(name.encode())} bytes long in UTF-8; at most {MAX_BYTES} fit a folder name"
    if name.split(".")[0].rstrip().casefold() in _WINDOWS:
        return "is reserved by Windows"
    if name.casefold() in _STORAGE:
        return "is used by the storage folder itself"
    return None


def _allowed(letter: str) -> bool:
    if letter in _INVISIBLE or "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef":
        return False
    category = unicodedata.category(letter)
    return letter in " ._-" or category[0] in "LM" or category == "Nd"
