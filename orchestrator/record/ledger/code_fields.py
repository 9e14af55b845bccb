"""What a record says of the code and the environment of a sweep, and the plain types that all fields are made of."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from pydantic import Discriminator, Field, StrictBool, StrictFloat, StrictStr, Tag
from typing_extensions import TypedDict

Text = StrictStr
Flag = StrictBool
Number = StrictFloat | Annotated[int, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**62)]
Name = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]
Path = Annotated[str, Field(strict=True, pattern=r"^[^\x00]*$")]


class Code(TypedDict):
    """A module of the user's own."""

    module: Text
    root: Text
    installed: Flag
    files: dict[str, Text]
    sha256: Text


class _WorkTree(TypedDict):
    root: Path
    commit: Text | None
    dirty: Flag | None
    by: Text | None
    why: Text | None
    files: dict[Path, Text]
    uncommitted: list[Text]
    main: Text | None


class _Lengthwise(TypedDict):
    version: Text | None
    root: Text
    installed: Flag
    files: dict[Path, Text]
    uncommitted: list[Text]


class _Archive(TypedDict):
    file: Text
    files: Count


class _LeftOut(TypedDict):
    file: Text
    bytes: Count
    why: Text


class _KnownSources(TypedDict):
    name: Text


class _SourcesInFull(_KnownSources):
    trees: list[_WorkTree]
    lengthwise: _Lengthwise
    archive: _Archive | None
    left_out: list[_LeftOut]


def _which_sources(value: Any) -> str:
    """A state of the code is recorded in full once, and by its name from then on."""
    return "in_full" if isinstance(value, Mapping) and "lengthwise" in value else "known"


Sources = Annotated[
    Annotated[_KnownSources, Tag("known")] | Annotated[_SourcesInFull, Tag("in_full")], Discriminator(_which_sources)
]


class RanUnder(TypedDict):
    """What a worker was found to compute with: in full the first time, by its digest from then on."""

    environment: NotRequired[Text]
    environment_in_full: NotRequired[dict[str, dict[str, Text | Flag | Number]]]
