"""Named tensors in a .safetensors file, or in a file of `torch.save`, read without executing code.

In a file of `torch.save` the keys of nested mappings are joined by dots: `{"model": state_dict, "step": 3}` has the
tensors `model.NAME`. Values that are not tensors are left out.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainers.errors import WeightsError, get_first_line
from trainers.files.file_digest import compute_file_digest

TensorShapes = Mapping[str, tuple[int, ...]]


def read_shapes(path: Path) -> tuple[TensorShapes, bool]:
    """Return the shape of every tensor by name, and whether lengthwise wrote the file at the end of a training.

    Raises WeightsError naming the file.
    """
    try:
        return _read_shapes(path, compute_file_digest(path))
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return every tensor by name, on the CPU. Raises WeightsError naming the file."""
    return _read_file(path, "cpu")[0]


@lru_cache(maxsize=1024)
def _read_shapes(path: Path, sha256: str) -> tuple[TensorShapes, bool]:
    """Return the results of `read_shapes` for a file with this hash, cached."""
    tensors, is_lengthwise_file = _read_file(path, "meta")
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}, is_lengthwise_file


def _read_file(path: Path, device: str) -> tuple[dict[str, Tensor], bool]:
    """Return all tensors of a file on a device (`meta` reads only shapes), and whether lengthwise wrote the file."""
    # `weights_only` keeps pickle from executing code.
    if path.suffix != ".safetensors":
        try:
            content: Any = torch.load(path, map_location=device, weights_only=True)
        except Exception as error:  # zipfile, pickle and torch raise many types
            raise WeightsError(f"{path}: is not a state_dict written by torch.save: {get_first_line(error)}") from error
        return dict(_flatten(content)), False

    # Only files of lengthwise have its entry in their metadata.
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            if device == "meta":
                tensors = {name: torch.empty(file.get_slice(name).get_shape(), device=device) for name in names}
            else:
                tensors = {name: file.get_tensor(name) for name in names}
            return tensors, "lengthwise" in (file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path}: is not a .safetensors file: {error}") from error


def _flatten(content: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of nested mappings with their keys joined by dots."""
    if isinstance(content, Tensor):
        yield prefix.removesuffix("."), content.detach()
    elif isinstance(content, Mapping):
        for name, value in content.items():
            yield from _flatten(value, f"{prefix}{name}.")
