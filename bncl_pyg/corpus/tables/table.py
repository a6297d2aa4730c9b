"""`Table`: the rows of a file, as often as they are wanted."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from bncl_pyg.corpus.tables import delimited, excel, json_rows, parquet
from bncl_pyg.corpus.tables.formats import Format
from bncl_pyg.corpus.tables.rows import Row, no_column
from bncl_pyg.corpus.tables.streams import Source

LOOKED_AT = 100
"""In how many rows a column is looked for where there is no header."""

_READERS: dict[Format, Callable[[Source], Iterator[Row]]] = {
    Format.CSV: delimited.read,
    Format.TSV: delimited.read,
    Format.JSONL: json_rows.read_lines_of,
    Format.JSON: json_rows.read_array,
    Format.PARQUET: parquet.read,
    Format.EXCEL: excel.read,
}


class Table:
    """A table to read.

        table = Table(Path("tickets.csv"))
        table.columns                          # ("ticket_id", "subject", "body")
        [row.fields["subject"] for row in table]

    Args:
        path: a file whose ending tells the format, a pipe, or "-" for standard input; pipes are read to their end
            first, and tell their format by how they begin.
        others: which other endings could be read here, for the error message.
        name: what messages call it, where the file is a copy of something.
    """

    def __init__(self, path: Path, others: str = "", name: str = "") -> None:
        self.source = Source.of(path, others)
        if name:
            self.source = replace(self.source, name=name)
        {Format.PARQUET: parquet.check_package, Format.EXCEL: excel.check_package}.get(self.format, str)(self.name)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.source.name

    @property
    def format(self) -> Format:
        """How it is written down."""
        return self.source.format

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        return _READERS[self.format](self.source)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the header names; without one, those of the first rows."""
        if self.format.has_header:
            return self._header()
        return _union(islice(self, LOOKED_AT))

    @cached_property
    def all_columns(self) -> tuple[str, ...]:
        """The columns of all rows, in the order in which they come."""
        return self._header() if self.format.has_header else _union(iter(self))

    @cached_property
    def types(self) -> dict[str, Any]:
        """The types of the columns, which only Parquet has."""
        return parquet.types_of(self.source) if self.format is Format.PARQUET else {}

    @cached_property
    def delimiter(self) -> str | None:
        """What separates cells, where something does."""
        return delimited.delimiter_of(self.source) if self.format in (Format.CSV, Format.TSV) else None

    @property
    def needs_mark(self) -> bool:
        """Whether a spreadsheet would take UTF-8 for another encoding: the table has a mark, or is no UTF-8."""
        return self.delimiter is not None and self.source.encoding != "utf-8"

    def check_column(self, column: str) -> None:
        """Raise an error that names the columns that there are, unless this is one of them."""
        if column not in self.columns:
            raise no_column(self.name, column, self.columns)

    def digest(self) -> str:
        """Return the SHA-256 of the file."""
        with self.source.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _header(self) -> tuple[str, ...]:
        if self.format is Format.PARQUET:
            return tuple(self.types)
        return excel.columns_of(self.source) if self.format is Format.EXCEL else delimited.columns_of(self.source)


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a table once."""
    yield from Table(path)


def _union(rows: Iterator[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for row in rows for column in row.fields))
