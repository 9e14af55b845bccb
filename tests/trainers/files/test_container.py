"""Containers: what is read is what was written, and a file that claims more than it holds is refused."""

import hashlib
import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from trainers.files.container import decode, encode

DTYPES = st.one_of(arrays_of.integer_dtypes(), arrays_of.floating_dtypes(sizes=(32, 64)), arrays_of.boolean_dtypes())


@settings(max_examples=12)
@given(st.lists(st.from_regex("[a-z][a-z.0-9]{0,5}", fullmatch=True), unique=True, max_size=3), st.data())
def test_what_is_read_is_what_was_written(names, data) -> None:
    shapes = arrays_of.array_shapes(min_dims=0, min_side=0)
    arrays = {f"a.{name}": data.draw(arrays_of.arrays(DTYPES, shapes)) for name in names}
    header, read = decode(bytes(encode({"step": 3, "names": ["x"]}, arrays)))
    assert header == {"step": 3, "names": ["x"]} and list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype and read[name].flags.writeable
        np.testing.assert_array_equal(read[name], array)


def test_numpy_opens_it(tmp_path) -> None:
    (tmp_path / "a.npz").write_bytes(encode({}, {"theta": np.arange(3)}))
    with np.load(tmp_path / "a.npz") as file:
        assert file["theta"].tolist() == [0, 1, 2]


def forged(*entries: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive with a checksum that is right, and these entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(name, content)
        archive.comment = b"0" * 64
    data = file.getvalue()[:-64]
    return data + hashlib.sha256(data).hexdigest().encode()


def npy(descr: str, shape: object, values: bytes = b"\0" * 16) -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + values


HEADER = ("header.npy", npy("|u1", (2,), b"{}"))


def test_a_forged_archive_is_read_if_it_holds_what_it_claims() -> None:
    assert decode(forged(HEADER, ("a.npy", npy("<f8", (2,)))))[1]["a"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        *[("<f8", shape) for shape in [(3,), (2**40, 2**40), (2**62,), (-1, -2), (-2,), (2.0,), 2, "x", [2]]],
        *[(descr, (2,)) for descr in ["O", "V1000000000", "<f4", "nonsense", "<U4", "|S0"]],
    ],
)
def test_an_array_that_claims_what_the_file_does_not_hold_is_refused(descr, shape) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(forged(HEADER, ("a.npy", npy(descr, shape))))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        forged(),
        forged(("header.npy", b"")),
        forged(("header.npy", npy("|u1", (3,), b"[3]"))),
        forged(("header.npy", npy("|u1", (100_000,), b"[" * 100_000))),
        forged(HEADER, ("a.npy", npy("<f8", (2,))), compression=zipfile.ZIP_DEFLATED),
    ],
    ids=range(7),
)
def test_other_bytes_are_refused(data) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)
