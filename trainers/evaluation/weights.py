"""The final weights of a member in one file: atomic, checksummed array by array, read without executing code.

A file is one JSON header line (schema, member, step, and every array with its average, name, dtype, shape, checksum)
followed by the raw arrays. The checksum of the header, which the ledger keeps, vouches for all of them, so that one
array can be read and trusted without the rest. Files are named by member and checksum: none is ever overwritten by
another one's content.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers.config.member import MemberConfig
from trainers.errors import WeightsError
from trainers.evaluation.results import WeightsFile
from trainers.files.arrays import Described, described, is_count
from trainers.files.atomic_file import write_whole

Array = NDArray[Any]
_SCHEMA = 1
_LONGEST_HEADER = 2**26


def averages_kept(member: MemberConfig) -> tuple[str, ...]:
    """The labels that `weights_of` has for the packs of a member."""
    return tuple(dict.fromkeys(["raw", *member.training.averages]))


def write_weights(
    folder: Path,
    member_id: tuple[str, int],
    member: MemberConfig,
    step: int,
    weights: Mapping[str, Mapping[str, Array]],
) -> WeightsFile:
    """Write the weights of the member named (config_id, seed), {average: {parameter: array}}.

    Raises WeightsError naming the path.
    """
    arrays = [
        (average, name, np.asarray(array, order="C")) for average, of in weights.items() for name, array in of.items()
    ]
    directory = [
        {
            "average": average,
            "name": name,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        }
        for average, name, array in arrays
    ]
    plain = {"schema": _SCHEMA, "member": member.to_dict(), "step": step, "arrays": directory}
    header = json.dumps(plain, separators=(",", ":")).encode() + b"\n"
    sha256 = hashlib.sha256(header).hexdigest()
    name = f"{member_prefix(*member_id)}{sha256[:12]}.weights"

    def pieces() -> Iterator[bytes]:
        yield header
        for _, _, array in arrays:
            yield array.tobytes()

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, pieces())
    except OSError as error:
        raise WeightsError(f"cannot write weights {folder / name}: {error.strerror or error}") from error
    return WeightsFile(name=name, sha256=sha256, bytes=len(header) + sum(array.nbytes for _, _, array in arrays))


def member_prefix(config_id: str, seed: int) -> str:
    """How the names of a member's files begin."""
    return f"{config_id}-{seed}-"


class StoredWeights(Mapping[str, Array]):
    """The weights of one average of a member, by parameter name, in the order of `Model.parameters`.

    Each array is read and checked when it is asked for. Raises WeightsError naming the file: when it is not what was
    written, or has no such average. `member` are the sections of the member, `step` is how long it trained.
    """

    def __init__(self, path: Path, sha256: str, average: str) -> None:
        self.path = path
        header, offset = _header(path, sha256)
        self.member: dict[str, Any] = header["member"]
        self.step: int = header["step"]
        self.averages = tuple(dict.fromkeys(entry["average"] for entry in header["arrays"]))
        self._places: dict[str, tuple[dict[str, Any], int, Described]] = {}
        available = path.stat().st_size
        for entry in header["arrays"]:
            try:
                kind = described(entry, available)
            except ValueError as error:
                raise _damaged(path, str(error)) from None
            if entry["average"] == average:
                self._places[entry["name"]] = entry, offset, kind
            offset += kind.bytes
        if available != offset:
            raise _damaged(path, f"it has {available} bytes, not {offset}")
        if average not in self.averages:
            raise WeightsError(f"{path} has no average {average!r}; it has {', '.join(self.averages)}")

    def __getitem__(self, name: str) -> Array:
        entry, offset, kind = self._places[name]
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                content = file.read(kind.bytes)
        except OSError as error:
            raise _damaged(self.path, f"it cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise _damaged(self.path, f"{entry['average']} {name} does not match its checksum")
        return np.frombuffer(content, kind.dtype).reshape(kind.shape).copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _header(path: Path, sha256: str) -> tuple[dict[str, Any], int]:
    """The header of a file and its length. The checksum tells that it is whole, and of a schema this code wrote."""
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise _damaged(path, "it is not a regular file")
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
    except OSError as error:
        raise _damaged(path, f"it cannot be read: {error.strerror}") from error
    if hashlib.sha256(line).hexdigest() != sha256:
        raise _damaged(path, "its header does not match its checksum")
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is no JSON") from None
    schema = header.get("schema") if isinstance(header, dict) else None
    if is_count(schema) and schema != _SCHEMA:
        raise WeightsError(f"weights {path} have schema {schema}; this version reads {_SCHEMA}")
    if schema != _SCHEMA or (wrong := _wrong(header)):
        raise _damaged(path, f"its header has no {'schema' if schema != _SCHEMA else wrong}")
    return header, len(line)


def _wrong(header: Mapping[str, Any]) -> str | None:
    """The first field of a header that is missing or of another type, None in a good one."""
    good = {"member": isinstance(header.get("member"), dict), "step": is_count(header.get("step"))}
    arrays = header.get("arrays")
    good["arrays"] = isinstance(arrays, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(key), str) for key in ("average", "name", "sha256"))
        for one in arrays
    )
    return next((field for field, whole in good.items() if not whole), None)


def _damaged(path: Path, why: str) -> WeightsError:
    return WeightsError(f"weights {os.fspath(path)} are damaged: {why}")
