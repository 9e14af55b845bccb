"""A header and named arrays as the bytes of one .npz file with a checksum, read without executing code.

The header is the array `header`, JSON in UTF-8. The comment at the end of the archive is the SHA-256 of all bytes
before it, checked before anything is parsed. `numpy.load(path)` opens such a file too.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

_DIGEST_SIZE = 64  # hexadecimal digits of a SHA-256
_SUFFIX = ".npy"


def encode(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> memoryview:
    """Return a header and arrays as the bytes of a container; no array may be named `header` or `file`."""
    file = io.BytesIO()
    text = json.dumps(header).encode()
    np.savez(file, allow_pickle=False, header=np.frombuffer(text, np.uint8), **dict(arrays))

    # As the comment of the archive the digest is ignored by readers of .npz files.
    file.seek(-2, io.SEEK_END)
    file.write(_DIGEST_SIZE.to_bytes(2, "little"))  # the archive ends with the length of its comment
    digest = hashlib.sha256(file.getbuffer()).hexdigest()
    file.write(digest.encode())
    return file.getbuffer()


def decode(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a container. Raises ValueError if it is damaged."""
    # The parsers below must see no damaged bytes.
    if hashlib.sha256(data[:-_DIGEST_SIZE]).hexdigest().encode() != data[-_DIGEST_SIZE:]:
        raise ValueError("the checksum does not match")

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            arrays = {entry.filename.removesuffix(_SUFFIX): _read_array(archive, entry) for entry in archive.infolist()}
            header = json.loads(arrays.pop("header").tobytes())
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError, RuntimeError, RecursionError) as error:
        raise ValueError(f"it is not a container of arrays: {error}") from error
    if not isinstance(header, dict):
        raise ValueError(f"its header is {header!r}")
    return header, arrays


def is_count(value: Any) -> bool:
    """Return whether a value of a header is a whole number from 0 to 2^63 - 1."""
    return type(value) is int and 0 <= value < 2**63


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    """Return an array after checking its size, so that a wrong header allocates no memory. Raises ValueError."""
    if entry.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{entry.filename} is compressed")

    # Only the version that `encode` writes; numpy would also read others.
    content = archive.read(entry)
    stream = io.BytesIO(content)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError(f"{entry.filename} is not in version 1.0 of the .npy format")
    shape, fortran_order, dtype = npy.read_array_header_1_0(stream)

    # Arrays of objects hold pickles, which can execute code.
    values = memoryview(content)[stream.tell() :]
    if dtype.hasobject or fortran_order or not dtype.itemsize or prod(shape) * dtype.itemsize != len(values):
        raise ValueError(f"{entry.filename} claims {dtype} {shape} and has {len(values)} bytes")
    return np.frombuffer(values, dtype).reshape(shape).copy()
