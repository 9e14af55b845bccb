"""The fields of each kind of record, which are checked when a ledger is read: another program may have written it.

A correct checksum shows that a line is unchanged, not that lengthwise wrote it. Fields that are not named here may have
any value: newer versions add some. Names that become part of file names are checked against a pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from orchestrator.record.ledger.code_fields import Code, Count, Flag, Name, Number, RanUnder, Seeds, Text
from orchestrator.record.ledger.folders import WEIGHTS_FOLDER, is_inside
from orchestrator.record.ledger.sweep_fields import Provenance, Spec, Tree

_SHOWN = 60


class _Sweep(TypedDict):
    name: Text
    study: Text
    spec: Spec
    spec_hash: Text
    provenance: Provenance
    small_weights: NotRequired[Flag]
    claims: NotRequired[dict[str, Text]]
    code: NotRequired[Code]


class _Training(TypedDict, total=False):
    schedule: Tree | Text
    averages: dict[str, Tree]


class _Resolved(TypedDict, total=False):
    task: Tree | Text
    model: Tree | Text
    training: _Training
    evaluation: Tree


class _Set(TypedDict):
    distribution: Text
    lengths: list[Count]
    trained_lengths: list[Count]
    metrics: dict[str, tuple[Text, Text]]


class _Family(TypedDict):
    label: Text
    metrics: list[tuple[Number, Text]]


class _Measured(TypedDict):
    lengths: list[Count]
    averages: list[Text]
    sets: list[_Set]
    longest_trained: dict[str, Count]
    headline: list[Text]
    families: dict[str, _Family]
    pairs: list[tuple[Text, Text]]
    trained: NotRequired[dict[str, list[Count]]]
    technical: NotRequired[list[Text]]


class _Configuration(TypedDict):
    number: Count
    config_id: Name
    values: Tree
    resolved: _Resolved
    duplicate_of: Text | None
    draw: NotRequired[Count]
    measured: Text
    measured_in_full: NotRequired[dict[str, _Measured]]


class _Pack(TypedDict):
    pack_id: Name
    structural_key: Text
    members: list[tuple[Name, Count]]
    steps: Count


class _NewPack(_Pack):
    """A pack in the place of others. `earlier` are those whose checkpoints have its members' states, newest first."""

    earlier: NotRequired[list[Name]]


class _Shortage(TypedDict):
    """A pack that ran out of memory, where, and after how many seconds of training."""

    pack_id: Name
    structural_key: Text
    members: Count
    bytes: Count
    device: Text
    error: Text
    seconds: Number


class _Recut(TypedDict):
    """Packs that no worker had begun, the packs in their place, and how many workers these were cut for.

    With a shortage its pack is among them; if it has evaluations or checkpoints, it is the only one.
    """

    pack_ids: list[Name]
    packs: list[_NewPack]
    workers: Count
    shortage: NotRequired[_Shortage]


class _WeightsFile(TypedDict):
    name: Text
    sha256: Text
    bytes: Count


class _Validation(TypedDict):
    metric: Text
    average: Text
    lengths: list[Count]
    values: list[list[Number]]


_Step = Annotated[int, Field(strict=True, ge=-1, le=2**62)]


class _Curves(TypedDict):
    """Small curves of a pack. `values` has a row for each member: by average, metric and length; None is NaN."""

    averages: list[Text]
    metrics: list[Text]
    lengths: list[Count]
    values: list[list[Number | None]]


class _Evaluation(RanUnder):
    """An evaluation of a pack. Its curves are in a file, or in the record itself if its sweep has INLINE_SCHEMA."""

    pack_id: Name
    step: Count
    final: Flag
    file: NotRequired[Text]
    sha256: NotRequired[Text]
    curves: NotRequired[_Curves]
    loss: list[Number]
    failed_at: list[_Step]
    seconds: Number
    form: Text | None
    compiled: Flag | None
    weights: NotRequired[list[_WeightsFile | None]]
    stopped_at: NotRequired[list[_Step]]
    stages: NotRequired[list[Count]]
    validation: NotRequired[list[_Validation]]


