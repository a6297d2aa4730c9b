"""Which texts a store holds, without the texts: ids and hashes in arrays that are mapped into memory, never as strings.

    texts-r00000000.safetensors   "ids" (bytes,): UTF-8, one id after the other; "ends" (texts,): where each ends;
                                  "sha256" (texts, 32): of the texts; "keys" (texts,): 64 bits of each id's SHA-256,
                                  ascending, and "places" (texts,): where in this file the id of each key stands

A file holds the texts of one growth. A text costs its id and 56 bytes; of these, the 16 of keys and places are read
where texts come in another order than before. Two ids may have the same key: a key only says where to look.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import ArraySpool, map_arrays, write_arrays

Span = tuple[int, int]
"""The first row or column of a group and the one after its last."""
CHUNK = 2**16
"""How many texts are looked at together."""


def text_hash(text: str) -> str:
    """Return a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()


def id_key(identifier: str) -> int:
    """Return the 64 bits by which an id is looked for."""
    return int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:8], "little")


class RepeatedIdError(InputError):
    """Two texts have the same id.

    Attributes:
        identifier: the id.
        places: of the two texts, from 0.
    """

    def __init__(self, identifier: str, first: int, second: int) -> None:
        super().__init__(f"Two texts have the id '{identifier}'.")
        self.identifier, self.places = identifier, (first, second)


@dataclass(frozen=True)
class IndexPiece:
    """The texts of one growth.

    Args:
        ids: UTF-8, (bytes,).
        ends: where each id ends, (texts,).
        sha256: of the texts, (texts, 32).
        keys: ascending, (texts,).
        places: of the keys, (texts,).
    """

    ids: NDArray[np.uint8]
    ends: NDArray[np.int64]
    sha256: NDArray[np.uint8]
    keys: NDArray[np.uint64]
    places: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    @classmethod
    def read(cls, path: Path) -> "IndexPiece":
        """Map a file; one that holds anything else than an index is told."""
        if not path.is_file():
            raise InputError(f"{path} is missing: it holds the ids of the texts.")
        arrays = map_arrays(path)
        kinds = {"ids": "uint8", "ends": "int64", "sha256": "uint8", "keys": "uint64", "places": "int64"}
        if {name: str(array.dtype) for name, array in arrays.items()} != kinds:
            raise InputError(f"{path} is damaged: it must hold {', '.join(kinds)}.")
        piece = cls(**arrays)
        count = len(piece.ends)
        one_each = piece.keys.shape == piece.places.shape == piece.ends.shape == (count,)
        if not one_each or piece.ids.ndim != 1 or piece.sha256.shape != (count, 32):
            raise InputError(f"{path} is damaged: it does not hold one id and one hash a text.")
        if (int(piece.ends[-1]) if count else 0) != len(piece.ids):
            raise InputError(f"{path} is damaged: its ids do not end where they must.")
        return piece

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, the widest numbers first, as the format wants them."""
        return {name: getattr(self, name) for name in ("ends", "keys", "places", "ids", "sha256")}

    def write(self, path: Path) -> None:
        """Write it as safetensors, array by array, so that it need not fit into memory."""
        write_arrays(path, self.arrays())

    def start(self, place: int) -> int:
        """Return where an id begins."""
        return int(self.ends[place - 1]) if place else 0

    def id(self, place: int) -> str:
        """Return an id."""
        return bytes(self.ids[self.start(place) : int(self.ends[place])]).decode()

    def id_bytes(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the ids of a range."""
        start = self.start(first)
        content = bytes(self.ids[start : self.start(last)])
        before = 0
        for end in (self.ends[first:last] - start).tolist():
            yield content[before:end]
            before = end

    def find(self, identifier: str, key: int) -> int:
        """Return the place of an id; -1 where it is not."""
        at = int(np.searchsorted(self.keys, np.uint64(key)))
        while at < len(self) and int(self.keys[at]) == key:
            place = int(self.places[at])
            if self.id(place) == identifier:
                return place
            at += 1
        return -1


