"""Tables out: the format is the ending's; a file is whole or absent, and never replaced unasked."""

import io
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from bncl_pyg.corpus.tables import delimited, excel, json_rows, parquet
from bncl_pyg.corpus.tables.formats import STANDARD_STREAM, Format, format_of
from bncl_pyg.corpus.tables.streams import packed, zstandard
from bncl_pyg.corpus.tables.table import Table
from bncl_pyg.persistence import check_new_file, is_stream, write_file


class _Writer(Protocol):
    def write(self, fields: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


def check_new_table(path: Path, like: Table | None = None, *, overwrite: bool = False) -> Format:
    """Return the format in which a table will be written; raise if it cannot be, before any work is done.

    Args:
        path: a file, or "-" for standard output.
        like: the table that it is made from, whose format it takes where it has no ending.
        overwrite: whether a file that is there may be replaced.
    """
    known, compression = _format(path, like)
    if path != STANDARD_STREAM:
        check_new_file(path, overwrite=overwrite)
    if compression == ".zst":
        zstandard()
    {Format.PARQUET: parquet.check_package, Format.EXCEL: excel.check_package}.get(known, str)(str(path))
    return known


def write_table(
    path: Path,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, Any]],
    *,
    like: Table | None = None,
    list_types: Mapping[str, type] | None = None,
    overwrite: bool = False,
) -> None:
    """Write rows as they come.

    Args:
        path: a file whose ending tells the format, a pipe or a device, or "-" for standard output.
        columns: the header, where the format has one; JSON has the fields of each row.
        rows: by column.
        like: the table that it is made from: a CSV has the delimiter of that one.
        list_types: what columns of lists hold, `str` or `float`, which Parquet must know if the first are empty.
        overwrite: whether a file that is there may be replaced.
    """
    known, compression = _format(path, like)
    check_new_table(path, like, overwrite=overwrite)

    def write(target: Path) -> None:
        if known.is_text:
            with packed(target, compression) as file:
                _write_text(file, known, columns, rows, like)
        else:
            _write_all(
                parquet.Writer(target, columns, {} if like is None else like.types, list_types or {})
                if known is Format.PARQUET
                else excel.Writer(target, columns),
                rows,
            )

    if path != STANDARD_STREAM:
        write_file(path, write)
        return
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "table"
        write(whole)
        with whole.open("rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _format(path: Path, like: Table | None) -> tuple[Format, str]:
    if path == STANDARD_STREAM or is_stream(path):
        return (like.format if like is not None and like.format.is_text else Format.JSONL), ""
    return format_of(path)


def _write_text(
    file: BinaryIO, known: Format, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], like: Table | None
) -> None:
    is_delimited = known in (Format.CSV, Format.TSV)
    mark = is_delimited and like is not None and like.needs_mark
    text = io.TextIOWrapper(file, encoding="utf-8-sig" if mark else "utf-8", newline="", write_through=False)
    if is_delimited:
        given = like.delimiter if like is not None and like.format is known else None
        delimiter = given or {Format.CSV: ",", Format.TSV: "\t"}[known]
        _write_all(delimited.Writer(text, columns, delimiter, () if like is None else like.columns), rows)
    else:
        _write_all((json_rows.LinesWriter if known is Format.JSONL else json_rows.ArrayWriter)(text), rows)
    text.flush()
    text.detach()


def _write_all(writer: _Writer, rows: Iterable[Mapping[str, Any]]) -> None:
    try:
        for fields in rows:
            writer.write(fields)
    except BaseException:
        writer.abort()
        raise
    writer.close()