class _LaterEvaluation(TypedDict):
    """Curves of kept weights: `task` has the replaced settings, `weights` a checksum by seed, None for a failed one."""

    config_id: Name
    seeds: list[Count]
    weights: list[Text | None]
    task: Tree
    samples: Count
    step: Count
    averages: list[Text]
    measured: _Measured
    file: Text
    sha256: Text
    environment: NotRequired[Tree]


class _Attempt(RanUnder):
    pack_id: Name
    error: Text
    trace: NotRequired[Text | None]


class _PackEnd(TypedDict):
    pack_id: Name
    status: Literal["complete", "failed"]
    error: Text | None
    seconds: Number


class _Score(TypedDict):
    config_id: Name
    number: Count
    score: Number | None
    seeds_failed: Count


class _End(TypedDict):
    status: Text
    message: Text | None


class _Resume(TypedDict):
    provenance: Provenance
    code: NotRequired[Code]


class _Extend(_Resume):
    spec: Spec
    spec_hash: Text
    seeds: NotRequired[dict[Name, Seeds]]
    asked: NotRequired[Tree]


class _Race(TypedDict):
    round: Count
    seeds: Seeds
    survivors: list[Name]
    next: Seeds
    by: Literal["median", "rank sum"]
    values: dict[Name, Number | None]
    p: NotRequired[Number | None]


class _Rung(TypedDict):
    rung: Count
    step: Count
    since: Count
    seeds: Seeds
    survivors: list[Name]
    guarded: list[Name]
    values: dict[Name, Number | None]
    improvements: dict[Name, Number | None]
    spreads: dict[Name, Number | None]


class _Retry(TypedDict):
    pack_ids: list[Name]


class _Publish(TypedDict, total=False):
    uri: Text | None
    ok: Flag
    message: Text
    experiment: Text  # of MLflow, if a driver published


KINDS: Mapping[str, Any] = {
    "sweep": _Sweep,
    "configuration": _Configuration,
    "pack": _Pack,
    "recut": _Recut,
    "evaluation": _Evaluation,
    "later_evaluation": _LaterEvaluation,
    "attempt": _Attempt,
    "pack_end": _PackEnd,
    "score": _Score,
    "end": _End,
    "resume": _Resume,
    "extend": _Extend,
    "race": _Race,
    "rung": _Rung,
    "retry": _Retry,
    "publish": _Publish,
}


def wrong_field(kind: str, fields: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the fields of a record, naming the field; None for a good one."""
    if kind not in KINDS:
        return f"unknown kind of record {kind!r}"
    try:
        _adapter(kind).validate_python(fields)
    except ValidationError as error:
        return _in_words(kind, error)
    if kind in ("evaluation", "later_evaluation"):
        curves = fields.get("curves")
        if curves is not None:
            row = len(curves["averages"]) * len(curves["metrics"]) * len(curves["lengths"])
            if any(len(values) != row for values in curves["values"]):
                return f"curves of a record of kind {kind} do not have {row} values for each member"
        elif missing := next((name for name in ("file", "sha256") if name not in fields), None):
            return f"a record of kind {kind} without {missing!r}"
        weights = [file["name"] for file in fields.get("weights", ()) if isinstance(file, Mapping)]
        named = [("file", fields["file"])] if "file" in fields else []
        named += [("weights.name", f"{WEIGHTS_FOLDER}/{name}") for name in weights]
        for field, path in named:
            if not is_inside(path):
                return f"{field} of a record of kind {kind} is not a plain path inside the sweep folder: {path!r}"
    return None


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(KINDS[kind])


def _in_words(kind: str, error: ValidationError) -> str:
    faults = error.errors(include_url=False)
    missing = next((one for one in faults if one["type"] == "missing" and len(one["loc"]) == 1), None)
    if missing is not None:
        return f"a record of kind {kind} without {str(missing['loc'][0])!r}"
    fault = faults[0]
    given = repr(fault["input"])
    given = given if len(given) <= _SHOWN else f"{given[: _SHOWN - 3]}..."
    place = ".".join(str(part) for part in fault["loc"])
    wanted = fault["msg"].removeprefix("Input ").removeprefix("should be ")
    return f"{place} of a record of kind {kind} is {given}; it should be {wanted[:1].lower()}{wanted[1:]}"
