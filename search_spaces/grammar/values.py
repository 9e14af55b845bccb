"""The base class of sections, and the types of single values in a sweep file: validators and JSON Schemas."""

import re
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema
from pydantic_core import PydanticCustomError

from search_spaces.grammar.domains import is_number, make_listed_schema, make_value_key, suggest_number
from search_spaces.grammar.passwords import has_password

MAX_NAME_CHARACTERS = 100
MAX_NAME_BYTES = 200  # many file systems stop at 255 bytes, suffixes included
NAME_SYNTAX = (
    "letters, digits, space, '.', '_' and '-', at most 100 characters, with no space or dot at the beginning or end"
)

_WINDOWS_NAMES = {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
_STORAGE_NAMES = {"mlflow.db", "mlruns", "mlartifacts"}  # other content of a storage folder
_INVISIBLE = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")


def normalize_name(name: str) -> str:
    """Return the name in Unicode form NFC, so that it is the same folder on every system."""
    return unicodedata.normalize("NFC", name)


def find_name_problem(name: str) -> str | None:
    """Return the problem of a normalized name as a folder name, None if it is safe.

    >>> find_name_problem("Über die Länge 2.1")
    >>> find_name_problem("../escape")
    "must not start with '.'"
    """
    # A hidden or relative folder could be outside of the storage folder, or be overlooked there.
    if not name.strip():
        return "must not be empty"
    if name[0] in ". ":
        return f"must not start with {name[0]!r}"
    if name[-1] in ". ":
        return f"must not end with {name[-1]!r}"
    if ".." in name:
        return "must not contain '..'"
    if forbidden := next((letter for letter in name if not _is_allowed(letter)), None):
        letter = repr(forbidden) if forbidden.isprintable() else "the character"
        return f"must not contain {letter} (U+{ord(forbidden):04X})"
    if unicodedata.category(name[0]).startswith("M"):
        return "must not start with a combining mark"

    # Names that some file system or the storage folder itself does not allow.
    if len(name) > MAX_NAME_CHARACTERS:
        return f"is {len(name)} characters long"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"is {len(name.encode())} bytes long in UTF-8; at most {MAX_NAME_BYTES} fit a folder name"
    if name.split(".")[0].rstrip().casefold() in _WINDOWS_NAMES:
        return "is reserved by Windows"
    if name.casefold() in _STORAGE_NAMES:
        return "is used by the storage folder itself"
    return None


def _is_allowed(letter: str) -> bool:
    """Return whether a name may contain a character; invisible letters may not."""
    if letter in _INVISIBLE or "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef":
        return False
    category = unicodedata.category(letter)
    return letter in " ._-" or category[0] in "LM" or category == "Nd"


MAX_SEEDS = 100_000
LARGEST_SEED = 2**32 - 1
MAX_RANGE = 100_000  # lengths of a range
STORES = "sqlite:///FILE, http://HOST:PORT, https://HOST, postgresql://HOST/NAME (or mysql, mssql), databricks"
WEB_ADDRESSES = "an address such as https://host/path"
_STORE_SYNTAX = re.compile(r"sqlite:///.+|(https?|(postgresql|mysql|mssql)(\+\w+)?)://[^/].*|databricks(://.+)?")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_SQLITE_HEADER = b"SQLite format 3\0"  # the first bytes of every non-empty SQLite file


class Strict(BaseModel):
    """A frozen section whose values are not converted; unknown keys and other types are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def make_value_error(message: str, allowed: str | None = None, nearest: str | None = None) -> PydanticCustomError:
    """Return the error of a validator: a message in the terms of the file, the allowed and the nearest value."""
    return PydanticCustomError("lengthwise", "{message}", {"message": message, "allowed": allowed, "nearest": nearest})


def find_store_problem(uri: str) -> str | None:
    """Return the problem of an MLflow address (a password, an unknown form, a file that is not a database), or None."""
    # The address is written to the ledger and to reports, so it must not have a password.
    if has_password(uri):
        return (
            "has a password; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead, or for a database "
            "MLFLOW_TRACKING_URI"
        )
    if not _STORE_SYNTAX.fullmatch(uri) or (uri.startswith(("http:", "https:")) and not is_web_address(uri)):
        return "is not an address of MLflow"

    # MLflow creates a missing database, but would fail late on another kind of file.
    path = Path(uri.removeprefix("sqlite:///"))
    with suppress(OSError):  # MLflow explains a file that cannot be read
        if uri.startswith("sqlite:") and path.is_dir():
            return "names a folder, not a SQLite database"
        if uri.startswith("sqlite:") and path.exists():
            with path.open("rb") as file:
                if file.read(len(_SQLITE_HEADER)) not in (b"", _SQLITE_HEADER):
                    return "names a file that is not a SQLite database"
    return None


def make_store_absolute(uri: str) -> str:
    """Return an address of MLflow with the absolute path of a SQLite file; other addresses unchanged."""
    path = uri.removeprefix("sqlite:///")
    return uri if path == uri else f"sqlite:///{Path(path).resolve()}"


def _check_name(value: Any) -> str:
    """Return a normalized name. Raises a validation error for a value that is not a name."""
    if not isinstance(value, str):
        raise make_value_error("must be text; quote a name that looks like a number", NAME_SYNTAX)
    if problem := find_name_problem(name := normalize_name(value)):
        raise make_value_error(problem, NAME_SYNTAX)
    return name


def _check_seeds(value: Any) -> tuple[int, ...]:
    """Return the seeds of a number of seeds, or of a list. Raises a validation error for other values."""
    allowed = f"a number from 1 to {MAX_SEEDS}, or a list of different whole numbers from 0 to {LARGEST_SEED}"
    if is_number(value, whole=True) and 1 <= value <= MAX_SEEDS:
        return tuple(range(value))
    if isinstance(value, (list, tuple)) and len(value) > MAX_SEEDS:
        raise make_value_error(f"has {len(value)} seeds", f"at most {MAX_SEEDS}")
    if isinstance(value, str):
        raise make_value_error(f"{value!r} is not a number", allowed, suggest_number(value, whole=True))
    return _check_integers(value, 0, LARGEST_SEED, allowed)


def expand_ranges(value: Any) -> Any:
    """Return a range, or a list with ranges, as the list of its whole numbers; other values unchanged.

    expand_ranges(["1-3", 8]) -> [1, 2, 3, 8]; expand_ranges("41-43") -> [41, 42, 43]
    """
    # Keep a list with an invalid range unchanged, so that the problem shows what the user wrote.
    entries = value if isinstance(value, list) else [value]
    items = list[Any]()
    for item in entries:
        match = _RANGE.fullmatch(item) if isinstance(item, str) else None
        first, last = map(int, match.groups()) if match else (0, 0)
        if not first <= last < first + MAX_RANGE:
            return value
        items += range(first, last + 1) if match else [item]
    return value if items == entries else items


def _check_lengths(value: Any) -> tuple[int, ...]:
    """Return lengths, with ranges expanded. Raises a validation error for other values."""
    allowed = "a list of different whole numbers, each at least 1, or ranges such as 41-500"
    return _check_integers(expand_ranges(value), 1, None, allowed)


def _check_integers(value: Any, low: int, high: int | None, allowed: str) -> tuple[int, ...]:
    """Return a list of distinct integers from `low` to `high` as a tuple. Raises a validation error for others."""
    if not isinstance(value, (list, tuple)):
        raise make_value_error("is not allowed", allowed, suggest_number(value, whole=True))
    if not value:
        raise make_value_error("must not be empty", allowed)
    for index, item in enumerate(value):
        if not is_number(item, whole=True) or item < low or (high is not None and item > high):
            raise make_value_error(f"item {index} is {item!r}", allowed, suggest_number(item, whole=True))

    # A repeated seed or length would count twice in every median.
    seen: set[int] = set()
    for item in value:
        if item in seen:
            raise make_value_error(f"{item} is in the list more than once", allowed)
        seen.add(item)
    return tuple(value)


def _check_pack_size(value: Any) -> Any:
    """Return auto or a number of members. Raises a validation error for other values."""
    if value == "auto" or (is_number(value, whole=True) and value >= 1):
        return value
    raise make_value_error(
        "is not allowed", "auto, or a whole number of members, at least 1", suggest_number(value, whole=True)
    )


def _check_keep_weights(value: Any) -> Any:
    """Return auto, true or false. Raises a validation error for other values."""
    if value == "auto" or isinstance(value, bool):
        return value
    raise make_value_error("is not allowed", "auto, true or false")


def _check_gpus(value: Any) -> float:
    """Return a fraction of a GPU up to 1, or a whole number. Raises a validation error for other values."""
    if is_number(value) and (0 <= value <= 1 or (value > 1 and float(value).is_integer())):
        return float(value)
    raise make_value_error("is not a share of GPUs", "0, a fraction up to 1, or a whole number", suggest_number(value))


def _check_text(value: Any) -> str:
    """Return a printable text on one line. Raises a validation error for other values."""
    if not isinstance(value, str):
        raise make_value_error("must be text")
    if not value.strip() or not value.isprintable():
        raise make_value_error("must be text, on one line and not empty")
    return value


def is_web_address(text: str) -> bool:
    """Return whether a text is an http or https address with a host."""
    # urlsplit raises ValueError for some invalid ports and hosts.
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_valid and text.isprintable() and " " not in text


def _check_address(value: Any) -> str:
    """Return an http or https address. Raises a validation error for other values."""
    if not isinstance(value, str) or not is_web_address(value):
        raise make_value_error("is not an http or https address", WEB_ADDRESSES)
    return value


def _check_listed(value: Any) -> tuple[dict[str, Any], ...]:
    """Return a list of distinct mappings as a tuple. Raises a validation error for other values."""
    allowed = "a list of mappings from dotted keys to values, each different from the others"
    if not isinstance(value, (list, tuple)) or not value:
        raise make_value_error("must be a list of configurations, at least one", allowed)
    seen: dict[Any, int] = {}
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise make_value_error(f"item {index} is not a mapping", allowed)
        if (first := seen.setdefault(make_value_key(item), index)) != index:
            raise make_value_error(f"item {index} repeats item {first}", allowed)
    return tuple(value)


def _check_modules(value: Any) -> tuple[str, ...]:
    """Return a list of distinct module names as a tuple. Raises a validation error for other values."""
    allowed = "a list of different module names such as my_tasks or my_package.tasks"
    if not isinstance(value, (list, tuple)):
        raise make_value_error("is not allowed", allowed)

    # Module names become file names of the copied code, so their length is limited.
    for index, item in enumerate(value):
        if not isinstance(item, str) or not item.isascii() or not all(map(str.isidentifier, item.split("."))):
            raise make_value_error(f"item {index} is {item!r}, which is not a module name", allowed)
        if max(map(len, item.split("."))) > MAX_NAME_CHARACTERS:
            raise make_value_error(
                f"item {index}, {item[:20]}..., is longer than {MAX_NAME_CHARACTERS} characters", allowed
            )
        if item in value[:index]:
            raise make_value_error(f"{item} is in the list more than once", allowed)
    return tuple(value)


_NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARACTERS, "pattern": r"^[^.\s/\\][^/\\\n]*$"}
_SEEDS_SCHEMA = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": True}
_RANGE_SCHEMA = {"type": "string", "pattern": "^[0-9]+-[0-9]+$"}
_LENGTH_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 1}, _RANGE_SCHEMA]}
LENGTHS_SCHEMA = {
    "anyOf": [_RANGE_SCHEMA, {"type": "array", "items": _LENGTH_SCHEMA, "minItems": 1, "uniqueItems": True}]
}

_MODULE_SCHEMA = {"type": "string", "pattern": r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"}
_MODULES_SCHEMA = {"type": "array", "items": _MODULE_SCHEMA, "uniqueItems": True}

Modules = Annotated[tuple[str, ...], BeforeValidator(_check_modules), WithJsonSchema(_MODULES_SCHEMA)]
Name = Annotated[str, BeforeValidator(_check_name), WithJsonSchema(_NAME_SCHEMA)]
Text = Annotated[str, BeforeValidator(_check_text), WithJsonSchema({"type": "string", "minLength": 1})]
WebhookAddress = Annotated[
    str, BeforeValidator(_check_address), WithJsonSchema({"type": "string", "pattern": r"^https?://[^/\s]+\S*$"})
]
Seeds = Annotated[
    tuple[int, ...],
    BeforeValidator(_check_seeds),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_SEEDS}, _SEEDS_SCHEMA]}),
]
Lengths = Annotated[tuple[int, ...], BeforeValidator(_check_lengths), WithJsonSchema(LENGTHS_SCHEMA)]
Listed = Annotated[
    tuple[dict[str, Any], ...],
    BeforeValidator(_check_listed),
    WithJsonSchema({"type": "array", "items": make_listed_schema(), "minItems": 1, "uniqueItems": True}),
]
PackSize = Annotated[
    Literal["auto"] | int,
    BeforeValidator(_check_pack_size),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}]}),
]
KeepWeights = Annotated[
    Literal["auto"] | bool,
    BeforeValidator(_check_keep_weights),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "boolean"}]}),
]
Gpus = Annotated[float, BeforeValidator(_check_gpus), WithJsonSchema({"type": "number", "minimum": 0})]
