"""The texts of a run, as all workers read them: cleaned, with ids, hashes and the lines that they stand on.

    OUT.input/
      00000000.safetensors   of the first table: "text" and "ids" (bytes,), "ends" and "id_ends" (texts,): where each
                             ends, "sha256" (texts, 32), "lines" and "numbers" (texts,): its line, and which row it is
      00000000.json          what it was made from, and the SHA-256 of the file

Each table is read once, by one worker; a text then is where a shard wants it, whatever the format and however large the
table is. What is there of a table that has not changed since is used again.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.corpus import Columns, Html, TextCleaner, TextTable
from bncl_pyg.distributed.inputs import fingerprint, open_table
from bncl_pyg.errors import InputError
from bncl_pyg.persistence import ArraySpool, map_arrays, read_manifest, sha256_of, write_arrays, write_manifest

KIND = "input"
CHUNK = 4096
"""How many texts are held at once while a table is read."""


@dataclass(frozen=True)
class InputOptions:
    """How tables are read.

    Args:
        text: the columns that make up a text; `text`, if not given.
        id: what identifies a row; the column `id` or, where there is none, the number of the row.
        skip_empty: whether rows without a text are left out, which are an error otherwise.
        html: see `TextCleaner`.
    """

    text: str | None = None
    id: str | None = None
    skip_empty: bool = False
    html: Html = "auto"


def input_folder(out: Path) -> Path:
    """Return where the texts lie while an output is made from them."""
    return out.with_name(f"{out.name}.input")


def read_table(source: str, number: int, folder: Path, options: InputOptions) -> dict[str, Any]:
    """Read one table into the folder, unless that was done; return what is known of it.

    Args:
        source: the table's name.
        number: which of the tables it is.
        folder: where to.
        options: how.
    """
    made_from = {**fingerprint(source), **asdict(options)}
    name, file = f"{number:08d}.json", folder / f"{number:08d}.safetensors"
    if (folder / name).is_file() and file.is_file():
        known = read_manifest(folder, KIND, check_files=False, name=name)
        if known["made_from"] == made_from and known["files"] == {file.name: sha256_of(file)}:
            return known
    cleaner = TextCleaner(options.html)
    with open_table(source) as opened, ArraySpool(folder) as spool:
        table = TextTable(opened, Columns.of(options.text, options.id), skip_empty=options.skip_empty)
        arrays, rows, unit = _spooled(table, cleaner, spool)
        write_arrays(file, arrays)
        content = {
            "made_from": made_from,
            "name": table.table.name,
            "unit": unit,
            "rows": rows,
            "texts": len(arrays["ends"]),
            "has_ids": table.has_ids,
            "skipped": table.skipped,
            "stripped": cleaner.stripped,
            "foreign": cleaner.foreign,
        }
    write_manifest(folder, KIND, content, {file.name: sha256_of(file)}, name=name)
    return read_manifest(folder, KIND, check_files=False, name=name)


def _spooled(table: TextTable, cleaner: TextCleaner, spool: ArraySpool) -> tuple[dict[str, NDArray[Any]], int, str]:
    """Go through a table; return its texts as arrays, how many rows there are, and what its lines are called."""
    rows = count = text_end = id_end = 0
    unit = "line"
    for rows, (row, content) in enumerate(table, start=1):
        unit = row.unit
        if content is None:
            continue
        text, identifier = cleaner(content).encode(), table.identifier(row, rows).encode()
        text_end, id_end, count = text_end + len(text), id_end + len(identifier), count + 1
        spool.write("text", text)
        spool.write("ids", identifier)
        spool.write("sha256", hashlib.sha256(text).digest())
        for name, value in (("ends", text_end), ("id_ends", id_end), ("lines", row.line), ("numbers", rows)):
            spool.write(name, value.to_bytes(8, "little"))
    arrays = {name: spool.array(name, "<i8", (count,)) for name in ("ends", "id_ends", "lines", "numbers")}
    arrays |= {"text": spool.array("text", "<u1", (text_end,)), "ids": spool.array("ids", "<u1", (id_end,))}
    return {**arrays, "sha256": spool.array("sha256", "<u1", (count, 32))}, rows, unit


class InputTexts:
    """The texts of all tables, one table after the other, mapped into memory.

    Args:
        folder: where they lie.
        tables: how many tables there are.
    """

    def __init__(self, folder: Path, tables: int) -> None:
        self.folder = folder
        self.known = [
            read_manifest(folder, KIND, check_files=False, name=f"{number:08d}.json") for number in range(tables)
        ]
        self._arrays = [map_arrays(folder / f"{number:08d}.safetensors") for number in range(tables)]
        self._starts: list[int] = np.cumsum([0, *(one["texts"] for one in self.known)]).tolist()
        self._rows: list[int] = np.cumsum([0, *(one["rows"] for one in self.known)]).tolist()
        with_ids = [one for one in self.known if one["has_ids"]]
        if 0 < len(with_ids) < tables:
            without = next(one["name"] for one in self.known if not one["has_ids"])
            raise InputError(f"{without} has no column of ids, but {with_ids[0]['name']} has; give all of them ids.")
        self._has_ids = bool(with_ids)

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def rows(self) -> int:
        """How many rows there are, those without a text too."""
        return self._rows[-1]

    def total(self, what: str) -> int:
        """Return how many rows of all tables were skipped, stripped or foreign."""
        return sum(int(one[what]) for one in self.known)

    def _table(self, place: int) -> tuple[int, int]:
        table = bisect_right(self._starts, place) - 1
        return table, place - self._starts[table]

    def text(self, place: int) -> str:
        """Return a text."""
        table, inside = self._table(place)
        return _string(self._arrays[table], "text", "ends", inside)

    def id(self, place: int) -> str:
        """Return an id: the row's own, or its number among the rows of all tables."""
        table, inside = self._table(place)
        if self._has_ids:
            return _string(self._arrays[table], "ids", "id_ends", inside)
        return str(self._rows[table] + int(self._arrays[table]["numbers"][inside]))

    def line(self, place: int) -> str:
        """Return where a text stands, for a message."""
        table, inside = self._table(place)
        known = self.known[table]
        return f"{known['name']}, {known['unit']} {int(self._arrays[table]['lines'][inside])}"

    def row_line(self, row: int) -> str:
        """Return where a row stands that has a text, for a message; rows count from 0."""
        table = bisect_right(self._rows, row) - 1
        number = row - self._rows[table] + 1
        return self.line(self._starts[table] + int(np.searchsorted(self._arrays[table]["numbers"], number)))

    def hashed(self) -> Iterator[tuple[str, str]]:
        """Yield id and SHA-256 of every text."""
        for place in range(len(self)):
            table, inside = self._table(place)
            yield self.id(place), self._arrays[table]["sha256"][inside].tobytes().hex()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield id and text of every text."""
        return ((self.id(place), self.text(place)) for place in range(len(self)))

    def row_texts(self, first: int, last: int) -> list[str | None]:
        """Return the texts of a range of rows, from 0; `None` for a row without one."""
        texts: list[str | None] = [None] * (min(last, self.rows) - first)
        for number, arrays in enumerate(self._arrays):
            start = self._rows[number]
            begin, end = np.searchsorted(arrays["numbers"], [first - start + 1, last - start + 1])
            for inside in range(int(begin), int(end)):
                row = start + int(arrays["numbers"][inside]) - 1
                texts[row - first] = _string(arrays, "text", "ends", inside)
        return texts


def _string(arrays: dict[str, NDArray[Any]], content: str, ends: str, place: int) -> str:
    start = int(arrays[ends][place - 1]) if place else 0
    return arrays[content][start : int(arrays[ends][place])].tobytes().decode()


def texts_at(texts: InputTexts, places: Sequence[int]) -> list[str]:
    """Return the texts at some places."""
    return [texts.text(place) for place in places]
