"""The final weights of a member in a .safetensors file, written atomically with a checksum for each tensor.

A tensor has the name `<average>/<parameter>`. The file's metadata is a single entry, because safetensors writes several
in random order: `lengthwise` is JSON with schema, member, step, and the SHA-256 of each tensor by average and
parameter. The ledger records the checksum of the header, so a tensor can be read and verified without the others. Files
are named by member and checksum, so no file is overwritten with other content.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainers.config.member import MemberConfig
from trainers.errors import WeightsError
from trainers.evaluation.results import WeightsFile
from trainers.files.atomic_file import get_final_name, write_all_atomic
from trainers.files.container import is_count

Array = NDArray[Any]
_SCHEMA = 1
_LENGTH_BYTES = 8  # the length of the header, written before it


def list_stored_averages(member: MemberConfig) -> tuple[str, ...]:
    """Return the labels of the averages in a member's weights file, as in `collect_weights`."""
    return tuple(dict.fromkeys(["raw", *member.training.averages]))


class MemberWeights(NamedTuple):
    """The weights of a member after `step` steps.

    member_id: (config_id, seed). weights: {average: {parameter: array}}.
    """

    member_id: tuple[str, int]
    member: MemberConfig
    step: int
    weights: Mapping[str, Mapping[str, Array]]


def write_weights(folder: Path, members: Iterable[MemberWeights]) -> list[WeightsFile]:
    """Write a file for each member and return their descriptions. Raises WeightsError naming the path."""
    files: list[WeightsFile] = []

    # Encode a member when its file is written, so that a single file is in memory at a time.
    def encode_files() -> Iterator[tuple[str, list[bytes]]]:
        for member in members:
            file, content = _encode(member)
            files.append(file)
            yield file.name, [content]

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_all_atomic(folder, encode_files())
    except OSError as error:
        # The error may name the temporary file, which the user does not know.
        path = Path(error.filename)
        path = path.with_name(get_final_name(path.name))
        raise WeightsError(f"cannot write weights {path}: {error.strerror or error}") from error
    return files


def _encode(member: MemberWeights) -> tuple[WeightsFile, bytes]:
    """Return the description and the bytes of a weights file."""
    from safetensors.numpy import save

    # A checksum for each tensor lets a reader verify one without reading the others.
    arrays = {
        (average, name): np.asarray(array, order="C")
        for average, tensors in member.weights.items()
        for name, array in tensors.items()
    }
    sha256s: dict[str, dict[str, str]] = {average: {} for average in member.weights}
    for (average, name), array in arrays.items():
        sha256s[average][name] = hashlib.sha256(array.tobytes()).hexdigest()

    # The header contains the checksums of the tensors, so its own checksum covers the whole file.
    metadata = {"schema": _SCHEMA, "member": member.member.to_dict(), "step": member.step, "sha256": sha256s}
    content = save({"/".join(key): array for key, array in arrays.items()}, {"lengthwise": json.dumps(metadata)})
    sha256 = hashlib.sha256(content[: _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")]).hexdigest()
    name = f"{make_member_prefix(*member.member_id)}{sha256[:12]}.safetensors"
    return WeightsFile(name=name, sha256=sha256, bytes=len(content)), content


def make_member_prefix(config_id: str, seed: int) -> str:
    """Return the start of the names of a member's weights files."""
    return f"{config_id}-{seed}-"


class StoredWeights(Mapping[str, Array]):
    """The weights of an average of a member, by parameter name, in the order of `Model.parameters`.

    Each array is read and verified on access. Raises WeightsError naming the file if it is damaged or does not have the
    average. member: the member as plain sections. step: the number of training steps.
    """

    def __init__(self, path: Path, sha256: str, average: str) -> None:
        self.path = path
        self._average = average
        metadata = _read_metadata(path, sha256)
        self.member: dict[str, Any] = metadata["member"]
        self.step: int = metadata["step"]
        self.averages = tuple(metadata["sha256"])
        if average not in self.averages:
            raise WeightsError(f"{path}: has no average {average!r}; allowed: {', '.join(self.averages)}")
        self._sha256s: dict[str, str] = metadata["sha256"][average]

    def __getitem__(self, name: str) -> Array:
        from safetensors import SafetensorError, safe_open

        sha256 = self._sha256s[name]
        try:
            with safe_open(self.path, framework="np") as file:
                array: Array = file.get_tensor(f"{self._average}/{name}")
        except (SafetensorError, OSError) as error:
            raise _make_damage_error(self.path, str(error)) from error
        if hashlib.sha256(array.tobytes()).hexdigest() != sha256:
            raise _make_damage_error(self.path, f"{self._average} {name} does not match its checksum")
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._sha256s)

    def __len__(self) -> int:
        return len(self._sha256s)


def _read_metadata(path: Path, sha256: str) -> dict[str, Any]:
    """Return the checked metadata of a file whose header has this checksum. Raises WeightsError."""
    from safetensors import SafetensorError, safe_open

    # The parser must see no damaged header, so its checksum comes first.
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise _make_damage_error(path, "it is not a regular file")
    try:
        with path.open("rb") as file:
            length_bytes = file.read(_LENGTH_BYTES)
            header_size = min(int.from_bytes(length_bytes, "little"), path.stat().st_size)
            header = length_bytes + file.read(header_size)
    except OSError as error:
        raise _make_damage_error(path, f"it cannot be read: {error.strerror}") from error
    if hashlib.sha256(header).hexdigest() != sha256:
        raise _make_damage_error(path, "its header does not match its checksum")

    # The header is JSON that anyone may have written, so every part of it is checked.
    try:
        with safe_open(path, framework="np") as opened:
            metadata: Any = json.loads((opened.metadata() or {})["lengthwise"])
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
        raise _make_damage_error(path, f"it is not a .safetensors file of lengthwise: {error}") from error

    # The checksum rules out damage, but not a file of another version.
    schema = metadata.get("schema") if isinstance(metadata, dict) else None
    if is_count(schema) and schema != _SCHEMA:
        raise WeightsError(f"weights {path} have schema {schema}; this version reads {_SCHEMA}")
    if schema != _SCHEMA:
        raise _make_damage_error(path, "its metadata has no schema")
    sha256s = metadata.get("sha256")
    is_valid = isinstance(metadata.get("member"), dict) and is_count(metadata.get("step")) and isinstance(sha256s, dict)
    if not is_valid or not all(isinstance(table, dict) for table in sha256s.values()):
        raise _make_damage_error(path, "its metadata lacks member, step or checksums")
    return dict(metadata)


def _make_damage_error(path: Path, reason: str) -> WeightsError:
    """Return the error for a damaged file."""
    return WeightsError(f"weights {os.fspath(path)} are damaged: {reason}")
