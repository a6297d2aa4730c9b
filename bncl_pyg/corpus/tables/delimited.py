"""CSV and TSV: the delimiter is detected, quoted cells may span lines; a row is named by its first line."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

from bncl_pyg.corpus.tables.formats import Format
from bncl_pyg.corpus.tables.rows import LIST_SEPARATOR, Row, as_text
from bncl_pyg.corpus.tables.streams import Source
from bncl_pyg.errors import InputError

DELIMITERS = ",;\t|"
"""In the order of preference."""
SAMPLE = 1 << 16
"""How many letters are looked at to tell the delimiter."""
LONGEST_CELL = 2**31 - 1
_NAMED = re.compile(r"sep=(.)\r?\n")
"""What Excel writes, and reads, before the header."""


def delimiter_of(source: Source) -> str:
    """Return what separates the cells: tabs in a TSV; else what cuts the first rows into the most equal pieces."""
    if source.format is Format.TSV:
        return "\t"
    with source.text(newline="") as file:
        sample = file.read(SAMPLE)
    if named := _NAMED.match(sample):
        return named[1]
    counts = {delimiter: _regularity(sample, delimiter) for delimiter in DELIMITERS}
    best = max(counts, key=lambda delimiter: counts[delimiter])
    return best if counts[best][1] > 1 else ","


def _regularity(sample: str, delimiter: str) -> tuple[float, int]:
    """Return which share of the rows has as many cells as the header, and how many that are."""
    lines = io.StringIO(sample, newline="")
    widths: list[int] = []
    with suppress(csv.Error):  # what is no CSV is told by whoever reads it
        widths.extend(len(cells) for cells in csv.reader(lines, delimiter=delimiter) if cells)
    if len(widths) > 2 and len(sample) == SAMPLE:
        widths.pop()
    if not widths or widths[0] < 2:
        return 0.0, 0
    return sum(width == widths[0] for width in widths) / len(widths), widths[0]


def columns_of(source: Source) -> tuple[str, ...]:
    """Return what the header names."""
    with source.text(newline="") as file:
        return _header(source, _records(source, file))


def read(source: Source) -> Iterator[Row]:
    """Yield the rows."""
    with source.text(newline="") as file:
        records = _records(source, file)
        columns = _header(source, records)
        for line, cells in records:
            if len(cells) > len(columns):
                raise InputError(f"{source.name}, line {line}: has more cells than the header has columns.")
            yield Row(source.name, line, dict(zip(columns, cells, strict=False)), columns, has_lists=False)


def _header(source: Source, records: Iterator[tuple[int, list[str]]]) -> tuple[str, ...]:
    _, cells = next(records, (0, []))
    if not cells:
        raise InputError(f"{source.name} is empty.")
    if cells[0].lstrip().startswith("{") and source.format is Format.CSV:
        raise InputError(f"{source.name} holds JSON lines, not CSV; let its name end in .jsonl.")
    names: list[str] = []
    for place, cell in enumerate(cells, start=1):
        # Spreadsheets leave columns without a name: the first keeps its own, which is none.
        name = cell.strip() or ("" if "" not in names else f"column {place}")
        if name in names:
            raise InputError(f"{source.name} has two columns '{name}'.")
        names.append(name)
    return tuple(names)


def _records(source: Source, file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which a record begins, and its cells; blank lines are left out."""
    csv.field_size_limit(LONGEST_CELL)
    delimiter, offset = delimiter_of(source), 1
    if source.format is Format.CSV:
        start = file.readline()
        if _NAMED.match(start):
            offset = 2
        else:
            file = _again(start, file)
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    line = offset
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + offset
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise InputError(f"{source.name}, line {line}: a quote is opened and never closed.") from None
        raise InputError(f"{source.name}, line {line}: not valid CSV ({error}).") from None
    except UnicodeDecodeError:
        raise InputError(f"{source.name}, line {line} or after it: not text.") from None


def _again(first: str, rest: TextIO) -> Any:
    """Yield a line that was read already before the others."""
    if first:
        yield first
    yield from rest


class Writer:
    """Writes rows as CSV or TSV.

    Args:
        file: where to.
        columns: the header.
        delimiter: what separates the cells.
        given: columns of the table that it is made from, which stay as they are.
    """

    def __init__(self, file: TextIO, columns: Sequence[str], delimiter: str, given: Sequence[str] = ()) -> None:
        self._columns = columns
        self._writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        self._writer.writerow([name if name in given else _no_formula(name) for name in columns])

    def write(self, fields: Mapping[str, Any]) -> None:
        """Write a row."""
        self._writer.writerow([self._cell(fields.get(column)) for column in self._columns])

    @staticmethod
    def _cell(value: Any) -> Any:
        # Lists are ours, and hold labels; what else stands in the table is given back as it came.
        return _no_formula(cell_of(value)) if isinstance(value, list | tuple) else cell_of(value)

    def close(self) -> None:
        """Do nothing: a line is whole when it is written."""

    def abort(self) -> None:
        """Do nothing: nothing is held."""


def _no_formula(cell: str) -> str:
    """Return a cell that a spreadsheet does not compute; whoever reads it here again leaves the blank out."""
    return f" {cell}" if cell.startswith(("=", "+", "-", "@")) else cell


def cell_of(value: Any) -> Any:
    """Return what stands in a cell that can hold no list: names with semicolons between, anything deeper as JSON."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple) and all(isinstance(part, str | int | float) for part in value):
        return f"{LIST_SEPARATOR} ".join(map(as_text, value))
    return json.dumps(value, ensure_ascii=False, default=as_text) if isinstance(value, list | dict) else as_text(value)
