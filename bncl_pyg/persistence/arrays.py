"""Arrays in safetensors files that need not fit into memory: written piece by piece, mapped when they are read."""

import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.persistence.files import write_file
from bncl_pyg.persistence.json_text import parse_json

PIECE = 2**22
"""How many rows of an array are copied at a time."""
_TYPES: dict[str, np.dtype[Any]] = {
    "U8": np.dtype("<u1"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a file of arrays atomically; wide numbers must come first, so that all lie where they can be mapped."""
    header, start = {}, 0
    for name, array in arrays.items():
        end = start + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    words = json.dumps(header, separators=(",", ":")).encode()
    words += b" " * (-len(words) % 8)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.write(len(words).to_bytes(8, "little") + words)
            for array in arrays.values():
                for first in range(0, len(array), PIECE):
                    file.write(array[first : first + PIECE].tobytes())

    write_file(path, write)


def map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, mapped into memory; a header that lies about the file is told."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise InputError(f"{path} is damaged: its header would be longer than the file.")
        try:
            header = parse_json(file.read(length).decode())
        except ValueError:
            raise InputError(f"{path} is damaged: its header is no JSON.") from None
    if not isinstance(header, dict):
        raise InputError(f"{path} is damaged: its header is no JSON object.")
    return {name: _described(path, name, entry, 8 + length, size) for name, entry in header.items()}


def _described(path: Path, name: str, entry: Any, start: int, size: int) -> NDArray[Any]:
    """Return the array that an entry of a header describes, after checking that it lies in the file."""
    described: dict[str, Any] = entry if isinstance(entry, dict) else {}
    kind: Any = described.get("dtype")
    shape: Any = described.get("shape")
    offsets: Any = described.get("data_offsets")
    if not isinstance(kind, str) or kind not in _TYPES or not _are_counts(shape) or not _are_counts(offsets, 2):
        raise InputError(f"{path} is damaged: its header does not describe '{name}' as an array.")
    first, last = offsets
    if last - first != math.prod(shape) * _TYPES[kind].itemsize or start + last > size:
        raise InputError(f"{path} is damaged: '{name}' is not as large as its header says.")
    return _mapped(path, _TYPES[kind], start + first, tuple(shape))


def _are_counts(values: Any, count: int | None = None) -> bool:
    whole = isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
    return whole and count in (None, len(values))


class ArraySpool:
    """Takes arrays bit by bit into files that have no name, and vanish by themselves.

    Args:
        folder: where these files lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}

    def __enter__(self) -> "ArraySpool":
        return self

    def __exit__(self, *_: object) -> None:
        # Arrays that are mapped stay readable when their file is closed.
        for file in self._files.values():
            file.close()

    def write(self, name: str, content: bytes) -> None:
        """Add to an array."""
        if name not in self._files:
            self._files[name] = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed at the end)
        self._files[name].write(content)

    def array(self, name: str, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return an array, mapped into memory."""
        if not all(shape):
            return np.zeros(shape, kind)
        self._files[name].flush()
        return _mapped(self._files[name], np.dtype(kind), 0, shape)


def _mapped(file: Path | BinaryIO, kind: np.dtype[Any], offset: int, shape: tuple[int, ...]) -> NDArray[Any]:
    # Nothing cannot be mapped. A plain array of what is mapped is cut into pieces much faster than a memmap.
    return np.asarray(np.memmap(file, kind, "r", offset, shape)) if all(shape) else np.zeros(shape, kind)
