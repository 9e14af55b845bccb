"""The fields of a record for the code and the environment of a sweep, and the plain types of all fields."""

from typing import Annotated, NotRequired

from pydantic import Field, StrictBool, StrictFloat, StrictStr
from typing_extensions import TypedDict

from search_spaces.grammar.spec.values import MAX_SEEDS

Text = StrictStr
Flag = StrictBool
Number = StrictFloat | Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**62)]
Seeds = Annotated[list[Count], Field(max_length=MAX_SEEDS)]
Name = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]
Folder = Annotated[str, Field(strict=True, pattern=r"^[^.\s/\\][^/\\\x00]*$")]
Path = Annotated[str, Field(strict=True, pattern=r"^[^\x00]*$")]


class _Module(TypedDict):
    """A module of `imports`."""

    module: Text
    root: Text
    installed: Flag
    files: dict[str, Text]
    sha256: Text


class _Diff(TypedDict):
    bytes: Count
    file: Text | None


class _Folder(TypedDict):
    root: Path
    commit: Text | None
    dirty: Flag | None
    diff: _Diff | None
    source: Text | None
    problem: Text | None
    files: dict[Path, Text]
    not_copied: list[Text]


class Code(TypedDict):
    """The code of a sweep (`orchestrator.code.code_record`)."""

    name: Text
    version: Text | None
    root: Text
    engine: dict[Text, Text]
    modules: list[_Module]
    folders: list[_Folder]


class RanUnder(TypedDict):
    """The environment of a worker: in full the first time, by its digest from then on."""

    environment: NotRequired[Text]
    environment_in_full: NotRequired[dict[str, dict[str, Text | Flag | Number]]]
