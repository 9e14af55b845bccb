"""What the record of a sweep says of its specification, and of the sweeps that it confirms or continues."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from orchestrator.record.ledger.code_fields import Count, Folder, Name, Number, Seeds, Text
from search_spaces import Rungs

Tree = dict[str, Any]
Quartiles = tuple[Number, Number, Number]


class _Identity(TypedDict):
    sweep: Text
    spec_hash: Text


class _Confirmed(TypedDict):
    config_id: Text
    values: Tree
    rank: Count
    score: Quartiles
    test: Quartiles | None


class _Confirms(_Identity):
    root: _Identity
    of: Count
    used_seeds: NotRequired[list[Count]]
    configurations: NotRequired[list[_Confirmed]]


class _Continued(TypedDict):
    config_id: Name
    packs: dict[str, Name]


class _Continues(_Identity):
    folder: Folder
    steps: Count
    configurations: dict[str, _Continued]


class Provenance(TypedDict, total=False):
    """Versions, and the sweeps from which this one was made."""

    versions: Tree
    confirms: _Confirms
    continues: _Continues


class _Domain(TypedDict, total=False):
    grid: list[Any]


class _Racing(TypedDict):
    first: Count
    steps: NotRequired[Rungs | None]


class _Search(TypedDict, total=False):
    listed: list[Any] | None
    configurations: Count | None
    racing: _Racing | None


class _Objective(TypedDict, total=False):
    direction: Literal["minimize", "maximize"]


class _Tracking(TypedDict, total=False):
    uri: Text | None
    experiment: Text | None


class Spec(TypedDict, total=False):
    """What is read of a specification without parsing it."""

    task: Tree
    model: Tree
    training: Tree
    evaluation: Tree
    space: dict[str, _Domain | list[Any]]
    search: _Search
    seeds: Seeds
    objective: _Objective
    resources: Tree
    tracking: _Tracking | None
