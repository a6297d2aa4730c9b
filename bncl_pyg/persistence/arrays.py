"""Arrays in safetensors files that need not fit into memory: written piece by piece, mapped when they are read."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.persistence.files import write_file

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
    """Return the arrays of a file, mapped into memory."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return {
        name: _mapped(path, _TYPES[entry["dtype"]], 8 + length + entry["data_offsets"][0], tuple(entry["shape"]))
        for name, entry in header.items()
    }


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
