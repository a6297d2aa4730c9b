"""Excel workbooks: the first sheet, row by row."""

import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile

from bncl_pyg.corpus.tables.delimited import cell_of
from bncl_pyg.corpus.tables.rows import Row, as_text
from bncl_pyg.corpus.tables.streams import Source
from bncl_pyg.errors import InputError, missing_extra

MOST_ROWS, LONGEST_CELL = 1_048_576, 32_767
"""What a sheet can hold."""
_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def check_package(name: str) -> None:
    """Raise unless workbooks can be read and written."""
    try:
        import openpyxl  # noqa: F401
    except ImportError:
        raise missing_extra(f"Reading or writing {name}", "openpyxl", "excel") from None


def columns_of(source: Source) -> tuple[str, ...]:
    """Return what the first row names."""
    return _header(source, next(_cells(source), (0, ()))[1])


def read(source: Source) -> Iterator[Row]:
    """Yield the rows that are not empty."""
    rows = _cells(source)
    columns = _header(source, next(rows, (0, ()))[1])
    for number, cells in rows:
        fields = dict(zip(columns, cells, strict=False))
        if any(value is not None for value in fields.values()):
            yield Row(source.name, number, fields, columns, has_lists=False, unit="row")


def _cells(source: Source) -> Iterator[tuple[int, tuple[Any, ...]]]:
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    with source.path.open("rb") as file:
        # What openpyxl raises of a damaged workbook depends on which of the parts of the archive is damaged.
        damage = (InvalidFileException, BadZipFile, zlib.error, ParseError, EOFError, NotImplementedError)
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            if not book.worksheets:
                raise InputError(f"{source.name} has no sheet.")
            yield from enumerate(book.worksheets[0].iter_rows(values_only=True), start=1)
            book.close()
        except InputError:
            raise
        except (*damage, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{source.name} is not a readable Excel workbook ({error}).") from None


def _header(source: Source, cells: Sequence[Any]) -> tuple[str, ...]:
    names = ["" if cell is None else as_text(cell).strip() for cell in cells]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise InputError(f"{source.name} is empty: the first row of its first sheet must name the columns.")
    names = [name or f"column {place}" for place, name in enumerate(names, start=1)]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"{source.name} has two columns '{name}'.")
    return tuple(names)


class Writer:
    """Writes rows into the first sheet of a workbook.

    Args:
        path: where to.
        columns: the header.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        import openpyxl

        self._path, self._columns, self._count = path, columns, 1
        self._book = openpyxl.Workbook(write_only=True)
        self._sheet = self._book.create_sheet()
        self._sheet.append([self._cell(name) for name in columns])

    def write(self, fields: Mapping[str, Any]) -> None:
        """Write a row."""
        self._count += 1
        if self._count > MOST_ROWS:
            raise InputError(f"An Excel sheet holds at most {MOST_ROWS} rows; write another format.")
        self._sheet.append([self._cell(fields.get(column)) for column in self._columns])

    def _cell(self, value: Any) -> Any:
        from openpyxl.cell import WriteOnlyCell

        if hasattr(value, "tzinfo") and value.tzinfo is not None:
            value = value.isoformat()  # a sheet knows no time zones
        value = value if hasattr(value, "isoformat") else cell_of(value)
        if not isinstance(value, str):
            return value
        if len(value) > LONGEST_CELL:
            raise InputError(
                f"Row {self._count} has a cell of {len(value)} letters, but Excel holds at most {LONGEST_CELL}; write "
                f"another format."
            )
        cell = WriteOnlyCell(self._sheet, _ILLEGAL.sub("\ufffd", value))
        cell.data_type = "s"  # a text that begins with "=" is no formula
        return cell

    def close(self) -> None:
        """Write the workbook."""
        self._book.save(self._path)

    def abort(self) -> None:
        """Let go of the temporary files, which only saving does."""
        self._book.save(io.BytesIO())