class TextIndex:
    """The ids and hashes of texts, in the order of the rows."""

    def __init__(self, pieces: Sequence[IndexPiece] = ()) -> None:
        self.pieces = tuple(pieces)
        self.starts = np.cumsum([0, *(len(piece) for piece in self.pieces)]).tolist()

    def __len__(self) -> int:
        return int(self.starts[-1])

    @classmethod
    def of(cls, texts: Iterable[tuple[str, str]], folder: Path) -> "TextIndex":
        """Make an index of texts that come one after the other.

        Args:
            texts: id and SHA-256, in hexadecimal digits, of each.
            folder: what does not fit into memory goes into files here that have no name and vanish by themselves.
        """
        with _Spool(folder) as spool:
            for identifier, content in texts:
                spool.add(identifier, bytes.fromhex(content))
            piece = spool.piece()
            return cls([piece] if len(piece) else [])

    def chosen(self, places: NDArray[np.int64], folder: Path) -> IndexPiece:
        """Return some of the texts as one piece."""
        with _Spool(folder) as spool:
            for first in range(0, len(places), CHUNK):
                for place in places[first : first + CHUNK].tolist():
                    spool.add(self.id(place), bytes(self.sha256(place)))
            return spool.piece()

    def _piece(self, row: int) -> tuple[IndexPiece, int]:
        number = bisect_right(self.starts, row) - 1
        return self.pieces[number], row - self.starts[number]

    def id(self, row: int) -> str:
        """Return the id of a row."""
        piece, place = self._piece(row)
        return piece.id(place)

    def sha256(self, row: int) -> NDArray[np.uint8]:
        """Return the hash of a row's text, (32,)."""
        piece, place = self._piece(row)
        return np.asarray(piece.sha256[place])

    def _cut(self, rows: Span) -> Iterator[tuple[IndexPiece, int, int]]:
        for piece, start in zip(self.pieces, self.starts, strict=False):
            first, last = max(rows[0] - start, 0), min(rows[1] - start, len(piece))
            if first < last:
                yield piece, first, last

    def ids(self, rows: Span | None = None) -> tuple[str, ...]:
        """Return the ids of a group of rows, or of all, as strings."""
        wanted = (0, len(self)) if rows is None else rows
        return tuple(name.decode() for piece, a, b in self._cut(wanted) for name in piece.id_bytes(a, b))

    def hashes(self, rows: Span) -> NDArray[np.uint8]:
        """Return the hashes of the texts of a group of rows, (rows, 32)."""
        parts = [piece.sha256[first:last] for piece, first, last in self._cut(rows)]
        return np.concatenate(parts) if parts else np.zeros((0, 32), dtype=np.uint8)

    def digest(self, rows: Span) -> str:
        """Return a digest of the ids and the texts of a group of rows, in order."""
        total, cuts = hashlib.sha256(), list(self._cut(rows))
        # All of one kind after the other, so that it does not matter which texts came together.
        for piece, first, last in cuts:
            total.update(np.diff(piece.ends[first:last], prepend=piece.start(first)).astype("<i8").tobytes())
        for piece, first, last in cuts:
            total.update(piece.ids[piece.start(first) : piece.start(last)].tobytes())
        for piece, first, last in cuts:
            total.update(piece.sha256[first:last].tobytes())
        return total.hexdigest()

    def find(self, identifier: str, guess: int = -1) -> int:
        """Return the row of an id; -1 where there is none.

        Args:
            identifier: the id.
            guess: the row where it probably stands, which saves looking for it.
        """
        if 0 <= guess < len(self) and self.id(guess) == identifier:
            return guess
        key = id_key(identifier)
        for piece, start in zip(self.pieces, self.starts, strict=False):
            place = piece.find(identifier, key)
            if place >= 0:
                return int(start + place)
        return -1

    def check_unique(self) -> None:
        """Raise if two texts have the same id; only keys that two ids have are looked at."""
        for piece, start in zip(self.pieces, self.starts, strict=False):
            for at in _equal_neighbours(piece.keys).tolist():
                places = sorted(int(piece.places[near]) for near in (at, at + 1))
                if piece.id(places[0]) == piece.id(places[1]):
                    raise RepeatedIdError(piece.id(places[0]), start + places[0], start + places[1])

    @cached_property
    def copies(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows, ascending, that have the text of an earlier row, and the first row with that text; (copies,)."""
        keys = np.concatenate([_prefixes(piece.sha256) for piece in self.pieces] or [np.zeros(0, dtype=np.uint64)])
        order = np.argsort(keys, kind="stable")
        same = _equal_neighbours(keys[order])
        first: dict[bytes, int] = {}
        pairs = []
        for row in np.unique(order[np.concatenate([same, same + 1])] if len(same) else order[:0]).tolist():
            origin = first.setdefault(bytes(self.sha256(row)), row)
            if origin != row:
                pairs.append((row, origin))
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def first_rows(self, rows: Span) -> list[int]:
        """Return, for each row of a group, the first row that has its text."""
        copies, origins = self.copies
        first, last = np.searchsorted(copies, rows)
        origin = np.arange(*rows)
        origin[copies[first:last] - rows[0]] = origins[first:last]
        return [int(row) for row in origin]


def match(stored: TextIndex, given: TextIndex) -> tuple[NDArray[np.int64], tuple[int, bool] | None]:
    """Compare the texts that are given with those that are stored.

    Returns:
        Which given ones are new, and the first stored row that is not given, or given with another text, with whether
        it is given at all; `None` where there is no such row.
    """
    count = len(stored)
    if count <= len(given) and all(
        stored.digest((first, min(first + CHUNK, count))) == given.digest((first, min(first + CHUNK, count)))
        for first in range(0, count, CHUNK)
    ):
        return np.arange(count, len(given)), None
    new = np.ones(len(given), dtype=bool)
    for row in range(count):
        place = given.find(stored.id(row))
        if place < 0 or not np.array_equal(stored.sha256(row), given.sha256(place)):
            return np.zeros(0, dtype=np.int64), (row, place >= 0)
        new[place] = False
    return np.flatnonzero(new), None


class _Spool(ArraySpool):
    """Takes ids and hashes one after the other; holds a few of them and has the rest in files without a name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._count = self._end = 0
        self._ids: list[bytes] = []
        self._hashes: list[bytes] = []

    def __enter__(self) -> "_Spool":
        return self

    def add(self, identifier: str, content: bytes) -> None:
        self._ids.append(identifier.encode())
        self._hashes.append(content)
        if len(self._ids) == CHUNK:
            self._flush()

    def _flush(self) -> None:
        ends = self._end + np.cumsum([len(one) for one in self._ids], dtype=np.int64)
        self.write("ids", b"".join(self._ids))
        self.write("ends", ends.tobytes())
        self.write("sha256", b"".join(self._hashes))
        self.write("keys", b"".join(hashlib.sha256(one).digest()[:8] for one in self._ids))
        self._count, self._end = self._count + len(ends), int(ends[-1])
        self._ids, self._hashes = [], []

    def piece(self) -> IndexPiece:
        """Return all that was added."""
        if self._ids:
            self._flush()
        keys = self.array("keys", "<u8", (self._count,))
        order = np.argsort(keys, kind="stable")
        return IndexPiece(
            self.array("ids", "<u1", (self._end,)),
            self.array("ends", "<i8", (self._count,)),
            self.array("sha256", "<u1", (self._count, 32)),
            keys[order],
            order,
        )


def _prefixes(hashes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(hashes[:, :8]).view("<u8").reshape(-1)


def _equal_neighbours(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return where a value is the same as the next."""
    return np.flatnonzero(values[1:] == values[:-1])
